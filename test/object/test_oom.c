/* Checks scenarios without memory from the system: each allocation of the library's own fails once, wherever it is
 * made. The linker puts the wrappers in place of the C library's functions (--wrap). */
#include "scenario.h"

#include <stdio.h>
#include <sys/mman.h>

static unsigned uses;
static unsigned fails_at; /* 0: never */

static bool is_refused(void)
{
    return ++uses == fails_at;
}

/* mmap() has two names. The width of file offsets decides which one is linked. */
#define WRAP_MMAP(name)                                                                                                \
    void *__real_##name(void *address, size_t size, int protection, int flags, int file, off_t offset);                \
    void *__wrap_##name(void *address, size_t size, int protection, int flags, int file, off_t offset);                \
    void *__wrap_##name(void *address, size_t size, int protection, int flags, int file, off_t offset)                 \
    {                                                                                                                  \
        return is_refused() ? MAP_FAILED : __real_##name(address, size, protection, flags, file, offset);              \
    }
WRAP_MMAP(mmap)
WRAP_MMAP(mmap64)

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_refused() ? NULL : __real_aligned_alloc(alignment, size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return is_refused() ? NULL : __real_realloc(old, size);
}

static int scenarios(void)
{
    return gpu_expected() ? scenario_count : scenario_count_without_gpu;
}

struct run {
    int scenario;
    unsigned fails_at;
    unsigned *uses; /* receives the number of allocations, from another process */
};

static void run(const void *argument)
{
    const struct run *const wanted = argument;
    const enum outcome outcome = wanted->fails_at > 0 ? MAY_FAIL : MUST_SUCCEED;
    scenario_prepare(wanted->scenario, gpu_start(fixture_schedule()), false);
    uses = 0;
    fails_at = wanted->fails_at;
    scenario_run(wanted->scenario, outcome);
    fails_at = 0;
    *wanted->uses = uses;
    scenario_check_end(outcome);
    scenario_clean_up();
    gpu_check_nothing_left();
}

/* Without seeds, each how many-th allocation fails. A child starts slowly on a GPU, and ends slowly under
 * a sanitizer. */
static unsigned step(void)
{
    return (SANITIZED ? 4 : 1) * (gpu_schedules() > 1 || !gpu_expected() ? 1 : 8);
}

START_TEST(each_allocation_fails)
{
    unsigned *const counted = mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct run wanted = {.scenario = _i, .uses = counted};
    int failed = 0;
    ck_assert_ptr_ne(counted, MAP_FAILED);
    ck_assert(in_a_child(run, &wanted));
    const unsigned all = *counted;
    ck_assert_uint_gt(all, 2);
    for (wanted.fails_at = 1; wanted.fails_at <= all; wanted.fails_at += step())
        if (!in_a_child(run, &wanted)) {
            (void)fprintf(stderr, "that was scenario %d with allocation %u failing\n", _i, wanted.fails_at);
            failed++;
        }
    ck_assert_int_eq(failed, 0);
    (void)munmap(counted, sizeof *counted);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("oom");
    TCase *const tests = add_case_in_children(made, "oom");
    add_divided_test(tests, each_allocation_fails, 0, scenarios());
    return made;
}
