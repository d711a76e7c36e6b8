/* Tests that a program which is often refused memory pays for few walks over its objects. */
#include "fixture.h"

#include "base/slab.h"
#include "system/clock.h"

enum { MICROSECOND = 1000, MILLISECOND = 1000000 };

static uint64_t now;
static uint64_t step; /* of the clock, from one look to the next; 0: the clock is the system's */
static unsigned finds;

uint64_t __real_sm_now(void);
uint64_t __wrap_sm_now(void);
uint64_t __wrap_sm_now(void)
{
    return step > 0 ? (now += step) : __real_sm_now();
}

void *__real_sm_slab_find(struct sm_slab *slab, struct sm_slab_walk *walk, bool (*wanted)(void *cell, const void *user),
                          const void *user);
void *__wrap_sm_slab_find(struct sm_slab *slab, struct sm_slab_walk *walk, bool (*wanted)(void *cell, const void *user),
                          const void *user);
void *__wrap_sm_slab_find(struct sm_slab *slab, struct sm_slab_walk *walk, bool (*wanted)(void *cell, const void *user),
                          const void *user)
{
    finds++;
    return __real_sm_slab_find(slab, walk, wanted, user);
}

/* Is refused memory. Returns whether that walked over the objects. */
static bool walks(synced_mem *wanted)
{
    const unsigned before = finds;
    ck_assert_ptr_null(synced_mem_overwrite_cpu_data(wanted));
    return finds > before;
}

static synced_mem *make_largest(void)
{
    synced_mem *mem;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = "largest";
    OK(synced_mem_create(&mem, 3000, &options));
    given(synced_mem_overwrite_cpu_data(mem));
    return mem;
}

START_TEST(refusals_in_a_row)
{
    synced_mem *const wanted = make((size_t)1 << 60);
    synced_mem *const largest = make_largest();
    now = (uint64_t)1 << 40;
    step = MICROSECOND;
    ck_assert(walks(wanted) && walks(wanted));
    step = MILLISECOND;
    ck_assert(walks(wanted));
    SAYS("largest objects there: 'largest'");
    OK(synced_mem_release(largest));
    for (unsigned i = 0; i < 10; i++) {
        ck_assert(!walks(wanted));
        SAYS("largest objects there: 'largest'");
    }
    now += 100 * MILLISECOND;
    ck_assert(walks(wanted));
    SAYS("largest objects there: none");
    OK(synced_mem_release(wanted));
    step = 0;
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("largest");
    add_tests(add_case(made, "largest"), refusals_in_a_row);
    return made;
}
