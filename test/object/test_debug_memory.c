/* Checks debug mode with memory that the caller, another object or the device uses too. Also checks memory that the
 * system does not protect. */
#include "debug_kit.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

static bool cannot_protect, cannot_close;
static int cannot_open; /* the number of refusals that are left */
int __real_mprotect(void *start, size_t bytes, int allowed);
int __wrap_mprotect(void *start, size_t bytes, int allowed);
int __wrap_mprotect(void *start, size_t bytes, int allowed)
{
    if (cannot_protect || (cannot_close && allowed != (PROT_READ | PROT_WRITE)) ||
        (cannot_open > 0 && allowed == (PROT_READ | PROT_WRITE) && cannot_open--)) {
        errno = ENOMEM;
        return -1;
    }
    return __real_mprotect(start, bytes, allowed);
}

/* Refuses requests that are larger than the first records of a kind. */
static bool no_memory;
static int small_left = -1; /* the small requests before one is refused; -1: none is */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (small_left >= 0 && count * size < 100 && small_left-- == 0)
        return NULL;
    return no_memory && count * size > 20000 ? NULL : __real_calloc(count, size);
}

/* ---- Memory of the caller's ---- */

static void borrow_and_return(void)
{
    unsigned char *const pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    synced_mem *const mem = make_named_on("borrowed", 3 * PAGE, SYNCED_MEM_DEVICE_CURRENT);
    memset(pages, 1, 4 * PAGE);
    OK(synced_mem_set_cpu_data(mem, pages + 100));
    OK(synced_mem_resize_discard(mem, 2 * PAGE));
    touch_to_write(pages);            /* in a page shared with the bytes before */
    touch_to_write(pages + 3 * PAGE); /* in a page shared with the bytes behind */
    OK(synced_mem_release_cpu_data(mem));
    touch_to_write(pages + PAGE);
    OK(synced_mem_set_cpu_data(mem, pages));
    OK(synced_mem_set_cpu_data(mem, pages));
    OK(synced_mem_resize_discard(mem, PAGE));
    OK(synced_mem_release(mem));
    memset(pages, 2, 4 * PAGE);
    ck_assert_uint_eq(stats_now().unprotected, 0);
    (void)munmap(pages, 4 * PAGE);
}

static void borrow_and_use(void)
{
    unsigned char *const pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    synced_mem *const mem = make_named_on("borrowed", 3 * PAGE, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(mem, pages + 100));
    OK(synced_mem_resize_discard(mem, 3 * PAGE));
    touch_to_read(pages + PAGE);
}

START_TEST(borrowed)
{
    lives(borrow_and_return);
    dies(borrow_and_use, "synced_mem: 'borrowed' (12288 bytes)");
}
END_TEST

static void back(void *data, void *user, synced_mem_stream stream)
{
    (void)user, (void)stream;
    memset(data, 3, PAGE);
}

static void adopt(void)
{
    static _Alignas(PAGE) unsigned char memory[PAGE];
    synced_mem *const mem = make(PAGE);
    OK(USE(mem, .cpu_data = memory, .callback = back));
    OK(synced_mem_resize_discard(mem, PAGE));
    OK(synced_mem_release(mem));
    ck_assert_int_eq(memory[0], 3);
    ck_assert_uint_eq(stats_now().unprotected, 0);
}

START_TEST(adopted)
{
    lives(adopt);
}
END_TEST

/* ---- Memory that cannot be protected ---- */

static void use_small_memory(void)
{
    static unsigned char memory[64];
    for (int i = 0; i < 2; i++) {
        synced_mem *const mem = make_named_on("tiny", sizeof memory, SYNCED_MEM_DEVICE_CURRENT);
        OK(synced_mem_set_cpu_data(mem, memory));
        OK(synced_mem_resize_discard(mem, sizeof memory));
        touch_to_write(memory);
        OK(synced_mem_release(mem));
    }
    ck_assert_uint_eq(stats_now().unprotected, 2);
    OK(synced_mem_print_stats(stderr));
}

START_TEST(less_than_a_page)
{
    lives(use_small_memory);
    const char *const told =
        "synced_mem: SYNCED_MEM_DEBUG: the host copy of 'tiny' (64 bytes) is not protected, as its "
        "memory fills no whole page;";
    SAID(told);
    ck_assert_ptr_null(strstr(strstr(said, told) + 1, told));
    SAID("host copies that could not be protected                           2\n");
}
END_TEST

static void use_one_memory_twice(void)
{
    static _Alignas(PAGE) unsigned char memory[2 * PAGE];
    synced_mem *const first = make_named_on("first", 2 * PAGE, SYNCED_MEM_DEVICE_CURRENT);
    synced_mem *const second = make_named_on("second", PAGE, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(first, memory));
    OK(synced_mem_resize_discard(first, PAGE));
    OK(synced_mem_set_cpu_data(second, memory + PAGE));
    touch_to_write(synced_mem_mutable_cpu_data(second));
    touch_to_write(memory);
    ck_assert_uint_eq(stats_now().unprotected, 2);
    synced_mem *const third = make_named_on("third", 2 * PAGE, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(third, memory));
    ck_assert_uint_eq(stats_now().unprotected, 3);
    RELEASE_EACH(third, first, second);
}

START_TEST(memory_of_two_objects)
{
    lives(use_one_memory_twice);
    SAID("'first' (4096 bytes) is not protected, as another object has the same memory;");
}
END_TEST

/* Each object's own bytes are usable, in any order of the objects and wherever the pages end. */
static const struct {
    size_t first, first_size, second, second_size, third, third_size;
} views[] = {{0, 2 * PAGE, 0, 100, 4 * PAGE, PAGE},
             {0, 2 * PAGE, PAGE + 100, 100, 4 * PAGE, PAGE},
             {0, 2 * PAGE, 8000, 2 * PAGE, 5 * PAGE, PAGE},
             {0, PAGE, PAGE, PAGE, 0, 2 * PAGE},
             {100, 10, 0, PAGE, 200, 10}};
enum { VIEWS = sizeof views / sizeof *views };
static int row;

static synced_mem *view(unsigned char *memory, size_t size)
{
    synced_mem *const mem = make_named_on("view", size, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(mem, memory));
    return mem;
}

static void use_views(void)
{
    static _Alignas(PAGE) unsigned char memory[6 * PAGE];
    unsigned char *const at[] = {memory + views[row].first, memory + views[row].second, memory + views[row].third};
    const size_t sizes[] = {views[row].first_size, views[row].second_size, views[row].third_size};
    synced_mem *mems[3];
    for (int i = 0; i < 3; i++)
        mems[i] = view(at[i], sizes[i]);
    for (int stale = 0; stale < 3; stale++) {
        OK(synced_mem_resize_discard(mems[stale], sizes[stale]));
        for (int i = 0; i < 3; i++) {
            if (i == stale)
                continue;
            unsigned char *const data = synced_mem_overwrite_cpu_data(mems[i]);
            touch_to_write(data);
            touch_to_write(data + sizes[i] - 1);
        }
    }
    release_all(mems, 3);
}

START_TEST(views_of_one_memory)
{
    row = _i;
    lives(use_views);
}
END_TEST

static void use_neighbours(void)
{
    synced_mem *const stale = make_named_on("stale", 64, 0);
    synced_mem *const used = make_named_on("used", 64, 0);
    touch_to_write(synced_mem_mutable_cpu_data(stale));
    unsigned char *const data = synced_mem_mutable_cpu_data(used);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(stale));
    touch_to_write(data);
    ck_assert_uint_eq(stats_now().unprotected, 0);
    RELEASE_EACH(stale, used);
}

START_TEST(neighbours_in_the_pool)
{
    if (gpu_expected())
        lives(use_neighbours);
}
END_TEST

/* Memory has to be accessible while it is page-locked. */
static void lock_what_is_lent(void)
{
    static _Alignas(PAGE) unsigned char memory[2 * PAGE];
    synced_mem *const mem = make_named_on("lent", 2 * PAGE, 0);
    OK(synced_mem_set_cpu_data(mem, memory));
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(USE(mem, .cpu_data = memory, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
    OK(USE(mem, .cpu_data = memory, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK));
    ck_assert_int_eq(synced_mem_cpu_is_pinned(mem), 1);
    ck_assert_uint_eq(stats_now().unprotected, 0);
    OK(synced_mem_release(mem));
}

START_TEST(page_locked_later)
{
    if (gpu_expected())
        lives(lock_what_is_lent);
}
END_TEST

static void *borrow_little(void *unused)
{
    static unsigned char memory[64];
    OK(synced_mem_release(view(memory, sizeof memory)));
    return unused;
}

static void say_while_another_prints(void)
{
    pthread_t other;
    flockfile(stderr);
    ck_assert_int_eq(pthread_create(&other, NULL, borrow_little, NULL), 0);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    funlockfile(stderr);
}

START_TEST(said_with_nothing_locked)
{
    lives(say_while_another_prints);
    SAID("no whole page");
}
END_TEST

/* ---- Refusals by the system ---- */

static void fail_to_open(void)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    synced_mem *const other = make_at_cpu(SIZE, 1);
    OK(synced_mem_resize_discard(other, SIZE));
    OK(synced_mem_resize_discard(mem, SIZE));
    cannot_open = 1;
    touch_to_write(synced_mem_overwrite_cpu_data(mem));
    ck_assert_int_eq(cannot_open, 0);
    ck_assert_uint_eq(stats_now().unprotected, 1);
    touch_to_write(synced_mem_overwrite_cpu_data(other));
    OK(synced_mem_resize_discard(other, SIZE));
    synced_mem *const later = make_at_cpu(SIZE, 1);
    unsigned char *const data = synced_mem_mutable_cpu_data(later);
    OK(synced_mem_resize_discard(later, SIZE));
    touch_to_write(data); /* nothing is protected any more */
    RELEASE_EACH(mem, other, later);
}

static void have_too_many(void)
{
    enum { MOST = 16384, MORE = 20 };
    static synced_mem *mems[MOST + MORE];
    for (int i = 0; i < MOST + MORE; i++) {
        mems[i] = make_at_cpu(1, 1);
        OK(synced_mem_resize_discard(mems[i], 1));
    }
    ck_assert_uint_eq(stats_now().unprotected, MORE);
    for (int i = 0; i < MOST + MORE; i++)
        touch_to_write(synced_mem_overwrite_cpu_data(mems[i]));
    for (int i = 0; i < MOST + MORE; i++)
        OK(synced_mem_release(mems[i]));
}

START_TEST(system_at_its_limits)
{
    lives(fail_to_open);
    SAID("as the system refuses to lift a protection;");
    lives(have_too_many);
    SAID("as too many copies are protected;");
}
END_TEST

static void fail_to_protect(void)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    cannot_protect = true;
    OK(synced_mem_resize_discard(mem, SIZE));
    cannot_protect = false;
    touch_to_write(synced_mem_overwrite_cpu_data(mem));
    ck_assert_uint_eq(stats_now().unprotected, 1);
    OK(synced_mem_release(mem));
}

/* Views that share pages, where there is no memory for that, or the system refuses to protect or to open. They can all
 * be used. */
enum { SMALL = 600 };
static synced_mem *small_root, *small_views[10];

static void use_small_views(unsigned pattern)
{
    for (int i = 0; i < 10; i++) {
        host_fill(synced_mem_overwrite_cpu_data(small_views[i]), SMALL, pattern + (unsigned)i);
        gpu_fill(synced_mem_mutable_gpu_data(small_views[i]), SMALL, pattern + (unsigned)i + 1, NULL);
    }
    for (int i = 0; i < 10; i++)
        ck_assert(host_is(synced_mem_cpu_data(small_views[i]), SMALL, pattern + (unsigned)i + 1));
}

static void refuse_to_small_views(void)
{
    for (int way = 0; way < 12; way++) {
        small_root = make_named_on("small", (size_t)10 * SMALL, SYNCED_MEM_DEVICE_CURRENT);
        for (int i = 0; i < 10; i++)
            OK(synced_mem_view(&small_views[i], small_root, (size_t)i * SMALL, SMALL, NULL));
        small_left = way < 4 ? way : -1;
        use_small_views(1);
        small_left = -1;
        cannot_close = way == 4;
        use_small_views(21);
        cannot_close = false;
        cannot_open = way > 4 ? way - 4 : 0;
        use_small_views(41);
        cannot_open = 0;
        use_small_views(61);
        release_all(small_views, 10);
        OK(synced_mem_release(small_root));
    }
}

/* Each view shares both its pages. */
enum { MANY = 1500, STEP = PAGE + 100 };

static void use_many_shared_pages(void)
{
    static synced_mem *parts[MANY];
    synced_mem *const root = make_named_on("many", (size_t)MANY * STEP, SYNCED_MEM_DEVICE_CURRENT);
    for (size_t i = 0; i < MANY; i++)
        OK(synced_mem_view(&parts[i], root, i * STEP, STEP, NULL));
    for (size_t i = 0; i < MANY; i++)
        touch_to_write(synced_mem_overwrite_cpu_data(parts[i]));
    for (size_t i = 0; i < MANY; i++)
        OK(synced_mem_clear(parts[i]));
    for (size_t i = 0; i < MANY; i++) {
        touch_to_write((unsigned char *)synced_mem_overwrite_cpu_data(parts[i]) + STEP - 1);
        OK(synced_mem_release(parts[i]));
    }
    ck_assert_uint_eq(stats_now().unprotected, 0);
    OK(synced_mem_release(root));
}

START_TEST(many_shared_pages)
{
    lives(use_many_shared_pages);
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(system_that_refuses_to_small_views)
{
    if (gpu_expected())
        lives(refuse_to_small_views);
}
END_TEST

START_TEST(system_that_refuses)
{
    lives(fail_to_protect);
    SAID("the host copy of '' (5000 bytes) is not protected, as the system refuses it;");
}
END_TEST

static void have_no_memory(void)
{
    static _Alignas(PAGE) unsigned char memory[2 * PAGE];
    synced_mem *const mem = make(SIZE);
    no_memory = true;
    OK(synced_mem_set_cpu_data(mem, memory));
    OK(synced_mem_resize_discard(mem, 8));
    touch_to_write(memory);
    no_memory = false;
    OK(synced_mem_release(mem));
}

START_TEST(no_memory_for_records)
{
    lives(have_no_memory);
}
END_TEST

static void borrow_read_only(void)
{
    unsigned char *const page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    synced_mem *const mem = make(PAGE);
    OK(USE(mem, .cpu_data = page, .flags = SYNCED_MEM_MEMORY_READ_ONLY));
    OK(synced_mem_resize_discard(mem, PAGE));
    touch_to_read(page);
    OK(synced_mem_release(mem));
    (void)munmap(page, PAGE);
}

START_TEST(read_only)
{
    lives(borrow_read_only);
    SAID("is not protected, as it is read-only memory of the caller's;");
}
END_TEST

static void share_memory(void)
{
    synced_mem_options options = default_options();
    for (int i = 0; i < 2; i++) {
        synced_mem *mem = NULL;
        options.placement = i == 0 ? SYNCED_MEM_PLACEMENT_MAPPED : SYNCED_MEM_PLACEMENT_MANAGED;
        OK(synced_mem_create(&mem, SIZE, &options));
        unsigned char *const data = synced_mem_mutable_cpu_data(mem);
        if (data) {
            ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(mem));
            touch_to_read(data);
        }
        OK(synced_mem_release(mem));
    }
}

static void borrow_managed_memory(void)
{
    unsigned char *const data = gpu_managed_alloc(0, SIZE);
    synced_mem *const mem = make(SIZE);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    if (synced_mem_set_cpu_data(mem, data) == SYNCED_MEM_OK) {
        OK(synced_mem_resize_discard(mem, SIZE));
        touch_to_read(data);
    }
    OK(synced_mem_release(mem));
    gpu_free(data);
}

START_TEST(memory_of_both_sides)
{
    lives(share_memory);
    SAID("is not protected, as the device uses the same memory;");
    lives(borrow_managed_memory);
    SAID("is not protected, as the device uses the same memory;");
}
END_TEST

/* The host reads a few pageable bytes itself: another call may protect the memory while the device copies them. */
static void push_few_bytes(void)
{
    static _Alignas(PAGE) unsigned char memory[PAGE];
    synced_mem *const mem = make_named_on("few", PAGE, 0);
    synced_mem_host_pool_stats pool = {.struct_size = sizeof pool};
    OK(synced_mem_set_cpu_data(mem, memory));
    OK(synced_mem_host_pool_reset_peaks());
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    OK(synced_mem_host_pool_get_stats(&pool));
    ck_assert_uint_ge(pool.peak_requested_bytes, PAGE);
    OK(synced_mem_release(mem));
}

START_TEST(few_bytes_go_through_a_buffer)
{
    lives(push_few_bytes);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("debug memory");
    TCase *const cases = add_case_in_children(all, "debug memory");
    add_tests(cases, neighbours_in_the_pool, page_locked_later);
    add_gpu_tests(cases, memory_of_both_sides, few_bytes_go_through_a_buffer);
    if (fixture_schedule() > 0)
        return all;
    TCase *const host = add_case_in_children(all, "on the host alone");
    add_tests(host, borrowed, adopted, less_than_a_page, memory_of_two_objects, said_with_nothing_locked,
              system_that_refuses, system_that_refuses_to_small_views, many_shared_pages, system_at_its_limits,
              no_memory_for_records, read_only);
    tcase_add_loop_test(host, views_of_one_memory, 0, VIEWS);
    return all;
}
