/* All living objects: their cells, and walks over them. */
#ifndef SM_OBJECTS_H
#define SM_OBJECTS_H

#include "object.h"

/* A cell for a new object: its references are 0, as are those of an object that was given back. NULL: no memory. */
struct synced_mem *sm_objects_take(void);
void sm_objects_give(struct synced_mem *mem);
void sm_objects_trim(void);

/* From here on a walk finds the object. All else of it is there. */
void sm_objects_add(struct synced_mem *mem);

/* Calls visit() for each living object that is wanted, with a reference held and no lock. If all others are given up
 * meanwhile the object goes here. wanted() is called with a lock held, and may only read what is atomic. */
void sm_objects_each(bool (*wanted)(const struct synced_mem *mem, void *user),
                     void (*visit)(const struct synced_mem *mem, void *user), void *user);

/* Names of objects, for an error's detail: "'conv1' 1.5 MiB, 0x7f0012345680 64 B and 7 more". */
struct sm_objects_text {
    char text[256];
};
/* Of some that are alive. */
struct sm_objects_text sm_objects_alive(void);
/* Of the largest that have a host copy (device -1) or a copy on the device; "none". */
struct sm_objects_text sm_objects_largest(int device);

#endif
