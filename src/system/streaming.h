/* Copies that leave the processor's caches alone. */
#ifndef SM_STREAMING_H
#define SM_STREAMING_H

#include <stddef.h>

/* Copies bytes as memcpy() does, with stores that go to memory past the caches where the processor has such stores:
 * they need not read the target first. The bytes are visible to other threads and to devices as those of other stores.
 * */
void sm_copy_streaming(void *to, const void *from, size_t bytes);

#endif
