/*
 * Checks copies of ranges while each call of the runtime fails once, and without memory for records. The source and the
 * bytes beside the range lose nothing, no view is left, and the same call succeeds when it is repeated.
 */
#include "failing_calls.h"
#include "refused_memory.h"

#include <string.h>

enum { SIZE = 12000, N = 4001, HERE = 3001, THERE = 500, STREAM_CHOICES = 3 };

static struct {
    synced_mem *to, *from;
    synced_mem_stream stream, own;
    struct facts of_to, of_from;
    unsigned char old[SIZE], copied[SIZE], source[SIZE];
} it;

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
    RELEASE_EACH(it.to, it.from);
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

static void fail_once(int choice, struct failing *failing)
{
    begin(choice);
    begin_failing(failing);
    const synced_mem_status status = synced_mem_copy(it.to, HERE, it.from, THERE, N, it.stream);
    ck_assert(end_failing(failing) || status == SYNCED_MEM_OK);
    ck_assert_uint_eq(stats_now().objects, 2);
    ck_assert_int_eq(synced_mem_head(it.from), it.of_from.head);
    if (status != SYNCED_MEM_OK && failing->nth % 2)
        check_range();
    ck_assert(host_reads(it.from, it.source, 0, SIZE));
    ck_assert(host_reads(it.to, it.old, 0, HERE));
    ck_assert(host_reads(it.to, it.old, HERE + N, SIZE - HERE - N));
    finish();
}

START_TEST(each_call_fails)
{
    const struct failing kinds[] = {each_call("*", cudaErrorUnknown), each_call("*", cudaErrorMemoryAllocation)};
    for (int kind = 0; kind < 2; kind++)
        for (struct failing failing = kinds[kind]; next_failure(&failing);)
            fail_once(_i, &failing);
}
END_TEST

START_TEST(no_memory_for_records)
{
    struct failing failing = each_refusal(false);
    while (next_failure(&failing)) {
        begin(_i);
        begin_failing(&failing);
        const synced_mem_status status = synced_mem_copy(it.to, HERE, it.from, THERE, N, it.stream);
        ck_assert(end_failing(&failing) || status == SYNCED_MEM_OK);
        if (status != SYNCED_MEM_OK) {
            ck_assert_int_eq(status, SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
            check_unchanged(it.from, &it.of_from);
            ck_assert_int_eq(synced_mem_head(it.to), it.of_to.head);
            ck_assert(host_reads(it.to, it.old, 0, SIZE));
        }
        ck_assert_uint_eq(stats_now().objects, 2);
        finish();
    }
    ck_assert_uint_gt(failing.nth, 2);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("copy_range_failures");
    TCase *const failures = add_case(made, "failures");
    add_divided_test(failures, each_call_fails, 0, 18 * STREAM_CHOICES);
    add_divided_test(failures, no_memory_for_records, 0, 18 * STREAM_CHOICES);
    return made;
}
