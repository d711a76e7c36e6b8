#include "test_file.h"

#include "crowd.h"
#include "measure.h"
#include "pattern.h"
#include "suite.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* WRITERS: the threads that fill a file. PLACES: those that a check reads. */
enum { WRITERS = 16, PIECE = 1 << 20, PLACES = 16, PLACE = 4096 };

/* ---- Folders ---- */

static bool is_in_memory(const char *folder)
{
    struct statfs system;
    return statfs(folder, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

const char *folder_in_memory(void)
{
    static const char folder[] = "/dev/shm";
    return is_in_memory(folder) && access(folder, W_OK) == 0 ? folder : NULL;
}

const char *folder_on_disk(void)
{
    const char *const named = getenv("TMPDIR");
    const char *const folder = named && *named ? named : "/tmp";
    return is_in_memory(folder) ? NULL : folder;
}

static size_t free_memory(void)
{
    FILE *const facts = fopen("/proc/meminfo", "r");
    char line[128];
    size_t kilobytes = 0;
    while (facts && kilobytes == 0 && fgets(line, sizeof line, facts))
        (void)sscanf(line, "MemAvailable: %zu", &kilobytes);
    if (facts)
        (void)fclose(facts);
    return kilobytes * KIB;
}

size_t room_in_folder(const char *folder)
{
    struct statvfs system;
    if (!folder || statvfs(folder, &system) != 0)
        return 0;
    const size_t room = (size_t)system.f_bavail * system.f_frsize / 2;
    const size_t memory = free_memory() / 6;
    return room < memory ? room : memory;
}

/* ---- Files ---- */

struct filling {
    int file;
    size_t size;
    atomic_size_t next;
};

static double fill_pieces(void *state, struct member *member)
{
    struct filling *const on = state;
    char *const piece = malloc(PIECE);
    (void)member;
    must(piece != NULL, "no memory");
    for (size_t at; (at = atomic_fetch_add(&on->next, PIECE)) < on->size;) {
        const size_t size = on->size - at < PIECE ? on->size - at : PIECE;
        pattern_fill(piece, size, at / sizeof(uint64_t));
        must(pwrite(on->file, piece, size, (off_t)at) == (ssize_t)size, "a temporary file can't be written");
    }
    free(piece);
    return 0;
}

int make_file(const char *folder, size_t size)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/synced_mem_suite_XXXXXX", folder);
    struct filling filling = {.file = mkstemp(path), .size = size};
    must(filling.file >= 0 && unlink(path) == 0, "no temporary file can be made");
    (void)crowd_run(WRITERS, fill_pieces, &filling);
    return filling.file;
}

int open_directly(int file)
{
    char path[64];
    must(fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, "a temporary file can't be written");
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
}

void check_file(int file, size_t size)
{
    char place[PLACE];
    for (size_t i = 0; i < PLACES; i++) {
        const size_t at = (size - PLACE) / (PLACES - 1) * i / sizeof(uint64_t) * sizeof(uint64_t);
        must(pread(file, place, PLACE, (off_t)at) == PLACE, "a temporary file can't be read");
        pattern_check(place, PLACE, at / sizeof(uint64_t));
    }
}
