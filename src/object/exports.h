/* Exports: memory of objects that is out of the library's hands as a tensor. It is neither replaced nor released until
 * its export ends. An export is of one side of the object that owns the memory. */
#ifndef SM_EXPORTS_H
#define SM_EXPORTS_H

#include "object/object.h"

/* One export. The caller has the struct, which is in a list meanwhile. */
struct sm_export {
    const struct synced_mem *owner;
    enum sm_side side;
    struct sm_export *next;
    struct sm_export **link;
};

/* Begins an export of the object's memory on the side, if that is where the object's data is. Returns whether it is:
 * another thread may have replaced the memory since an access returned the pointer. The object stays until the export
 * ends. Waits only for the lock, which it takes. ERR_FORKED. ERR_INVALID_ARGUMENT: the object has fewer bytes. */
synced_mem_status sm_export_begin(struct sm_export *export, struct synced_mem *mem, enum sm_side side, const void *data,
                                  uint64_t bytes, bool *begun);

/* Fails with ERR_INVALID_ARGUMENT if the object has fewer bytes. */
synced_mem_status sm_export_check(const struct synced_mem *mem, uint64_t bytes);

/* Ends it. Any thread may call this. Takes no lock of an object. */
void sm_export_end(struct sm_export *export);

/* Returns whether the side of an object that owns its memory is exported. With the object's lock held, so that no
 * export begins before the lock is released. */
bool sm_is_exported(const struct synced_mem *owner, enum sm_side side);

/* Fails with ERR_INVALID_STATE if it is. With the object's lock held. */
synced_mem_status sm_check_not_exported(const struct synced_mem *owner, enum sm_side side);

#endif
