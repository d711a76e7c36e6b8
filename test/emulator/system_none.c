/*
 * The calls that only Linux fulfils, elsewhere: files have no seals, and memory keeps its bytes until it is unmapped.
 */
#include "emu.h"

bool emu_file_release(int file, size_t offset, size_t size)
{
    (void)file, (void)offset, (void)size;
    return false;
}

void emu_file_seal(int file)
{
    (void)file;
}

bool emu_pages_release(void *start, size_t size)
{
    (void)start, (void)size;
    return false;
}

void emu_pages_leave_out_of_dumps(void *start, size_t size)
{
    (void)start, (void)size;
}
