/* All living objects. */
#include "objects.h"

#include "caller.h"
#include "print.h"
#include "slab.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

static struct sm_slab objects = SM_SLAB_INITIALIZER(struct synced_mem);

struct synced_mem *sm_objects_take(void)
{
    return sm_slab_take(&objects);
}

void sm_objects_give(struct synced_mem *mem)
{
    sm_slab_give(&objects, mem);
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

struct filter {
    bool (*wanted)(const struct synced_mem *mem, void *user);
    void *user;
};

/* With the slab locked. What has no reference is no object, or one that is just going. */
static bool hold(void *cell, const void *argument)
{
    struct synced_mem *const mem = cell;
    const struct filter *const filter = argument;
    unsigned references = atomic_load_explicit(&mem->references, memory_order_acquire);
    bool held = false;
    if (references == 0 || !filter->wanted(mem, filter->user))
        return false;
    while (references > 0 && !held)
        held = atomic_compare_exchange_weak_explicit(&mem->references, &references, references + 1,
                                                     memory_order_acquire, memory_order_acquire);
    return held;
}

void sm_objects_each(bool (*wanted)(const struct synced_mem *mem, void *user),
                     void (*visit)(const struct synced_mem *mem, void *user), void *user)
{
    const struct filter filter = {.wanted = wanted, .user = user};
    struct sm_slab_walk walk = {.begun = false};
    struct synced_mem *mem;
    while ((mem = sm_slab_find(&objects, &walk, hold, &filter)) != NULL) {
        visit(mem, user);
        const struct sm_caller before = sm_caller_put_aside();
        (void)synced_mem_release(mem);
        sm_caller_put_back(before);
    }
}

/* ---- Names ---- */

enum { NAMED = 3 };

struct names {
    enum sm_side side; /* if those are wanted that have a copy on it */
    int device;
    unsigned found;
    struct named {
        const struct synced_mem *mem; /* to be printed only */
        size_t size;
        struct sm_name_text name;
    } first[NAMED]; /* the largest first */
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
    const bool has = sm_copy_of(mem, names->side) && (names->side == SM_CPU || sm_device(mem) == names->device);
    names->found += has;
    return has && sm_size(mem) > names->first[NAMED - 1].size;
}

/* Before the first that is smaller. */
static void name(const struct synced_mem *mem, void *user)
{
    struct names *const names = user;
    const size_t size = sm_size(mem);
    int at = NAMED - 1;
    for (; at > 0 && (!names->first[at - 1].mem || names->first[at - 1].size < size); at--)
        names->first[at] = names->first[at - 1];
    names->first[at] = (struct named){.mem = mem, .size = size, .name = sm_name_text(synced_mem_name(mem))};
}

static struct sm_objects_text text_of(const struct names *names, bool (*wanted)(const struct synced_mem *, void *))
{
    struct sm_objects_text out = {.text = "none"};
    struct names found = *names;
    size_t used = 0;
    unsigned named = 0;
    sm_objects_each(wanted, name, &found);
    for (; named < NAMED && found.first[named].mem; named++) {
        const struct named *const each = &found.first[named];
        char address[32];
        (void)snprintf(address, sizeof address, "%p", (const void *)each->mem);
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%s%s%s of %s", used > 0 ? ", " : "",
                                 each->name.text[0] ? "'" : "", each->name.text[0] ? each->name.text : address,
                                 each->name.text[0] ? "'" : "", sm_size_text(each->size).text);
    }
    if (found.found > named)
        (void)snprintf(out.text + used, sizeof out.text - used, " and %u more", found.found - named);
    return out;
}

struct sm_objects_text sm_objects_alive(void)
{
    const struct names names = {.side = SM_SIDES};
    return text_of(&names, is_alive);
}

struct sm_objects_text sm_objects_largest(int device)
{
    const struct names names = {.side = device < 0 ? SM_CPU : SM_GPU, .device = device};
    return text_of(&names, is_large);
}
