/* Page-locked memory of the caller's. */
#include "copy/pin.h"

#include "memory/guard.h"
#include "base/process.h"
#include "base/refusal.h"
#include "base/status.h"
#include "system/process.h"

#include <stdlib.h>

/* A range that the library has page-locked, with the number of copies that have memory in it. */
struct sm_registration {
    char *data;
    size_t bytes;
    size_t locked; /* page-locked bytes, from the start */
    int device;
    unsigned holders;
    bool read_only; /* devices may only read it */
    bool changing;  /* the runtime registers or unregisters it just now */
    struct sm_registration *next;
};

static struct {
    struct sm_lock lock; /* guards the other fields */
    struct sm_registration *first;
    atomic_uint count; /* read without the lock to see whether there is one */
} registrations = {.lock = SM_LOCK_INITIALIZER};

/* Held while the runtime registers or unregisters memory. A range in between must neither be registered again nor count
 * as somebody else's. It is no library lock: the runtime may wait for the device, and a fork need not wait for that. It
 * is taken before the list's lock. */
static struct sm_mutex changes;

/* In a forked child: the thread that held the lock may be missing. */
static void reset_change_lock(void)
{
    sm_mutex_init(&changes);
}

static __attribute__((constructor)) void watch_forks_for_changes(void)
{
    sm_watch_forks(NULL, NULL, reset_change_lock);
}

static void *get_last_byte(const struct sm_copy *copy)
{
    return (char *)sm_copy_data(copy) + (sm_allocation_of(copy)->bytes > 0 ? sm_allocation_of(copy)->bytes - 1 : 0);
}

static synced_mem_status check_host_pointer(const struct sm_copy *copy, const struct sm_pointer_facts *facts)
{
    if (facts->kind == SM_POINTER_DEVICE)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "%p is memory of device %d, not of the host: pass it as device memory", sm_copy_data(copy),
                       facts->device);
    if (facts->kind == SM_POINTER_MANAGED && !facts->concurrent)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                       "%p is managed memory, which the host can't access while kernels run on device %d",
                       sm_copy_data(copy), facts->device);
    return SYNCED_MEM_OK;
}

static synced_mem_status query_runtime(struct sm_copy *copy, int device)
{
    struct sm_pointer_facts first;
    struct sm_pointer_facts last;
    if (copy->pin_known && !copy->pinned)
        return SYNCED_MEM_OK;
    copy->pinned = false;
    copy->pin_known = sm_device_query_pointer(device, sm_copy_data(copy), &first) == SYNCED_MEM_OK;
    const synced_mem_status status = copy->pin_known ? check_host_pointer(copy, &first) : SYNCED_MEM_OK;
    copy->pin_known = copy->pin_known && status == SYNCED_MEM_OK; /* the next call refuses it again */
    if (!copy->pin_known || first.kind != SM_POINTER_PINNED)
        return status;
    copy->pin_known = sm_device_query_pointer(device, get_last_byte(copy), &last) == SYNCED_MEM_OK;
    copy->pinned = copy->pin_known && last.kind == SM_POINTER_PINNED;
    copy->pin_partial = copy->pin_known && !copy->pinned;
    return SYNCED_MEM_OK;
}

/* ---- With the list locked ---- */

enum relation { APART, PARTIAL, WITHIN };

/* A range that is just changing, or that a transfer to this copy may not write, counts as one that contains no
 * memory. */
static enum relation compare_ranges(const struct sm_copy *copy, const struct sm_registration *at)
{
    const char *const first = sm_copy_data(copy);
    const char *const last = get_last_byte(copy);
    if (last < at->data || first >= at->data + at->bytes)
        return APART;
    const bool is_usable = !at->changing && (!at->read_only || copy->read_only);
    return !is_usable || first < at->data || last >= at->data + at->bytes ? PARTIAL : WITHIN;
}

/* Finds the range that contains the copy's memory. *found: NULL if there is none. */
static enum relation find_registration(const struct sm_copy *copy, struct sm_registration **found)
{
    enum relation relation = APART;
    *found = NULL;
    for (struct sm_registration *at = registrations.first; at && relation != WITHIN; at = at->next) {
        const enum relation each = compare_ranges(copy, at);
        relation = each > relation ? each : relation;
        if (each == WITHIN)
            *found = at;
    }
    return relation;
}

static void remove_registration(struct sm_registration *registration)
{
    struct sm_registration **link = &registrations.first;
    while (*link != registration)
        link = &(*link)->next;
    *link = registration->next;
    atomic_fetch_sub_explicit(&registrations.count, 1, memory_order_relaxed);
}

/* ---- The query ---- */

/* Takes the share that the copy lacks. Another object may have page-locked the memory after this copy came. */
static void share_registration(struct sm_copy *copy)
{
    struct sm_registration *found = NULL;
    enum relation relation = APART;
    if (atomic_load_explicit(&registrations.count, memory_order_relaxed) > 0) {
        sm_lock(&registrations.lock);
        relation = find_registration(copy, &found);
        if (found)
            found->holders++;
        sm_unlock(&registrations.lock);
    }
    sm_allocation_of(copy)->pin_held = found != NULL;
    if (relation != APART || copy->pin_partial)
        copy->pin_known = false;
    copy->pin_partial = relation == PARTIAL;
}

synced_mem_status sm_pin_query(struct sm_copy *copy, int device)
{
    if (!sm_copy_is_of_user(copy))
        return SYNCED_MEM_OK;
    if (!sm_allocation_of(copy)->pin_held)
        share_registration(copy);
    if (!copy->pin_partial)
        return query_runtime(copy, device);
    copy->pinned = false;
    return SYNCED_MEM_OK;
}

/* ---- On request; with changes locked ---- */

static struct sm_registration *begin_registration(const struct sm_copy *copy, int device)
{
    struct sm_registration *const made = calloc(1, sizeof *made);
    if (!made) {
        (void)sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of page-locked memory");
        return NULL;
    }
    *made = (struct sm_registration){.data = sm_copy_data(copy),
                                     .bytes = sm_allocation_of(copy)->bytes,
                                     .device = device,
                                     .holders = 1,
                                     .changing = true};
    sm_lock(&registrations.lock);
    made->next = registrations.first;
    registrations.first = made;
    atomic_fetch_add_explicit(&registrations.count, 1, memory_order_relaxed);
    sm_unlock(&registrations.lock);
    return made;
}

static void end_registration(struct sm_registration *made, bool failed)
{
    sm_lock(&registrations.lock);
    made->changing = false;
    if (failed)
        remove_registration(made);
    sm_unlock(&registrations.lock);
    if (failed)
        free(made);
}

/* Memory that the process can only read, such as that of a mapped file, needs a registration for reading. The other
 * kind is tried first, as other objects may write the memory. */
static synced_mem_status register_for(const struct sm_copy *copy, struct sm_registration *made)
{
    const synced_mem_status status =
        sm_device_host_register(made->device, made->data, made->bytes, false, &made->locked);
    if (status != SYNCED_MEM_ERR_CUDA || !copy->read_only)
        return status;
    made->read_only = true;
    if (sm_device_host_register(made->device, made->data, made->bytes, true, &made->locked) == SYNCED_MEM_OK)
        return SYNCED_MEM_OK;
    const struct sm_detail second = sm_detail_get();
    return sm_fail(status, "the memory is read-only, and can't be page-locked for reading: %s", second.text);
}

static synced_mem_status register_memory(struct sm_copy *copy, int device)
{
    struct sm_registration *const made = begin_registration(copy, device);
    if (!made)
        return SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    const synced_mem_status status = register_for(copy, made);
    end_registration(made, status != SYNCED_MEM_OK);
    if (status != SYNCED_MEM_OK)
        return sm_refusal_note(status, -1, sm_allocation_of(copy)->bytes);
    sm_allocation_of(copy)->pin_held = true;
    copy->pin_partial = false;
    copy->pinned = true;
    copy->pin_known = true;
    return SYNCED_MEM_OK;
}

static synced_mem_status unregister_extents(struct sm_registration *registration)
{
    return sm_device_host_unregister(registration->device, registration->data, registration->bytes,
                                     &registration->locked);
}

/* A failure would leave the caller's memory page-locked, so there is a second try. */
static void unregister_memory(struct sm_registration *registration)
{
    const struct sm_detail first = sm_detail_get();
    if (unregister_extents(registration) != SYNCED_MEM_OK)
        (void)unregister_extents(registration);
    sm_detail_set(&first);
    sm_lock(&registrations.lock);
    remove_registration(registration);
    sm_unlock(&registrations.lock);
    free(registration);
}

/* Returns a range that no copy holds, marked as changing. NULL: there is none. */
static struct sm_registration *lock_and_pick_unused(void)
{
    sm_lock(&registrations.lock);
    struct sm_registration *unused = registrations.first;
    while (unused && (unused->holders > 0 || unused->changing))
        unused = unused->next;
    if (unused)
        unused->changing = true;
    sm_unlock(&registrations.lock);
    return unused;
}

/* ---- On request ---- */

synced_mem_status sm_pin(struct sm_copy *copy, int wanted)
{
    const struct sm_allocation *const own = sm_allocation_of(copy);
    int device;
    SM_TRY(sm_device_resolve(wanted, &device));
    sm_mutex_lock(&changes);
    if (sm_guard_on())
        sm_guard_open_range(sm_copy_data(copy), own->bytes);
    synced_mem_status status = sm_pin_query(copy, device);
    if (status == SYNCED_MEM_OK && !own->pin_held && !copy->pinned && own->bytes > 0)
        status = register_memory(copy, device);
    if (sm_guard_on())
        sm_guard_close_range(sm_copy_data(copy), own->bytes);
    sm_mutex_unlock(&changes);
    return status;
}

/* Gives up the copy's share, or keeps it if it is the last one and keep_last is set. *last: it is the last one. */
static void drop_share(struct sm_copy *copy, bool keep_last, bool *last)
{
    struct sm_registration *found;
    sm_lock(&registrations.lock);
    (void)find_registration(copy, &found);
    *last = found->holders == 1;
    if (!*last || !keep_last) {
        found->holders--;
        sm_allocation_of(copy)->pin_held = false;
    }
    sm_unlock(&registrations.lock);
}

bool sm_unpin_shared(struct sm_copy *copy)
{
    bool last = false;
    if (sm_allocation_of(copy)->pin_held)
        drop_share(copy, true, &last);
    return !last;
}

/* Another copy may take a share meanwhile. So the ranges without a holder are read again under the lock. */
void sm_unpin(struct sm_copy *copy)
{
    bool last = false;
    struct sm_registration *unused;
    if (sm_allocation_of(copy)->pin_held)
        drop_share(copy, false, &last);
    if (!last)
        return;
    sm_mutex_lock(&changes);
    while ((unused = lock_and_pick_unused()) != NULL)
        unregister_memory(unused);
    sm_mutex_unlock(&changes);
}
