/* Copies where no streaming stores are known to be faster than memcpy(). */
#include "system/streaming.h"

#include <string.h>

void sm_copy_streaming(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
