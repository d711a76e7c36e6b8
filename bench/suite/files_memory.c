/* Host memory while files are loaded to the device. */
#include "bare.h"
#include "object.h"
#include "parts_of_file.h"
#include "report.h"
#include "resident.h"
#include "suite.h"
#include "synced_mem/report.h"
#include "test_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_OBJECTS = 4, LEAST_OBJECTS = 1 };

static struct {
    atomic_bool stop;
    size_t most; /* resident bytes that were seen */
} watch;

static void *watch_memory(void *unused)
{
    (void)unused;
    while (!atomic_load(&watch.stop)) {
        const size_t now = resident_now();
        watch.most = now > watch.most ? now : watch.most;
        (void)usleep(500);
    }
    return NULL;
}

static uint64_t pinned_bytes(void)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    must_work(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    return stats.pinned_bytes;
}

/* Growth of this process's memory, in bytes. */
struct growth {
    double resident; /* at its highest */
    double pinned;
};

/* Each object has the same bytes of the file. */
static struct growth load_all(synced_mem_file *file, size_t size, size_t count)
{
    synced_mem *mems[MOST_OBJECTS];
    pthread_t watcher;
    const size_t resident = resident_now();
    const uint64_t pinned = pinned_bytes();
    must(pthread_create(&watcher, NULL, watch_memory, NULL) == 0, "no thread");
    for (size_t i = 0; i < count; i++) {
        mems[i] = make_object(size);
        must_work(synced_mem_use_file(mems[i], file, 0) == SYNCED_MEM_OK);
        must_work(synced_mem_gpu_data(mems[i]) != NULL);
    }
    bare_wait_all();
    atomic_store(&watch.stop, true);
    must(pthread_join(watcher, NULL) == 0, "a thread can't be joined");
    const struct growth growth = {.resident = (double)watch.most - (double)resident,
                                  .pinned = (double)pinned_bytes() - (double)pinned};
    for (size_t i = 0; i < count; i++)
        release_object(mems[i]);
    return growth;
}

static void start_device(void)
{
    synced_mem *const mem = make_object(KIB);
    must_work(synced_mem_gpu_data(mem) != NULL);
    release_object(mem);
}

void measure_load_memory(void)
{
    static const struct table table = {
        "files",    "load-memory", "Growth of the process's memory while files are loaded to the device",
        UNIT_BYTES, NULL,          NULL};
    const char *const folder = folder_in_memory();
    struct row resident = row_of(&table, "resident, at its highest", 0);
    struct row pinned = row_of(&table, "page-locked", 0);
    row_target(&resident, VALUE, AT_MOST, 256 * MIB);
    row_target(&pinned, VALUE, AT_MOST, 256 * MIB);
    report_table(&table);
    if (!row_can_run(&resident, true, 0) || !row_can_run(&pinned, true, 0))
        return;
    const size_t part = part_for(suite.quick ? 4 * KIB : suite.emulated ? 16 * KIB : 8 * MIB, room_in_folder(folder));
    const size_t size = PARTS_OF_FILE * part;
    if (part < KIB) {
        report_skip(&resident, "too little room for a file in memory");
        report_skip(&pinned, "too little room for a file in memory");
        return;
    }
    start_device();
    const size_t fit = bare_device_room() * 2 / 3 / size;
    const size_t count = fit < LEAST_OBJECTS ? LEAST_OBJECTS : fit < MOST_OBJECTS ? fit : MOST_OBJECTS;
    const int descriptor = make_file(folder, size);
    synced_mem_file *const file = open_for_objects(descriptor);
    const struct growth growth = load_all(file, size, count);
    must_work(synced_mem_file_release(file) == SYNCED_MEM_OK);
    (void)close(descriptor);
    (void)snprintf(resident.note, sizeof resident.note, "%zu times %s", count, size_name(size));
    (void)snprintf(pinned.note, sizeof pinned.note, "%s", resident.note);
    report_values(&resident, (const struct summary[]){summary_of_one(growth.resident), unmeasured, unmeasured});
    report_values(&pinned, (const struct summary[]){summary_of_one(growth.pinned), unmeasured, unmeasured});
}
