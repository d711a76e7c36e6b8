/*
 * Steps: calls of the system, and stores to a control page, which the linker replaces with these (--wrap; the list is
 * step_wraps in the folder's meson.build). Each counts one step. A process can be killed before a given step, or a
 * given step of the system can fail. With STEPS_OF_MEMORY calloc() is such a step.
 */
#ifndef STEPS_KIT_H
#define STEPS_KIT_H

#include "fixture.h"

#include "memory/shared/control_page.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    atomic_int count; /* of steps; threads of the library take some */
    int kill_at;      /* 0: never */
    int fail_at;      /* of the calls of the system alone; 0: never */
    int fail_with;
    atomic_int calls;     /* of the system */
    bool sends_processes; /* descriptors come as those of a process */
} steps;

static inline void take_step(void)
{
    if (atomic_fetch_add(&steps.count, 1) + 1 == steps.kill_at)
        (void)raise(SIGKILL);
}

/* Returns whether the call is to fail, with errno set. */
static inline bool take_call(void)
{
    take_step();
    if (atomic_fetch_add(&steps.calls, 1) + 1 != steps.fail_at)
        return false;
    errno = steps.fail_with;
    return true;
}

void __real_sm_line_store(struct sm_control_page *page, unsigned index, struct sm_line_word place);
void __wrap_sm_line_store(struct sm_control_page *page, unsigned index, struct sm_line_word place);
void __wrap_sm_line_store(struct sm_control_page *page, unsigned index, struct sm_line_word place)
{
    take_step();
    __real_sm_line_store(page, index, place);
    take_step();
}

bool __real_sm_line_take_out(struct sm_control_page *page, unsigned index, bool (*is_dead)(int fd, unsigned index),
                             int fd);
bool __wrap_sm_line_take_out(struct sm_control_page *page, unsigned index, bool (*is_dead)(int fd, unsigned index),
                             int fd);
bool __wrap_sm_line_take_out(struct sm_control_page *page, unsigned index, bool (*is_dead)(int fd, unsigned index),
                             int fd)
{
    take_step();
    const bool taken = __real_sm_line_take_out(page, index, is_dead, fd);
    take_step();
    return taken;
}

void __real_sm_contents_store(struct sm_control_page *page, struct sm_contents contents);
void __wrap_sm_contents_store(struct sm_control_page *page, struct sm_contents contents);
void __wrap_sm_contents_store(struct sm_control_page *page, struct sm_contents contents)
{
    take_step();
    __real_sm_contents_store(page, contents);
    take_step();
}

void __real_sm_bell_ring(struct sm_control_page *page);
void __wrap_sm_bell_ring(struct sm_control_page *page);
void __wrap_sm_bell_ring(struct sm_control_page *page)
{
    take_step();
    __real_sm_bell_ring(page);
    take_step();
}

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    return take_call() ? -1 : __real_memfd_create(name, flags);
}

/* A C library may have only one of a function's two names. */
#define STEP_FTRUNCATE(name)                                                                                           \
    int __real_##name(int fd, off_t size) __attribute__((weak));                                                       \
    int __wrap_##name(int fd, off_t size);                                                                             \
    int __wrap_##name(int fd, off_t size)                                                                              \
    {                                                                                                                  \
        return take_call() ? -1 : __real_##name(fd, size);                                                             \
    }
STEP_FTRUNCATE(ftruncate)
STEP_FTRUNCATE(ftruncate64)

#define STEP_FCNTL(name)                                                                                               \
    int __real_##name(int fd, int command, ...) __attribute__((weak));                                                 \
    int __wrap_##name(int fd, int command, ...);                                                                       \
    int __wrap_##name(int fd, int command, ...)                                                                        \
    {                                                                                                                  \
        va_list arguments;                                                                                             \
        va_start(arguments, command);                                                                                  \
        void *const argument = va_arg(arguments, void *);                                                              \
        va_end(arguments);                                                                                             \
        return take_call() ? -1 : __real_##name(fd, command, argument);                                                \
    }
STEP_FCNTL(fcntl)
STEP_FCNTL(fcntl64)

#define STEP_OPEN(name)                                                                                                \
    int __real_##name(const char *path, int flags, ...) __attribute__((weak));                                         \
    int __wrap_##name(const char *path, int flags, ...);                                                               \
    int __wrap_##name(const char *path, int flags, ...)                                                                \
    {                                                                                                                  \
        return take_call() ? -1 : __real_##name(path, flags);                                                          \
    }
STEP_OPEN(open)
STEP_OPEN(open64)

#define STEP_MMAP(name)                                                                                                \
    void *__real_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset) __attribute__((weak)); \
    void *__wrap_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset);                       \
    void *__wrap_##name(void *at, size_t size, int protection, int flags, int fd, off_t offset)                        \
    {                                                                                                                  \
        return take_call() ? MAP_FAILED : __real_##name(at, size, protection, flags, fd, offset);                      \
    }
STEP_MMAP(mmap)
STEP_MMAP(mmap64)

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size)
{
    take_step();
    return __real_munmap(at, size);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    take_step();
    return __real_close(fd);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return take_call() ? -1 : __real_sendmsg(fd, message, flags);
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    const ssize_t came = take_call() ? -1 : __real_recvmsg(fd, message, flags);
    if (came >= 0 && steps.sends_processes)
        CMSG_FIRSTHDR(message)->cmsg_type = 4; /* SCM_PIDFD, which newer systems have */
    return came;
}

#ifdef STEPS_OF_MEMORY
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return take_call() ? NULL : __real_calloc(count, size);
}
#endif

#endif
