/*
 * Calls on objects that only the host uses. Such an object is undivided, has default options, no device copy, and
 * nothing in flight. Nobody waits for it and it waits for nobody, so these calls do at once what a transaction does for
 * all objects: they take the lock, change memory, head and published pointers, and release the lock.
 *
 * Each function returns false if the object is another one, or needs more. Nothing has changed then, and the caller
 * begins a transaction. In traces and debug mode all calls do, because a transaction records and protects.
 */
#ifndef SM_HOST_ONLY_H
#define SM_HOST_ONLY_H

#include "object/object.h"

/* Accesses the host copy. Obtains memory if there is none, and fills it with zeros for a first read. Stores
 * the pointer. *status: as sm_obtain_host(). */
bool sm_host_only_access(struct synced_mem *mem, enum sm_mode mode, void **out, synced_mem_status *status);

/* Changes the size within the memory that the object has. keep: the contents stay, and zeros follow them. */
bool sm_host_only_resize(struct synced_mem *mem, size_t size, bool keep);

/* Makes the object uninitialized. Its memory stays. */
bool sm_host_only_clear(struct synced_mem *mem);

/* Frees the memory of an object without references. */
bool sm_host_only_free(struct synced_mem *mem);

#endif
