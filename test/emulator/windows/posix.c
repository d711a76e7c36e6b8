/* Memory, by VirtualAlloc(). A handler of faults makes pages that are touched for the first time. */
#include "posix.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <windows.h>

enum { MOST_RANGES = 256, STEP = 1 << 16 };

/* Reserved ranges of addresses, and the parts of them to read and write. */
struct range {
    uintptr_t start, end;
};
static struct range reserved[MOST_RANGES], lazy[MOST_RANGES];
static SRWLOCK lock = SRWLOCK_INIT;

static struct range *find(struct range *ranges, uintptr_t address)
{
    for (int i = 0; i < MOST_RANGES; i++)
        if (address >= ranges[i].start && address < ranges[i].end)
            return &ranges[i];
    return NULL;
}

static bool add(struct range *ranges, void *start, size_t size)
{
    for (int i = 0; i < MOST_RANGES; i++)
        if (ranges[i].end == 0) {
            ranges[i] = (struct range){(uintptr_t)start, (uintptr_t)start + size};
            return true;
        }
    return false;
}

static LONG CALLBACK make_touched_pages(EXCEPTION_POINTERS *exception)
{
    const EXCEPTION_RECORD *const record = exception->ExceptionRecord;
    const uintptr_t address = record->ExceptionInformation[1];
    const DWORD before = GetLastError();
    bool made = false;
    if (record->ExceptionCode == EXCEPTION_ACCESS_VIOLATION && record->NumberParameters >= 2) {
        AcquireSRWLockShared(&lock);
        const struct range *const range = find(lazy, address);
        if (range) {
            const uintptr_t start = address / STEP * STEP > range->start ? address / STEP * STEP : range->start;
            const size_t size = range->end - start < STEP ? range->end - start : STEP;
            made = VirtualAlloc((void *)start, size, MEM_COMMIT, PAGE_READWRITE) != NULL;
        }
        ReleaseSRWLockShared(&lock);
    }
    SetLastError(before);
    return made ? EXCEPTION_CONTINUE_EXECUTION : EXCEPTION_CONTINUE_SEARCH;
}

static void *reserve(size_t size)
{
    static bool handles;
    if (!handles)
        (void)AddVectoredExceptionHandler(1, make_touched_pages);
    handles = true;
    void *const start = VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_NOACCESS);
    return start && add(reserved, start, size) ? start : NULL;
}

/* Memory that another process could map is refused. */
void *emu_mmap(void *start, size_t size, int protection, int flags, int file, off_t offset)
{
    (void)file, (void)offset;
    AcquireSRWLockExclusive(&lock);
    if (!(flags & MAP_FIXED))
        start = reserve(size);
    if (start && protection != PROT_NONE && !add(lazy, start, size))
        start = NULL;
    ReleaseSRWLockExclusive(&lock);
    return start ? start : MAP_FAILED;
}

/* The addresses around an aligned range stay reserved with it. */
int emu_munmap(void *start, size_t size)
{
    AcquireSRWLockExclusive(&lock);
    struct range *const whole = find(reserved, (uintptr_t)start), *const part = find(lazy, (uintptr_t)start);
    if (whole && size > (whole->end - whole->start) / 2) {
        (void)VirtualFree((void *)whole->start, 0, MEM_RELEASE);
        *whole = (struct range){0, 0};
        if (part)
            *part = (struct range){0, 0};
    }
    ReleaseSRWLockExclusive(&lock);
    return 0;
}

int emu_mprotect(void *start, size_t size, int protection)
{
    DWORD before;
    const DWORD wanted = protection & PROT_WRITE ? PAGE_READWRITE : PAGE_NOACCESS;
    return VirtualAlloc(start, size, MEM_COMMIT, wanted) && VirtualProtect(start, size, wanted, &before) ? 0 : -1;
}

int emu_open_memory(void)
{
    return _open("NUL", _O_RDWR | _O_NOINHERIT);
}

/* Copies one page's bytes, as if it were not protected. Returns how many. */
static size_t copy_within_page(void *to, const void *from, size_t size, uintptr_t page_of)
{
    enum { PAGE = 4096 };
    const size_t left = PAGE - page_of % PAGE;
    const size_t part = size < left ? size : left;
    DWORD before;
    if (!VirtualProtect((void *)page_of, part, PAGE_READWRITE, &before))
        return 0;
    memcpy(to, from, part);
    (void)VirtualProtect((void *)page_of, part, before, &before);
    return part;
}

ssize_t emu_pread(int file, void *data, size_t size, uint64_t address)
{
    size_t done = 0, part = 1;
    (void)file;
    for (; done < size && part > 0; done += part)
        part = copy_within_page((char *)data + done, (const char *)address + done, size - done, address + done);
    return (ssize_t)done;
}

ssize_t emu_pwrite(int file, const void *data, size_t size, uint64_t address)
{
    size_t done = 0, part = 1;
    (void)file;
    for (; done < size && part > 0; done += part)
        part = copy_within_page((char *)address + done, (const char *)data + done, size - done, address + done);
    return (ssize_t)done;
}
