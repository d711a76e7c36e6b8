/* Processes that a test starts, and memory that it shares with them. */
#ifndef CHILDREN_H
#define CHILDREN_H

#include "check_kit.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { KILLED = 1000 };

/* Returns memory that all children share, all zeros. */
static inline void *make_common(size_t size)
{
    void *const data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(data, MAP_FAILED);
    return data;
}

/* Waits for the end of a child. Returns its exit status, or KILLED and the signal that has killed it. */
static inline int end_child(pid_t child)
{
    int how = 0;
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : KILLED + WTERMSIG(how);
}

#endif
