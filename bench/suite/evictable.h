/* Objects that together are larger than the device's budget. */
#ifndef EVICTABLE_H
#define EVICTABLE_H

#include "synced_mem.h"
#include "synced_mem/budget.h"
#include "synced_mem/files.h"

#include <stddef.h>
#include <stdint.h>

enum { MOST_EVICTABLE = 64 };

struct evictables {
    synced_mem *mems[MOST_EVICTABLE];
    size_t count;
    size_t size; /* of each */
    size_t fit;  /* the number that the budget has room for */
};

/* Makes the objects and sets the budget. file: has the contents of all of them, one behind the other; NULL: the host
 * has them, each the pattern from its number on. */
void evictables_make(struct evictables *all, size_t count, size_t size, size_t fit, synced_mem_file *file);
/* Releases the objects, and removes the budget. */
void evictables_release(const struct evictables *all);

/* The bytes of an object of the rows. */
size_t evictable_size(void);

/* Returns how often holds did not find their objects on the device until now. */
uint64_t count_misses(void);
/* Returns how often the objects would have to be brought to the device, in so many rounds of the uses of these objects,
 * if those went whose next use is the latest: Belady's optimum. uses: numbers of objects. */
uint64_t count_fewest_misses(const struct evictables *all, const uint32_t *uses, size_t count, size_t rounds);

#endif
