/* What the pool is compared with: the runtime's own page-locked allocation. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is a runtime with a device. */
bool reference_start(void);
/* Whether its figures mean nothing: then sizes are kept small, as it keeps books on every byte. */
bool reference_is_emulated(void);

/* NULL: refused. */
void *reference_alloc(size_t size);
void reference_free(void *data);

#endif
