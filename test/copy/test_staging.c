/* Checks staged transfers of several objects at once and by several threads, and the settings of the whole library. */
#include "staged_kit.h"

#include "system/process.h"

#include <pthread.h>
#include <string.h>

/* ---- Several ---- */

START_TEST(several_at_once)
{
    enum { COUNT = 6 };
    stage((unsigned)_i % MOST_THREADS);
    synced_mem_stream stream = open_stream(NON_BLOCKING);
    synced_mem *mems[COUNT + 1];
    void *mine[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        mine[i] = memory();
        mems[i] = i % 3 ? make_in(mine[i], i + 1) : make_on(SIZE, 0);
        if (i % 3 == 0)
            host_fill(synced_mem_overwrite_cpu_data(mems[i]), SIZE, i + 1);
    }
    mems[COUNT] = mems[1];
    OK(synced_mem_async_gpu_push_n(mems, COUNT + 1, stream));
    ck_assert_uint_eq(stats_now().staged_transfers, 4);
    ck_assert_uint_eq(stats_now().h2d_transfers, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert(device_is(synced_mem_gpu_data_on(mems[i], stream), SIZE, i + 1));
        gpu_fill(synced_mem_overwrite_gpu_data_on(mems[i], stream), SIZE, i + 11, stream);
    }
    OK(synced_mem_async_cpu_pull_n(mems, COUNT + 1, stream));
    for (unsigned i = 0; i < COUNT; i++)
        ck_assert(host_is(synced_mem_cpu_data(mems[i]), SIZE, i + 11));
    ck_assert_uint_eq(stats_now().staged_transfers, 8);
    for (unsigned i = 0; i < COUNT; i++) {
        OK(synced_mem_release(mems[i]));
        free(mine[i]);
    }
    close_stream(stream);
}
END_TEST

static synced_mem *shared;

static void *read_all_ways(void *which)
{
    const unsigned pattern = 1;
    for (int i = 0; i < 20; i++) {
        const void *const host = synced_mem_cpu_data(shared);
        const void *const data = i % 2 ? synced_mem_gpu_data(shared) : synced_mem_gpu_data_on(shared, NULL);
        if (!host || !data || !pattern_is(host, SIZE, pattern))
            return which;
    }
    return NULL;
}

/* First accesses by several threads cause one transfer. */
START_TEST(many_readers)
{
    stage((unsigned)_i);
    pthread_t threads[MOST_THREADS];
    void *const mine = memory();
    shared = make_in(mine, 1);
    for (int i = 0; i < MOST_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_all_ways, shared), 0);
    for (int i = 0; i < MOST_THREADS; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(stats_now().h2d_transfers, 1);
    OK(synced_mem_release(shared));
    free(mine);
}
END_TEST

/* ---- The whole library ---- */

/* The copy threads end with a shutdown, and are started again after it. A child does not have those of its parent. */
static void use_in_child(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    synced_mem *const mem = make(SIZE);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    FAILS_NULL(SYNCED_MEM_ERR_FORKED, synced_mem_gpu_data(mem));
    OK(synced_mem_release(mem));
}

START_TEST(after_a_shutdown)
{
    stage(2);
    void *const mine = memory();
    for (int i = 0; i < 3; i++) {
        synced_mem *const mem = make_in(mine, 1);
        ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
        let_others_sleep(); /* copy threads free work that is done */
        ck_assert(in_a_child(use_in_child, NULL));
        OK(synced_mem_release(mem));
        OK(synced_mem_shutdown());
    }
    free(mine);
}
END_TEST

/* Chunks that a thread ends while another one queues copies, and chunks that are opened ahead. There are more of them
 * than buffers. */
START_TEST(many_in_a_row)
{
    enum { MANY = 150, CHUNK = 65536, BYTES = 6 * CHUNK + 100, STEP = 4096 };
    const synced_mem_staging staging = {
        .struct_size = sizeof staging, .threads = (unsigned)_i, .buffer_bytes = CHUNK, .minimum_bytes = CHUNK};
    OK(synced_mem_set_staging(&staging));
    unsigned char *const mine = memory();
    synced_mem *const mem = make_on(BYTES, 0);
    OK(synced_mem_set_cpu_data(mem, mine));
    for (unsigned round = 0; round < MANY; round++) {
        ck_assert_ptr_eq(synced_mem_mutable_cpu_data(mem), mine);
        for (size_t at = 0; at < BYTES; at += STEP)
            mine[at] = (unsigned char)(round + at / STEP);
        ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
        memset(mine, 255, BYTES); /* the contents are the device's */
        ck_assert_ptr_eq(synced_mem_cpu_data(mem), mine);
        for (size_t at = 0; at < BYTES; at += STEP)
            ck_assert_uint_eq(mine[at], (unsigned char)(round + at / STEP));
    }
    ck_assert_uint_eq(stats_now().staged_transfers, 2 * MANY);
    OK(synced_mem_release(mem));
    free(mine);
}
END_TEST

START_TEST(settings)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    OK(synced_mem_get_staging(&staging));
    const unsigned others = sm_processors() - 1;
    ck_assert_uint_eq(staging.threads, others < 1 ? 1 : others < 15 ? others : 15);
    ck_assert_uint_eq(staging.minimum_bytes, 131072);
    const synced_mem_staging good = staging;
    static const struct {
        size_t struct_size;
        unsigned threads;
        size_t buffer;
    } wrong[] = {{sizeof staging - 1, 1, BUFFER},     {sizeof staging, 65, BUFFER},      {sizeof staging, 1, 0},
                 {sizeof staging, 1, 65535},          {sizeof staging, 1, 67108864 + 1}, {0, 1, BUFFER},
                 {sizeof staging, UINT32_MAX, BUFFER}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        staging = (synced_mem_staging){
            .struct_size = wrong[i].struct_size, .threads = wrong[i].threads, .buffer_bytes = wrong[i].buffer};
        FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_staging(&staging));
    }
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_set_staging(NULL));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_get_staging(NULL));
    staging.struct_size = 1;
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, synced_mem_get_staging(&staging));
    staging.struct_size = sizeof staging;
    OK(synced_mem_get_staging(&staging));
    ck_assert_mem_eq(&staging, &good, sizeof good);
    staging.minimum_bytes = SIZE_MAX;
    OK(synced_mem_set_staging(&staging));
    if (!gpu_expected())
        return;
    void *const mine = memory();
    synced_mem *const mem = make_in(mine, 1);
    ck_assert(device_is(synced_mem_gpu_data(mem), SIZE, 1));
    ck_assert_uint_eq(stats_now().staged_transfers, 0);
    OK(synced_mem_release(mem));
    free(mine);
}
END_TEST

Suite *suite(void)
{
    Suite *const of = suite_create("staging");
    TCase *several = add_case(of, "several");
    add_gpu_loop_test(several, several_at_once, 0, MOST_THREADS);
    add_gpu_loop_test(several, many_readers, 0, MOST_THREADS);
    add_gpu_loop_test(several, many_in_a_row, 0, MOST_THREADS);
    TCase *library = add_case(of, "library");
    tcase_add_test(library, settings);
    add_gpu_tests(library, after_a_shutdown);
    return of;
}
