/*
 * The emulator's calls of Linux.
 */
#include "emu.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

int emu_file_make(void)
{
    return memfd_create("cudart_emu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

bool emu_file_release(int file, size_t offset, size_t size)
{
    return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size) == 0;
}

void emu_file_seal(int file)
{
    (void)fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
}

bool emu_pages_release(void *start, size_t size)
{
    return madvise(start, size, MADV_DONTNEED) == 0;
}

void emu_pages_leave_out_of_dumps(void *start, size_t size)
{
    (void)madvise(start, size, MADV_DONTDUMP);
}

/* A program at a fixed address begins there, but is not moved. */
uintptr_t emu_moved_by(const void *object)
{
    return ((const ElfW(Ehdr) *)object)->e_type == ET_EXEC ? 0 : (uintptr_t)object;
}
