/* Staged transfers of pageable memory, by the number of copy threads and the size of the buffers. */
#include "ring.h"
#include "suite.h"

static void measure_setting(const struct shape *shape, unsigned threads, size_t buffer)
{
    char name[64];
    const size_t size = suite.largest < (size_t)256 * MIB ? suite.largest : (size_t)256 * MIB;
    const synced_mem_staging staging = {
        .struct_size = sizeof staging, .threads = threads, .buffer_bytes = buffer, .minimum_bytes = 64 * KIB};
    (void)snprintf(name, sizeof name, "%u copy threads, %s", threads, size_name(buffer));
    struct row row = row_of(shape->table, name, (double)buffer);
    if (!row_can_run(&row, true, size))
        return;
    must_work(synced_mem_set_staging(&staging) == SYNCED_MEM_OK);
    measure_ring(shape, size, &row, NULL);
    must_work(synced_mem_shutdown() == SYNCED_MEM_OK); /* restarts the threads */
}

void measure_staging(void)
{
    static const unsigned threads[] = {2, 4, 8, 15};
    static const size_t buffers[] = {512 * KIB, 1 * MIB, 2 * MIB, 4 * MIB};
    static const struct table tables[] = {
        {"staging", "up", "gpu_data of 256 MiB of pageable memory, by how it is staged", UNIT_GB_PER_S,
         "cudaMemcpyAsync from page-locked memory", "cudaMemcpy"},
        {"staging", "down", "cpu_data into 256 MiB of pageable memory, by how it is staged", UNIT_GB_PER_S,
         "cudaMemcpyAsync into page-locked memory", "cudaMemcpy"}};
    for (int i = 0; i < DIRECTIONS; i++) {
        const struct shape shape = {.table = &tables[i],
                                    .host = PAGEABLE,
                                    .movers = {&accessed, &bare_queued, &pageable_copied},
                                    .directions = {(enum direction)i},
                                    .direction_count = 1,
                                    .objects = 1};
        report_table(shape.table);
        for (int setting = 0; setting < 16; setting++)
            measure_setting(&shape, threads[setting / 4], buffers[setting % 4]);
    }
}
