/* The functions of gpu.h that only the emulated runtime can fulfil, for the others. */
#include "gpu.h"

bool gpu_is_emulated(void)
{
    return false;
}

int gpu_schedules(void)
{
    return 1;
}

unsigned gpu_calls(const char *call)
{
    (void)call;
    return 0;
}

size_t gpu_unfinished(void)
{
    return 0;
}

bool gpu_fail(unsigned which, unsigned nth)
{
    (void)which, (void)nth;
    return false;
}

void gpu_fail_no_more(void)
{
}

void gpu_note_host_read(const void *data, size_t size)
{
    (void)data, (void)size;
}

void gpu_note_host_write(const void *data, size_t size)
{
    (void)data, (void)size;
}
