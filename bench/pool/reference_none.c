/* A build without CUDA. */
#include "reference.h"

bool reference_start(void)
{
    return false;
}

bool reference_is_emulated(void)
{
    return false;
}

void *reference_alloc(size_t size)
{
    (void)size;
    return NULL;
}

void reference_free(void *data)
{
    (void)data;
}
