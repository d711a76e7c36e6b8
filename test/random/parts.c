/* Views, and the parts of contents. All accesses up to now have treated the bytes of a part alike. */
#include "world.h"

#include <string.h>

/* ---- The parts of an object ---- */

/* The borders of views are borders of parts, too. */
struct part *ref_first_part(const struct object *object)
{
    struct object *const owner = object->owner;
    struct part *part = owner->part;
    if (object == owner)
        return part;
    while (part->begin != object->offset)
        part++;
    return part;
}

int ref_count_parts(const struct object *object)
{
    const struct part *const first = ref_first_part(object);
    int count = 1;
    if (object == object->owner)
        return object->parts;
    while (first[count - 1].end != object->offset + object->size)
        count++;
    return count;
}

bool ref_is_in_parts(const struct object *object)
{
    return object->root || object->views > 0 || object->parts > 1;
}

int ref_most_transfers(const struct object *object)
{
    return object->root || object->divided ? MOST_PARTS : 1;
}

enum shape ref_shape(const struct object *object)
{
    if (!object->root)
        return ROOT_IN_PARTS;
    return ref_count_parts(object) > 1 ? PARTS : ONE_PART;
}

unsigned ref_head(const struct object *object)
{
    unsigned all = SYNCED_MEM_SYNCED, any = 0;
    for
        EACH_PART(part, object)
        {
            all &= part->head;
            any |= part->head;
        }
    return all || !any ? all : SYNCED_MEM_MIXED;
}

bool ref_is_in_file(const struct object *object)
{
    for
        EACH_PART(part, object)
        {
            if (!part->in_file)
                return false;
        }
    return true;
}

static bool is_in_file_alone(const struct part *part)
{
    return part->in_file && !part->head;
}

bool ref_is_in_file_alone(const struct object *object)
{
    for
        EACH_PART(part, object)
        {
            if (is_in_file_alone(part))
                return true;
        }
    return false;
}

size_t ref_bytes_in_file_alone(const struct object *object)
{
    size_t bytes = 0;
    for
        EACH_PART(part, object)
        {
            bytes += is_in_file_alone(part) ? part_size(part) : 0;
        }
    return bytes;
}

bool ref_has_contents(const struct object *object)
{
    return ref_head(object) != SYNCED_MEM_UNINITIALIZED || ref_is_in_file_alone(object);
}

bool ref_has_all_contents(const struct object *object)
{
    for
        EACH_PART(part, object)
        {
            if (!part->head && !part->in_file)
                return false;
        }
    return true;
}

bool ref_all_at(const struct object *object, unsigned head)
{
    for
        EACH_PART(part, object)
        {
            if (part->head != head)
                return false;
        }
    return true;
}

bool ref_any_at(const struct object *object, unsigned head)
{
    for
        EACH_PART(part, object)
        {
            if (part->head == head)
                return true;
        }
    return false;
}

bool ref_is_defined(const struct object *object)
{
    for
        EACH_PART(part, object)
        {
            if (!part->defined)
                return false;
        }
    return true;
}

unsigned char *ref_bytes(const struct object *object)
{
    return object->owner->bytes + object->offset;
}

bool ref_overlap(const struct object *one, const struct object *other)
{
    return one->owner == other->owner && one->offset < other->offset + other->size &&
           other->offset < one->offset + one->size;
}

/* ---- Uses of pointers ---- */

/* Permits a stream that was given the pointer. For a pointer requested without a stream, permits a stream that the
 * library covers and that the caller's own order allows. */
static bool may_read(const struct object *owner, const struct part *part, int stream)
{
    if (stream < 0 || device_of_stream(stream) != get_device_of(owner))
        return false;
    if (part->writer == stream || (part->readers & in_set(stream)))
        return true;
    const bool loose = part->writer == NO_STREAM || (part->readers & in_set(NO_STREAM));
    if (!loose || domain_of_stream(stream) == DOMAIN_NONBLOCKING)
        return false;
    return stream % PLACES == LEGACY || part->loose_writer == NOBODY || part->loose_writer == stream;
}

static bool may_write(const struct object *owner, const struct part *part, int stream)
{
    if (stream >= 0 && part->writer == stream)
        return true;
    if (part->writer != NO_STREAM || !may_read(owner, part, stream))
        return false;
    return stream % PLACES == LEGACY || !(part->loose_readers & ~in_set(stream));
}

static bool permits(const struct object *owner, const struct part *part, enum use use, int stream)
{
    switch (use) {
    case HOST_READS:
        return part->host_reads && part->defined;
    case HOST_WRITES:
        return part->host_writes;
    case STREAM_READS:
        return part->defined && may_read(owner, part, stream);
    case STREAM_WRITES:
        break;
    }
    return may_write(owner, part, stream);
}

bool ref_permits(const struct object *object, enum use use, int stream, struct range *range)
{
    const size_t from = object->offset + range->offset, to = from + range->size;
    size_t begin = to, end = to;
    for
        EACH_PART(part, object)
        {
            if (part->end <= from || part->begin >= to || (begin < to && part->begin > end))
                continue;
            if (!permits(object->owner, part, use, stream))
                continue;
            if (begin == to)
                begin = part->begin > from ? part->begin : from;
            end = part->end < to ? part->end : to;
        }
    *range = (struct range){begin - object->offset, end - begin};
    return begin < to;
}

/* ---- Views ---- */

static bool are_equal(const struct part *one, const struct part *other)
{
    struct part moved = *other;
    moved.begin = one->begin;
    moved.end = one->end;
    return memcmp(one, &moved, sizeof moved) == 0;
}

/* Returns whether a view begins or ends there. */
static bool is_border(const struct object *root, size_t at)
{
    for (int i = FIRST_VIEW; i < OBJECTS; i++) {
        const struct object *const view = &world.objects[i];
        if (view->mem && view->owner == root && (view->offset == at || view->offset + view->size == at))
            return true;
    }
    return false;
}

static void drop_part(struct object *root, int at)
{
    root->part[at].end = root->part[at + 1].end;
    root->parts--;
    memmove(root->part + at + 1, root->part + at + 2, (size_t)(root->parts - at - 1) * sizeof *root->part);
}

void ref_join(struct object *root)
{
    for (int i = 0; i + 1 < root->parts;) {
        if (!is_border(root, root->part[i].end) && are_equal(&root->part[i], &root->part[i + 1]))
            drop_part(root, i);
        else
            i++;
    }
}

/* Both halves inherit the state, and the work in flight. */
static void cut_at(struct object *root, size_t at)
{
    int i = 0;
    while (i < root->parts && root->part[i].end <= at)
        i++;
    if (i == root->parts || root->part[i].begin == at)
        return;
    if (root->parts == MOST_PARTS)
        fail("the test has too many parts");
    memmove(root->part + i + 1, root->part + i, (size_t)(root->parts - i) * sizeof *root->part);
    root->parts++;
    root->part[i].end = root->part[i + 1].begin = at;
}

void ref_cut(struct object *object, size_t at)
{
    cut_at(object->owner, object->offset + at);
}

void ref_viewed(struct object *view, synced_mem *mem, struct object *root, size_t offset, size_t size)
{
    ref_created(view, mem, size);
    view->root = root;
    view->root_offset = offset;
    root->views++;
    if (size == 0)
        return;
    view->owner = root;
    view->offset = offset;
    root->views_with_bytes++;
    root->divided = true;
    cut_at(root, offset);
    cut_at(root, offset + size);
}

void ref_unviewed(struct object *view)
{
    struct object *const root = view->root;
    root->views--;
    root->views_with_bytes -= view->size > 0;
    view->mem = NULL;
    view->root = NULL;
    view->owner = view;
    ref_join(root);
}
