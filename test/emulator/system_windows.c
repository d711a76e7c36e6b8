/*
 * The emulator's calls of Windows, beside those that windows/posix.c stands in for. Callers have no names.
 */
#include "emu.h"

#include <stdio.h>
#include <windows.h>

/* The descriptor stands for nothing: the two mappings of a device's memory are not the same memory, and memory that
 * could be shared is refused where its bytes are written. */
int emu_file_make(void)
{
    return emu_open_memory();
}

unsigned emu_frames(const void **frames, unsigned most)
{
    return RtlCaptureStackBackTrace(1, most, (void **)frames, NULL);
}

struct emu_place emu_place_of(const void *address)
{
    return (struct emu_place){"", (uintptr_t)address};
}

void emu_print_frames(const void *const *frames, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        (void)fprintf(stderr, "[%p]\n", frames[i]);
}
