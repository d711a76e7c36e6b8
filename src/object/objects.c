/* All living objects. */
#include "object/objects.h"

#include "base/text.h"
#include "base/process.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

static struct sm_slab objects = SM_COUNTED_SLAB_INITIALIZER(struct synced_mem, SM_COUNT_objects);

struct synced_mem *sm_objects_take(void)
{
    return sm_slab_take(&objects);
}

void sm_objects_give(struct synced_mem *mem)
{
    sm_slab_give(&objects, mem);
}

void sm_objects_forget(void)
{
    sm_slab_uncount(&objects);
}

void sm_objects_trim(void)
{
    sm_slab_trim(&objects);
}

void sm_objects_add(struct synced_mem *mem)
{
    atomic_store_explicit(&mem->references, 1, memory_order_release);
}

/* ---- Walks ---- */

/*
 * A walk counts its visit and then reads the references. A release takes the last reference and then reads the visits.
 * Both are sequentially consistent, so one of the two sees the other. A walk that sees no reference leaves; a release
 * that sees a visit waits. So a visit is no reference, and the release destroys the object.
 *
 * The count begins at a number that depends on the process generation. A forked child lacks the threads that were
 * visiting, and their counts mean no visits there.
 */
enum { MOST_VISITS = 1 << 22 }; /* the most threads that Linux allows */

static atomic_uint releases_waiting;
static struct sm_events visits_ended;

static unsigned get_zero_visits(void)
{
    return sm_process_generation() * MOST_VISITS;
}

static unsigned count_visits(unsigned count)
{
    return count - get_zero_visits() < MOST_VISITS ? count - get_zero_visits() : 0;
}

static void begin_visit(struct synced_mem *mem)
{
    unsigned count = atomic_load(&mem->visits);
    unsigned more;
    do
        more = get_zero_visits() + count_visits(count) + 1;
    while (!atomic_compare_exchange_weak(&mem->visits, &count, more));
}

/* After the visit is uncounted the object may be gone. */
static void end_visit(struct synced_mem *mem)
{
    atomic_fetch_sub(&mem->visits, 1);
    if (atomic_load(&releases_waiting) > 0)
        sm_events_add(&visits_ended);
}

static bool is_visited(const struct synced_mem *mem)
{
    return count_visits(atomic_load(&mem->visits)) > 0;
}

void sm_objects_wait_for_walks(const struct synced_mem *mem)
{
    if (!is_visited(mem))
        return;
    atomic_fetch_add(&releases_waiting, 1);
    unsigned seen = sm_events_seen(&visits_ended);
    while (is_visited(mem)) {
        sm_events_wait(&visits_ended, seen);
        seen = sm_events_seen(&visits_ended);
    }
    atomic_fetch_sub(&releases_waiting, 1);
}

struct filter {
    bool (*wanted)(const struct synced_mem *mem, void *user);
    void *user;
};

/* With the slab locked. A cell without a reference is no object, or one that is being destroyed. While it is visited
 * its cell is no other object's. */
static bool begin_visit_if_wanted(void *cell, const void *argument)
{
    struct synced_mem *const mem = cell;
    const struct filter *const filter = argument;
    if (atomic_load_explicit(&mem->references, memory_order_relaxed) == 0)
        return false;
    begin_visit(mem);
    const bool wanted = atomic_load(&mem->references) > 0 && filter->wanted(mem, filter->user);
    if (!wanted)
        end_visit(mem);
    return wanted;
}

bool sm_objects_next(struct sm_slab_walk *walk, bool (*wanted)(const struct synced_mem *mem, void *user),
                     void (*visit)(const struct synced_mem *mem, void *user), void *user)
{
    const struct filter filter = {.wanted = wanted, .user = user};
    struct synced_mem *const mem = sm_slab_find(&objects, walk, begin_visit_if_wanted, &filter);
    if (!mem)
        return false;
    visit(mem, user);
    end_visit(mem);
    return true;
}

/* ---- Names ---- */

enum { NAMED = 3 };

struct names {
    enum sm_side side; /* with is_large(): the side on which the objects have a copy */
    int device;
    unsigned found;
    struct named {
        const struct synced_mem *mem; /* only printed, never read */
        size_t size;
        struct sm_name_text name;
    } first[NAMED]; /* with is_large(): the largest first */
};

static bool is_alive(const struct synced_mem *mem, void *user)
{
    struct names *const names = user;
    (void)mem;
    return names->found++ < NAMED;
}

static bool is_large(const struct synced_mem *mem, void *user)
{
    struct names *const names = user;
    const bool has = mem->record.kind == SM_WHOLE && sm_copy_of(sm_own_record(mem), names->side) &&
                     (names->side == SM_CPU || sm_device(mem) == names->device);
    names->found += has;
    return has && sm_size(mem) > names->first[NAMED - 1].size;
}

/* Inserts the object before the first that is smaller. */
static void insert_object_by_size(const struct synced_mem *mem, void *user)
{
    struct names *const names = user;
    const size_t size = sm_size(mem);
    int at = NAMED - 1;
    for (; at > 0 && (!names->first[at - 1].mem || names->first[at - 1].size < size); at--)
        names->first[at] = names->first[at - 1];
    names->first[at] = (struct named){.mem = mem, .size = size, .name = sm_name_text(sm_object_name(mem))};
}

static struct sm_objects_text write_names(const struct names *found)
{
    struct sm_objects_text out = {.text = "none"};
    size_t used = 0;
    unsigned named = 0;
    for (; named < NAMED && found->first[named].mem; named++) {
        const struct named *const each = &found->first[named];
        char address[32];
        (void)snprintf(address, sizeof address, "%p", (const void *)each->mem);
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%s%s%s of %s", used > 0 ? ", " : "",
                                 each->name.text[0] ? "'" : "", each->name.text[0] ? each->name.text : address,
                                 each->name.text[0] ? "'" : "", sm_size_text(each->size).text);
    }
    if (found->found > named)
        (void)snprintf(out.text + used, sizeof out.text - used, " and %u more", found->found - named);
    return out;
}

static struct sm_objects_text describe_objects(const struct names *names,
                                               bool (*wanted)(const struct synced_mem *, void *))
{
    struct sm_slab_walk walk = {.begun = false};
    struct names found = *names;
    while (sm_objects_next(&walk, wanted, insert_object_by_size, &found))
        continue;
    return write_names(&found);
}

struct sm_objects_text sm_objects_largest_of(struct synced_mem *const *mems, size_t count)
{
    struct names found = {.found = (unsigned)count};
    for (size_t i = 0; i < count; i++)
        if (!found.first[NAMED - 1].mem || sm_size(mems[i]) > found.first[NAMED - 1].size)
            insert_object_by_size(mems[i], &found);
    return write_names(&found);
}

struct sm_objects_text sm_objects_alive(void)
{
    const struct names names = {.side = SM_SIDES};
    return describe_objects(&names, is_alive);
}

struct sm_objects_text sm_objects_largest(int device)
{
    const struct names names = {.side = device < 0 ? SM_CPU : SM_GPU, .device = device};
    return describe_objects(&names, is_large);
}

/* ---- The object at an address ---- */

struct place {
    uintptr_t address;
    char *name;
    size_t room;
};

static bool is_at(const struct synced_mem *mem, void *user)
{
    const struct place *const place = user;
    bool is = false;
    for (enum sm_side side = SM_CPU; side < SM_SIDES && mem->record.kind == SM_WHOLE; side++)
        if (sm_copy_of(sm_own_record(mem), side))
            is = is || place->address - (uintptr_t)sm_copy_data(sm_copy_of(sm_own_record(mem), side)) < sm_size(mem);
    return is;
}

static void write_place_name(const struct synced_mem *mem, void *user)
{
    const struct place *const place = user;
    const struct sm_name_text name = sm_name_text(sm_object_name(mem));
    if (name.text[0])
        (void)snprintf(place->name, place->room, "object '%s'", name.text);
    else
        (void)snprintf(place->name, place->room, "the object at %p", (const void *)mem);
}

/* A call of the runtime may come with a library lock held, and then no walk can begin. */
static bool name_object_at(const void *address, char *name, size_t room)
{
    struct place place = {.address = (uintptr_t)address, .name = name, .room = room};
    struct sm_slab_walk walk = {.begun = false};
    return !sm_process_holds_lock() && sm_objects_next(&walk, is_at, write_place_name, &place);
}

static __attribute__((constructor)) void name_objects(void)
{
    sm_device_set_namer(name_object_at);
}
