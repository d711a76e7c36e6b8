/* Which memory node is near a device. */
#ifndef SM_HOST_NODE_H
#define SM_HOST_NODE_H

/* Places that page-locked memory is kept apart by: 0 for no node in particular, n + 1 for memory node n. */
enum { SM_HOST_PLACES = 16 };

/* Always 0 where there is one node. Where the runtime or the system doesn't say, or the node is beyond those: 0. */
unsigned sm_host_place_of(int device);

/* Forgets what it knows of devices. */
void sm_host_places_forget(void);

#endif
