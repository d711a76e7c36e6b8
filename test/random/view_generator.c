/* Chooses operations on views and on objects in parts. */
#include "generator.h"

enum { ALIGNED = 64, KINDS = 16 };

/* ---- New views ---- */

static int find_free_place(void)
{
    for (int i = FIRST_VIEW; i < OBJECTS; i++)
        if (!world.objects[i].mem)
            return i;
    return -1;
}

static struct range make_range(uint32_t begin, uint32_t end)
{
    return begin < end ? (struct range){begin, end - begin} : (struct range){end, begin - end};
}

/* Mostly a part, at any place or at an aligned one. Sometimes all, nothing, a half, or too much. */
static struct range range_by_chance(struct generator *generator, uint32_t size)
{
    const uint32_t begin = chance(generator, size + 1), end = chance(generator, size + 1);
    switch (chance(generator, KINDS)) {
    case 0:
        return make_range(0, size);
    case 1:
        return make_range(begin, begin);
    case 2:
        return make_range(0, size / 2);
    case 3:
        return make_range(size / 2, size);
    case 4:
        return one_in(generator, 4) ? (struct range){begin, size} : make_range(begin, end);
    case 5:
    case 6:
    case 7:
        return make_range(begin - begin % ALIGNED, end);
    default:
        return make_range(begin, end);
    }
}

static void enqueue_view_of(struct generator *generator, int place, int of)
{
    const struct range range = range_by_chance(generator, (uint32_t)world.objects[of].size);
    const int object = generator->object;
    generator->object = place;
    enqueue(generator, OP_VIEW, 0, (uint32_t)range.offset,
            view_arguments(of, range.size, random_next(&generator->random)));
    generator->object = object;
}

/* Picks an object that may have views. Mostly one with several bytes. */
static int pick_viewed(struct generator *generator)
{
    int found = -1;
    uint32_t count = 0;
    for (int i = PLAIN; i < OBJECTS; i++)
        if (world.objects[i].mem && (world.objects[i].size > 1 || one_in(generator, 8)) &&
            chance(generator, ++count) == 0)
            found = i;
    return found;
}

bool choose_view(struct generator *generator)
{
    const int of = pick_viewed(generator);
    if (of >= 0)
        enqueue_view_of(generator, generator->object, of);
    return of >= 0;
}

void enqueue_view_of_size(struct generator *generator, uint32_t size)
{
    for (int i = PLAIN; i < OBJECTS; i++) {
        const struct object *const of = &world.objects[i];
        if (!of->mem || of->size < size)
            continue;
        enqueue(generator, OP_VIEW, 0, chance(generator, (uint32_t)of->size - size + 1), view_arguments(i, size, 0));
        return;
    }
}

/* ---- By the present state ---- */

static int stream_of(struct generator *generator, const struct object *object)
{
    return device_for(object) * PLACES + place_of(generator, domain_by_chance(generator));
}

/* Uses pointers that are still valid, by another object of the same bytes. */
static void enqueue_other_use(struct generator *generator, int stream)
{
    static const unsigned char uses[] = {OP_KERNEL_WRITE, OP_KERNEL_READ, OP_HOST_WRITE, OP_HOST_READ};
    const int object = generator->object;
    uint32_t count = 0;
    for (int i = PLAIN; i < OBJECTS; i++)
        if (world.objects[i].mem && world.objects[i].owner == world.objects[object].owner &&
            chance(generator, ++count) == 0)
            generator->object = i;
    enqueue(generator, uses[chance(generator, sizeof uses)], stream, chance(generator, 250),
            one_in(generator, 2) ? 0 : random_next(&generator->random));
    generator->object = object;
}

/* Adds the call with its preparations, and uses of other pointers that it leaves valid. */
static void enqueue_rare(struct generator *generator, int code)
{
    const struct object *const object = &world.objects[generator->object];
    const int place = find_free_place();
    if (code == OP_VIEW && place >= 0)
        enqueue_view_of(generator, place, generator->object);
    if (code == OP_VIEW)
        return;
    if (code == OP_RELEASE)
        enqueue(generator, OP_RETAIN, 0, 0, 0);
    const int stream = stream_of(generator, object);
    enqueue_call(generator, code, stream);
    if (one_in(generator, 2))
        enqueue_other_use(generator, stream);
    if (one_in(generator, 4))
        enqueue_other_use(generator, stream_of(generator, object));
}

static unsigned enough_in_parts(void)
{
    return VIEW_CELL_GOAL * 3 / 2 * (unsigned)(1 + shared->calls / 400000);
}

bool choose_by_parts(struct generator *generator)
{
    const struct object *const object = &world.objects[generator->object];
    struct view_cell cell = {.head = (unsigned char)ref_head(object), .shape = (unsigned char)ref_shape(object)};
    unsigned least = enough_in_parts();
    int code = -1;
    for (cell.code = 0; cell.code < OP_CODES; cell.code++) {
        if (view_cell_is_impossible(&cell) || *view_cell_count(&cell) >= least)
            continue;
        least = *view_cell_count(&cell);
        code = cell.code;
    }
    if (code >= 0)
        enqueue_rare(generator, code);
    return code >= 0;
}

/* ---- A way to one cell ---- */

static int pick_shape(struct generator *generator, enum shape shape)
{
    int found = -1;
    uint32_t count = 0;
    for (int i = PLAIN; i < OBJECTS; i++)
        if (world.objects[i].mem && ref_is_in_parts(&world.objects[i]) && ref_shape(&world.objects[i]) == shape &&
            world.objects[i].size > 0 && chance(generator, ++count) == 0)
            found = i;
    return found;
}

static bool covers(const struct object *one, const struct object *other)
{
    return one->offset <= other->offset && one->offset + one->size >= other->offset + other->size;
}

/* Picks a view of some bytes of the object, and not of all. */
static int pick_within(struct generator *generator, const struct object *object)
{
    int found = -1;
    uint32_t count = 0;
    for (int i = FIRST_VIEW; i < OBJECTS; i++) {
        const struct object *const view = &world.objects[i];
        if (view->mem && ref_overlap(view, object) && !covers(view, object) && chance(generator, ++count) == 0)
            found = i;
    }
    return found;
}

static void enqueue_write(struct generator *generator, int code, int stream)
{
    enqueue(generator, code, stream, 0, 0);
    enqueue_use(generator, code, stream);
}

/* Returns false if there is no way now. */
static bool enqueue_head(struct generator *generator, unsigned head, int stream)
{
    const int object = generator->object;
    const int within = head == SYNCED_MEM_MIXED ? pick_within(generator, &world.objects[object]) : -1;
    switch (head) {
    case SYNCED_MEM_UNINITIALIZED:
        enqueue(generator, OP_CLEAR, stream, 0, 0);
        return true;
    case SYNCED_MEM_AT_GPU:
        enqueue_write(generator, OP_GPU_OVERWRITE_ON, stream);
        return true;
    case SYNCED_MEM_SYNCED:
        enqueue_write(generator, OP_CPU_OVERWRITE, stream);
        enqueue(generator, OP_PUSH, stream, 0, 0);
        return true;
    case SYNCED_MEM_MIXED:
        if (within < 0)
            return false;
        enqueue_write(generator, OP_CPU_OVERWRITE, stream);
        generator->object = within;
        if (machine.gpu && !one_in(generator, 4))
            enqueue_write(generator, OP_GPU_OVERWRITE_ON, stream);
        else
            enqueue(generator, OP_CLEAR, stream, 0, 0);
        generator->object = object;
        return true;
    default:
        enqueue_write(generator, OP_CPU_OVERWRITE, stream);
        return true;
    }
}

bool choose_rarest_in_parts(struct generator *generator)
{
    struct view_cell cell;
    if (!view_cell_rarest(&generator->random, enough_in_parts(), &cell))
        return false;
    const int object = pick_shape(generator, (enum shape)cell.shape);
    const int place = find_free_place();
    if (object < 0 && place >= 0) {
        generator->object = place;
        return choose_view(generator);
    }
    if (object < 0)
        return false;
    generator->object = object;
    const int stream = stream_of(generator, &world.objects[object]);
    if (ref_head(&world.objects[object]) != cell.head && !enqueue_head(generator, cell.head, stream)) {
        if (place >= 0)
            enqueue_view_of(generator, place, object);
        return place >= 0;
    }
    enqueue_rare(generator, cell.code);
    return true;
}
