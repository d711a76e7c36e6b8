#include "resident.h"

#include "child.h"
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shared with the processes that count. */
static struct {
    size_t count;
    double each; /* bytes */
} * result;

size_t resident_count(void)
{
    return result->count;
}

size_t resident_now(void)
{
    FILE *const file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    must(file && fscanf(file, "%*u %lu", &pages) == 1, "/proc/self/statm can't be read");
    (void)fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

void *resident_array(size_t count, size_t size)
{
    void *const array = malloc(count * size);
    must(array != NULL, "no memory");
    memset(array, 1, count * size);
    return array;
}

void resident_end(size_t before)
{
    result->each = ((double)resident_now() - (double)before) / (double)result->count;
    _exit(EXIT_SUCCESS);
}

double resident_each(void (*fill)(void), size_t count)
{
    if (!result) {
        result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        must(result != MAP_FAILED, "no memory");
    }
    result->count = count;
    must(run_apart(fill), "memory could not be counted");
    return round(result->each);
}
