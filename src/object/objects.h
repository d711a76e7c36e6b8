/* All living objects: their cells, and walks over them. */
#ifndef SM_OBJECTS_H
#define SM_OBJECTS_H

#include "object/object.h"
#include "base/slab.h"

/* Returns a cell for a new object. Its references are 0, as in every free cell. NULL: no memory. */
struct synced_mem *sm_objects_take(void);
/* Gives the cell of a destroyed object back. */
void sm_objects_give(struct synced_mem *mem);
/* Counts an object less, whose cell is never given back. */
void sm_objects_forget(void);
/* Returns free cells to the system. */
void sm_objects_trim(void);

/* Gives the object its first reference. Walks find it from now on, so all its fields must be set. */
void sm_objects_add(struct synced_mem *mem);

/*
 * Finds the next living object that is wanted, and calls visit() for it. Returns false if there are no more.
 *
 * wanted() runs with a lock held and may only read atomics and what is constant. visit() runs without a lock. The
 * object stays until visit() returns: a thread that releases the last reference waits. So visit() calls no code of the
 * caller's, and waits for nothing but the object's lock.
 */
bool sm_objects_next(struct sm_slab_walk *walk, bool (*wanted)(const struct synced_mem *mem, void *user),
                     void (*visit)(const struct synced_mem *mem, void *user), void *user);

/* Waits until no walk visits the object. Blocks. The last reference is gone, so no new visit begins. */
void sm_objects_wait_for_walks(const struct synced_mem *mem);

/* Names of objects for an error's detail, as in: "'conv1' of 1.5 MiB, 0x7f0012345680 of 64 B and 7 more". */
struct sm_objects_text {
    char text[256];
};
/* Returns the names of some living objects. */
struct sm_objects_text sm_objects_alive(void);
/* Returns the names of the largest objects with a host copy (device -1) or a copy on the device; "none". */
struct sm_objects_text sm_objects_largest(int device);
/* Returns the names of the largest of these objects. The caller has references. */
struct sm_objects_text sm_objects_largest_of(struct synced_mem *const *mems, size_t count);

#endif
