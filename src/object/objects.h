/* All living objects: their cells, and walks over them. */
#ifndef SM_OBJECTS_H
#define SM_OBJECTS_H

#include "object/object.h"
#include "base/slab.h"

/* A cell for a new object: its references are 0, as are those of an object that was given back. NULL: no memory. */
struct synced_mem *sm_objects_take(void);
void sm_objects_give(struct synced_mem *mem);
void sm_objects_trim(void);

/* From here on a walk finds the object. All else of it is there. */
void sm_objects_add(struct synced_mem *mem);

/*
 * Finds the next living object that is wanted, and calls look() for it; false: there are no more. wanted() is called
 * with a lock held, and may only read what is atomic. look() is called with no lock. Until it returns the object stays,
 * and whoever gives up the last reference waits: so look() calls no code of the caller's and waits for nothing but the
 * object's lock.
 */
bool sm_objects_next(struct sm_slab_walk *walk, bool (*wanted)(const struct synced_mem *mem, void *user),
                     void (*look)(const struct synced_mem *mem, void *user), void *user);

/* Waits until no walk looks at the object. The last reference is gone, so that none begins to. */
void sm_objects_wait_for_walks(const struct synced_mem *mem);

/* Names of objects, for an error's detail: "'conv1' of 1.5 MiB, 0x7f0012345680 of 64 B and 7 more". */
struct sm_objects_text {
    char text[256];
};
/* Of some that are alive. */
struct sm_objects_text sm_objects_alive(void);
/* Of the largest that have a host copy (device -1) or a copy on the device; "none". */
struct sm_objects_text sm_objects_largest(int device);

#endif
