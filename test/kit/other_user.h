/* Simulates a process whose user was changed, so that it has rights that whoever started it has not. */
#ifndef OTHER_USER_H
#define OTHER_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static bool insecure;

/* One system asks so, another so. */
char *__real_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name);
char *__wrap_secure_getenv(const char *name)
{
    return insecure ? NULL : __real_secure_getenv(name);
}

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
    return __real_geteuid() + insecure;
}

#endif
