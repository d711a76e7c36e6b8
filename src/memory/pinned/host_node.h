/* Places: which memory node is near a device. */
#ifndef SM_HOST_NODE_H
#define SM_HOST_NODE_H

/* The number of places, by which page-locked memory is kept apart. Place 0 is no particular node, n + 1 is node n. */
enum { SM_HOST_PLACES = 16 };

/* Returns the device's place. 0: there is only one node, the runtime or the system does not report it, or its number is
 * too high. */
unsigned sm_host_place_of(int device);

/* Forgets the places of all devices. */
void sm_host_places_forget(void);

#endif
