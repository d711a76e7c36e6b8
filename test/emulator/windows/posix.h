/*
 * Stand-ins for the functions of POSIX that the emulated runtime uses. Included in front of each file; the headers beside
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
#define F_DUPFD_CLOEXEC 1

/* Memory to read and write is made page by page, as it is touched. A device's memory has two mappings that are not the
 * same memory: nobody may touch the program's. */
#define mmap emu_mmap
#define munmap emu_munmap
#define mprotect emu_mprotect
void *emu_mmap(void *start, size_t size, int protection, int flags, int file, off_t offset);
int emu_munmap(void *start, size_t size);
int emu_mprotect(void *start, size_t size, int protection);

/* ---- Files ---- */

#define O_CLOEXEC _O_NOINHERIT
#undef ftruncate
#define ftruncate(file, size) ((void)(file), (void)(size), 0)
#define fcntl(...) (-1)
/* The process's own memory alone, at an address. */
#define open(path, flags) emu_open_memory()
#define pread emu_pread
#define pwrite emu_pwrite
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
#define dladdr(address, info) ((void)(address), *(info) = (Dl_info){0}, 0)

#endif
