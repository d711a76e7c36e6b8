#include "compat.h"

#undef aligned_alloc
#undef free
#undef fclose

#include <malloc.h>
#include <sys/mman.h>
#include <windows.h>

enum { MOST = 4096 };

static SRWLOCK lock = SRWLOCK_INIT;
static void *aligned[MOST];

static void **find(void *data)
{
    for (int i = 0; i < MOST; i++)
        if (aligned[i] == data)
            return &aligned[i];
    return NULL;
}

void *compat_aligned_alloc(size_t alignment, size_t size)
{
    void *data = NULL;
    AcquireSRWLockExclusive(&lock);
    void **const slot = find(NULL);
    if (slot)
        data = *slot = _aligned_malloc(size, alignment);
    ReleaseSRWLockExclusive(&lock);
    return data;
}

void compat_free(void *data)
{
    AcquireSRWLockExclusive(&lock);
    void **const slot = data ? find(data) : NULL;
    if (slot)
        *slot = NULL;
    ReleaseSRWLockExclusive(&lock);
    if (slot)
        _aligned_free(data);
    else
        free(data);
}

/* One at a time. */
static struct {
    FILE *file;
    char *text;
    size_t size;
} in_memory;

FILE *compat_fmemopen(char *text, size_t size, const char *mode)
{
    (void)mode;
    in_memory.text = text;
    in_memory.size = size;
    in_memory.file = tmpfile();
    return in_memory.file;
}

int compat_fclose(FILE *file)
{
    if (file && file == in_memory.file) {
        rewind(file);
        in_memory.text[fread(in_memory.text, 1, in_memory.size - 1, file)] = 0;
        in_memory.file = NULL;
    }
    return fclose(file);
}

int compat_setenv(const char *name, const char *value, int overwrite)
{
    return overwrite || !getenv(name) ? _putenv_s(name, value) : 0;
}

int compat_unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

int mprotect(void *start, size_t size, int protection)
{
    DWORD before;
    return VirtualProtect(start, size, protection & PROT_WRITE ? PAGE_READWRITE : PAGE_READONLY, &before) ? 0 : -1;
}
