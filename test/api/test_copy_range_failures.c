/*
 * Checks copies of ranges while each call of the runtime fails once, and without memory for records. The source and the
 * bytes beside the range lose nothing, no view is left, and the same call succeeds when it is repeated.
 */
#include "refused_memory.h"
#include "fixture.h"

#include "cudart_emu.h"

#include <stdint.h>
#include <string.h>

enum { SIZE = 12000, N = 4001, HERE = 3001, THERE = 500, MOST = 200, STREAM_CHOICES = 3 };

static struct {
    synced_mem *to, *from;
    synced_mem_stream stream, own;
    struct facts of_to, of_from;
    unsigned char old[SIZE], copied[SIZE], source[SIZE];
} it;

static void *given(const void *data)
{
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    return (void *)(uintptr_t)data;
}

static synced_mem *make_in(unsigned char *memory, synced_mem_head_kind head, unsigned pattern)
{
    synced_mem *const mem = make_on(SIZE, 0);
    if (memory)
        OK(synced_mem_set_cpu_data(mem, memory));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, pattern);
    if (head != SYNCED_MEM_AT_CPU)
        (void)given(synced_mem_gpu_data_on(mem, NULL));
    if (head == SYNCED_MEM_AT_GPU)
        gpu_fill(given(synced_mem_mutable_gpu_data_on(mem, NULL)), SIZE, pattern, NULL);
    ck_assert_int_eq(synced_mem_head(mem), head);
    return mem;
}

/* choice: the heads, whether the host memory is pageable, the stream. */
static void begin(int choice)
{
    static unsigned char memory[2][SIZE];
    const synced_mem_head_kind of_to = (synced_mem_head_kind)(1 + choice % 3);
    const synced_mem_head_kind of_from = (synced_mem_head_kind)(1 + choice / 3 % 3);
    const bool pageable = choice / 9 % 2;
    it.own = open_stream(NON_BLOCKING);
    it.stream = choice / 18 == 0 ? it.own : choice / 18 == 1 ? SYNCED_MEM_STREAM_LIBRARY : SYNCED_MEM_NO_STREAM;
    it.to = make_in(pageable ? memory[0] : NULL, of_to, 1);
    it.from = make_in(pageable ? memory[1] : NULL, of_from, 2);
    pattern_write(it.old, SIZE, 1);
    pattern_write(it.copied, SIZE, 1);
    pattern_write(it.source, SIZE, 2);
    memcpy(it.copied + HERE, it.source + THERE, N);
    gpu_sync_device(0);
    OK(synced_mem_wait(it.to));
    OK(synced_mem_wait(it.from));
    it.of_to = facts_of(it.to);
    it.of_from = facts_of(it.from);
}

static bool host_reads(synced_mem *mem, const unsigned char *bytes, size_t first, size_t size)
{
    const unsigned char *const data = given(synced_mem_cpu_data(mem));
    gpu_note_host_read(data, SIZE);
    return memcmp(data + first, bytes + first, size) == 0;
}

static void finish(void)
{
    OK(synced_mem_copy(it.to, HERE, it.from, THERE, N, it.stream));
    ck_assert_uint_eq(stats_now().objects, 2);
    ck_assert(host_reads(it.to, it.copied, 0, SIZE));
    ck_assert(host_reads(it.from, it.source, 0, SIZE));
    OK(synced_mem_release(it.to));
    OK(synced_mem_release(it.from));
    close_stream(it.own);
}

/* After a failure the range has the old bytes, or the copy. If its transfer had begun over the only valid copy, it may
 * have none. */
static void check_range(void)
{
    static const unsigned char zeros[SIZE];
    const bool lost = it.of_to.head != SYNCED_MEM_SYNCED && host_reads(it.to, zeros, HERE, N);
    ck_assert(lost || host_reads(it.to, it.old, HERE, N) || host_reads(it.to, it.copied, HERE, N));
}

/* Returns whether the failure happened. */
static bool fails_at(int choice, unsigned nth, cudaError_t code)
{
    begin(choice);
    const unsigned failures = emu_failures();
    emu_fail("*", nth, code, false);
    const synced_mem_status status = synced_mem_copy(it.to, HERE, it.from, THERE, N, it.stream);
    emu_fail_clear();
    const bool happened = emu_failures() > failures;
    ck_assert(happened || status == SYNCED_MEM_OK);
    ck_assert_uint_eq(stats_now().objects, 2);
    ck_assert_int_eq(synced_mem_head(it.from), it.of_from.head);
    if (status != SYNCED_MEM_OK && nth % 2)
        check_range();
    ck_assert(host_reads(it.from, it.source, 0, SIZE));
    ck_assert(host_reads(it.to, it.old, 0, HERE));
    ck_assert(host_reads(it.to, it.old, HERE + N, SIZE - HERE - N));
    finish();
    return happened;
}

START_TEST(each_call_fails)
{
    static const cudaError_t codes[] = {cudaErrorUnknown, cudaErrorMemoryAllocation};
    for (int kind = 0; kind < 2; kind++) {
        unsigned nth = 1;
        while (nth < MOST && fails_at(_i, nth, codes[kind]))
            nth++;
        ck_assert_uint_lt(nth, MOST);
    }
}
END_TEST

START_TEST(no_memory_for_records)
{
    int nth = 1;
    synced_mem_status status = SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    for (; nth < MOST && status != SYNCED_MEM_OK; nth++) {
        begin(_i);
        fail_in = nth;
        status = synced_mem_copy(it.to, HERE, it.from, THERE, N, it.stream);
        fail_in = 0;
        if (status != SYNCED_MEM_OK) {
            ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
            check_unchanged(it.from, &it.of_from);
            ck_assert_int_eq(synced_mem_head(it.to), it.of_to.head);
            ck_assert(host_reads(it.to, it.old, 0, SIZE));
        }
        ck_assert_uint_eq(stats_now().objects, 2);
        finish();
    }
    ck_assert_int_gt(nth, 3);
    ck_assert_int_lt(nth, MOST);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("copy_range_failures");
    TCase *const failures = add_case(made, "failures");
    tcase_set_timeout(failures, 120);
    tcase_add_loop_test(failures, each_call_fails, 0, 18 * STREAM_CHOICES);
    tcase_add_loop_test(failures, no_memory_for_records, 0, 18 * STREAM_CHOICES);
    return made;
}
