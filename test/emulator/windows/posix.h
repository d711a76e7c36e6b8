/*
 * What the emulated runtime uses of Linux, as far as Windows has it. Included in front of each file; the headers beside
 * this one include it. What is not there: memory that processes share, which can't be made; reports of faults; names of
 * callers, and their stacks.
 */
#ifndef EMU_POSIX_H
#define EMU_POSIX_H

#include <fcntl.h>
#include <io.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- Memory ---- */

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 1
#define MAP_SHARED 2
#define MAP_FIXED 4
#define MAP_ANONYMOUS 8
#define MAP_NORESERVE 16
#define MAP_FAILED ((void *)-1)
#define MADV_DONTNEED 1
#define MADV_DONTDUMP 2
#define MFD_CLOEXEC 1u
#define MFD_ALLOW_SEALING 2u
#define F_DUPFD_CLOEXEC 1
#define F_ADD_SEALS 2
#define F_SEAL_SHRINK 1
#define F_SEAL_GROW 2
#define FALLOC_FL_PUNCH_HOLE 1
#define FALLOC_FL_KEEP_SIZE 2

/* Memory to read and write is made page by page, as it is touched. A device's memory has two mappings that are not the
 * same memory: nobody may touch the program's. */
#define mmap emu_mmap
#define munmap emu_munmap
#define mprotect emu_mprotect
void *emu_mmap(void *start, size_t size, int protection, int flags, int file, off_t offset);
int emu_munmap(void *start, size_t size);
int emu_mprotect(void *start, size_t size, int protection);

/* Not there: the callers then fill the memory. */
#define madvise(start, size, advice) ((void)(start), (void)(size), -1)
#define fallocate(file, mode, offset, size) ((void)(offset), -1)

/* ---- Files ---- */

#define O_CLOEXEC _O_NOINHERIT
/* For the memory of a device the descriptor stands for nothing. Other memory can't be made. */
#define memfd_create emu_memfd_create
#undef ftruncate
#define ftruncate(file, size) ((void)(file), (void)(size), 0)
#define fcntl(...) (-1)
/* The process's own memory alone, at an address. */
#define open(path, flags) emu_open_memory()
#define pread emu_pread
#define pwrite emu_pwrite
int emu_memfd_create(const char *name, unsigned flags);
int emu_open_memory(void);
ssize_t emu_pread(int file, void *data, size_t size, uint64_t address);
ssize_t emu_pwrite(int file, const void *data, size_t size, uint64_t address);
/* No file of the system says what is mapped. Under Wine there is one, of another system. */
#define fopen(path, mode) ((void)(path), (FILE *)NULL)

/* ---- Signals and names ---- */

typedef struct {
    int si_code;
    void *si_addr;
} siginfo_t;
struct sigaction {
    union {
        void (*sa_handler)(int number);
        void (*sa_sigaction)(int number, siginfo_t *info, void *context);
    };
    int sa_flags;
};
#define SA_SIGINFO 1
#define SA_ONSTACK 2
#define SIG_SETMASK 0
#define sigaction(number, action, before) ((void)(number), (void)(action), (void)(before), 0)
typedef int emu_sigset;
#define sigset_t emu_sigset
#define sigfillset(set) ((void)(set))
#define sigdelset(set, number) ((void)(set))
#undef pthread_sigmask
#define pthread_sigmask(how, set, before) ((void)(set), (void)(before))
#define pthread_atfork(before, in_parent, in_child) ((void)(in_child))

typedef struct {
    const char *dli_fname;
    void *dli_fbase;
    const char *dli_sname;
} Dl_info;
struct link_map {
    uintptr_t l_addr;
};
#define RTLD_DL_LINKMAP 0
#define dladdr(address, info) ((void)(address), *(info) = (Dl_info){0}, 0)
#define dladdr1(address, info, map, which) ((void)(address), (void)(info), (void)(map), 0)
#define backtrace emu_backtrace
#define backtrace_symbols_fd(frames, count, file) ((void)(frames), (void)(count))
int emu_backtrace(void **frames, int most);

#endif
