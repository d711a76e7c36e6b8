/* Functions of POSIX and C11 that tests use and MinGW's C library lacks. Included in front of each test. */
#ifndef COMPAT_H
#define COMPAT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Aligned memory needs a function of its own to free it. So free() looks whether it is such memory. */
void *compat_aligned_alloc(size_t alignment, size_t size);
void compat_free(void *data);
/* A file whose contents fclose() copies to the text. */
FILE *compat_fmemopen(char *text, size_t size, const char *mode);
int compat_fclose(FILE *file);
int compat_setenv(const char *name, const char *value, int overwrite);
int compat_unsetenv(const char *name);

#define aligned_alloc(alignment, size) compat_aligned_alloc(alignment, size)
#define free compat_free
#define fmemopen compat_fmemopen
#define fclose compat_fclose
#define setenv(name, value, overwrite) compat_setenv(name, value, overwrite)
#define unsetenv(name) compat_unsetenv(name)

#endif
