/* Page-locked memory of the caller's. */
#include "copy/pin.h"

#include "memory/guard.h"
#include "base/process.h"
#include "base/status.h"

#include <stdlib.h>

/* A range that the library has page-locked, with the number of copies that have memory in it. */
struct sm_registration {
    char *data;
    size_t bytes;
    size_t locked; /* page-locked bytes, from the start */
    int device;
    unsigned holders;
    struct sm_registration *next;
};

/* The lock is held while the runtime page-locks memory and undoes it. A range in between must neither be page-locked
 * again nor count as somebody else's. Only threads that page-lock memory wait for the lock. */
static struct {
    struct sm_lock lock;
    struct sm_registration *first;
} registrations = {.lock = SM_LOCK_INITIALIZER};

static void *get_last_byte(const struct sm_copy *copy)
{
    return (char *)sm_copy_data(copy) + (copy->bytes > 0 ? copy->bytes - 1 : 0);
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

synced_mem_status sm_pin_query(struct sm_copy *copy, int device)
{
    struct sm_pointer_facts first;
    struct sm_pointer_facts last;
    if (!sm_copy_is_of_user(copy) || (copy->pin_known && !copy->pinned))
        return SYNCED_MEM_OK;
    copy->pinned = false;
    copy->pin_known = sm_device_query_pointer(device, sm_copy_data(copy), &first) == SYNCED_MEM_OK;
    const synced_mem_status status = copy->pin_known ? check_host_pointer(copy, &first) : SYNCED_MEM_OK;
    copy->pin_known = copy->pin_known && status == SYNCED_MEM_OK; /* the next call refuses it again */
    if (!copy->pin_known || first.kind != SM_POINTER_PINNED)
        return status;
    copy->pin_known = sm_device_query_pointer(device, get_last_byte(copy), &last) == SYNCED_MEM_OK;
    copy->pinned = copy->pin_known && last.kind == SM_POINTER_PINNED;
    return SYNCED_MEM_OK;
}

/* ---- On request; with the list locked ---- */

/* Returns the range that contains the copy's memory, or NULL. */
static struct sm_registration *find_registration(const struct sm_copy *copy)
{
    const char *const first = sm_copy_data(copy);
    const char *const last = get_last_byte(copy);
    struct sm_registration *at = registrations.first;
    while (at && (first < at->data || last >= at->data + at->bytes))
        at = at->next;
    return at;
}

static void share_registration(struct sm_copy *copy)
{
    struct sm_registration *const at = find_registration(copy);
    copy->pin_held = at != NULL;
    if (at)
        at->holders++;
}

static synced_mem_status add_registration(struct sm_copy *copy, int device)
{
    struct sm_registration *const made = calloc(1, sizeof *made);
    if (!made)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for the record of page-locked memory");
    *made = (struct sm_registration){
        .data = sm_copy_data(copy), .bytes = copy->bytes, .device = device, .holders = 1, .next = registrations.first};
    const synced_mem_status status = sm_device_host_register(device, made->data, made->bytes, &made->locked);
    if (status != SYNCED_MEM_OK) {
        free(made);
        return status;
    }
    registrations.first = made;
    copy->pin_held = true;
    copy->pinned = true;
    copy->pin_known = true;
    return SYNCED_MEM_OK;
}

static synced_mem_status unregister_memory(struct sm_registration *registration)
{
    return sm_device_host_unregister(registration->device, registration->data, registration->bytes,
                                     &registration->locked);
}

/* A failure would leave the caller's memory page-locked, so there is a second try. */
static void remove_registration(struct sm_registration *registration)
{
    struct sm_registration **link = &registrations.first;
    while (*link != registration)
        link = &(*link)->next;
    *link = registration->next;
    if (unregister_memory(registration) != SYNCED_MEM_OK)
        (void)unregister_memory(registration);
    free(registration);
}

/* ---- On request ---- */

synced_mem_status sm_pin(struct sm_copy *copy, int wanted)
{
    int device;
    SM_TRY(sm_device_resolve(wanted, &device));
    if (sm_guard_on())
        sm_guard_open_range(sm_copy_data(copy), copy->bytes);
    sm_lock(&registrations.lock);
    synced_mem_status status = sm_pin_query(copy, device);
    if (status == SYNCED_MEM_OK && copy->pinned)
        share_registration(copy);
    else if (status == SYNCED_MEM_OK && copy->bytes > 0)
        status = add_registration(copy, device);
    sm_unlock(&registrations.lock);
    return status;
}

void sm_pin_share(struct sm_copy *copy)
{
    if (!copy->pinned)
        return;
    sm_lock(&registrations.lock);
    share_registration(copy);
    sm_unlock(&registrations.lock);
}

void sm_unpin(struct sm_copy *copy)
{
    if (!copy->pin_held)
        return;
    sm_lock(&registrations.lock);
    struct sm_registration *const at = find_registration(copy);
    if (at && --at->holders == 0)
        remove_registration(at);
    sm_unlock(&registrations.lock);
    copy->pin_held = false;
}
