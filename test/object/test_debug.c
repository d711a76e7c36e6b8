/* Checks debug mode. The use of an expired pointer ends the process with a message. All other calls work as without
 * debug mode. */
#include "debug_kit.h"
#include "other_user.h"

#include "base/caller.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* ---- Old pointers ---- */

/* Memory is page-locked if the object names its device, otherwise pageable. It is small, or large enough to be
 * staged. */
static const struct {
    size_t size;
    int device;
} kinds[] = {{SIZE, SYNCED_MEM_DEVICE_CURRENT}, {SIZE, 0}, {MUCH, SYNCED_MEM_DEVICE_CURRENT}, {MUCH, 0}};
enum { KINDS = 4 };
static int kind;

static synced_mem *make_weight(void)
{
    return make_named_on("conv1.weight", kinds[kind].size, kinds[kind].device);
}

static void read_stale(void)
{
    synced_mem *const mem = make_weight();
    const unsigned char *const data = synced_mem_cpu_data(mem);
    touch_to_read(data);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data_on(mem, NULL));
    touch_to_read(data + 8);
}

static void write_stale(void)
{
    synced_mem *const mem = make_weight();
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    touch_to_write(data);
    ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data(mem));
    touch_to_write(data);
}

static void write_synced(void)
{
    synced_mem *const mem = make_weight();
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    touch_to_write(data);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
    touch_to_read(data);
    touch_to_write(data + kinds[kind].size - 1);
}

/* Returns the old pointer to the host copy of the last target. */
static const unsigned char *copy_two(synced_mem **targets)
{
    synced_mem *sources[2];
    const unsigned char *data = NULL;
    for (int i = 0; i < 2; i++) {
        targets[i] = make_weight();
        sources[i] = make_weight();
        data = synced_mem_cpu_data(targets[i]);
        ck_assert_ptr_nonnull(synced_mem_gpu_data(targets[i]));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(sources[i]));
    }
    OK(synced_mem_async_gpu_copy_n(targets, sources, 2, NULL));
    release_all(sources, 2);
    return data;
}

static void read_stale_target(void)
{
    synced_mem *targets[2];
    touch_to_read(copy_two(targets));
}

static void read_target(void)
{
    synced_mem *targets[2];
    (void)copy_two(targets);
    touch_to_read(synced_mem_cpu_data(targets[1]));
    release_all(targets, 2);
}

static void read_discarded(void)
{
    synced_mem *const mem = make(SIZE);
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    touch_to_write(data);
    OK(synced_mem_resize_discard(mem, SIZE));
    touch_to_read(data);
}

START_TEST(old_pointers)
{
    kind = _i;
    dies(read_stale, " bytes): its host copy at 0x");
    SAID("synced_mem: 'conv1.weight' (");
    SAID(" is stale since synced_mem_mutable_gpu_data_on; the pointer used at 0x");
    SAID(" expired then\n");
    dies(write_stale, " is stale since synced_mem_overwrite_gpu_data; the pointer used at 0x");
    dies(write_synced, " is read-only since synced_mem_gpu_data; the pointer used at 0x");
    dies(read_stale_target, " is stale since synced_mem_async_gpu_copy_n; the pointer used at 0x");
}
END_TEST

/* ---- Views smaller than a page ---- */

enum { VIEWS = 10, VIEW_SIZE = 300, GAP = 100, WHOLE = PAGE + 904 };
static synced_mem *params;
static synced_mem *views[VIEWS];
static unsigned char *pointers[VIEWS];
static int device_of_params;
static int way;

static synced_mem *view_of(synced_mem *of, size_t offset, size_t size)
{
    synced_mem *view;
    OK(synced_mem_view(&view, of, offset, size, NULL));
    return view;
}

/* Gets all pointers. The last view is on the last page, and ends before it does. */
static void make_views(void)
{
    params = make_named_on("params", WHOLE, device_of_params);
    for (int i = 0; i < VIEWS; i++)
        views[i] = view_of(params, i < VIEWS - 1 ? (size_t)i * (VIEW_SIZE + GAP) : WHOLE - VIEW_SIZE, VIEW_SIZE);
    for (int i = 0; i < VIEWS; i++) {
        pointers[i] = synced_mem_overwrite_cpu_data(views[i]);
        host_fill(pointers[i], VIEW_SIZE, (unsigned)i);
    }
}

static void make_stale(int from, int to)
{
    for (int i = from; i < to; i++)
        ck_assert_ptr_nonnull(synced_mem_overwrite_gpu_data_on(views[i], NULL));
}

/* way: which one is used, and which ones are stale. */
static void use_stale_view(void)
{
    make_views();
    switch (way) {
    case 0:
        make_stale(0, VIEWS);
        touch_to_read(pointers[3] + 17);
        break;
    case 1:
        make_stale(0, VIEWS);
        touch_to_write(pointers[VIEWS - 1]);
        break;
    case 2: /* not those of the second page */
        make_stale(0, VIEWS - 1);
        touch_to_write(pointers[VIEWS - 1]);
        touch_to_read(pointers[3]);
        break;
    default:
        for (int i = 0; i < VIEWS; i++)
            ck_assert_ptr_nonnull(synced_mem_gpu_data_on(views[i], NULL));
        touch_to_read(pointers[3]);
        touch_to_write(pointers[3]);
        break;
    }
}

/* Every valid view can be used, whatever its neighbours are. */
static void use_valid_views(void)
{
    make_views();
    make_stale(0, 4);
    for (int i = 4; i < VIEWS; i++) {
        ck_assert(host_is(pointers[i], VIEW_SIZE, (unsigned)i));
        touch_to_write(pointers[i]);
    }
    make_stale(4, VIEWS);
    for (int i = 0; i < VIEWS; i++) {
        gpu_fill(synced_mem_overwrite_gpu_data_on(views[i], NULL), VIEW_SIZE, (unsigned)i + 50, NULL);
        ck_assert(host_is(synced_mem_cpu_data(views[i]), VIEW_SIZE, (unsigned)i + 50));
    }
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(params));
    make_stale(0, VIEWS);
    release_all(views, VIEWS);
    host_fill(synced_mem_overwrite_cpu_data(params), WHOLE, 7);
    OK(synced_mem_release(params));
}

static void use_stale_root(void)
{
    make_views();
    release_all(views, VIEWS);
    ck_assert_ptr_nonnull(synced_mem_mutable_gpu_data(params));
    touch_to_read(pointers[2]);
}

START_TEST(small_views)
{
    static const char *const messages[] = {"synced_mem: 'params[1200:1500]' (300 bytes): its host copy at 0x",
                                           "'params[4700:5000]' (300 bytes)", "'params[1200:1500]' (300 bytes)",
                                           " is read-only since synced_mem_gpu_data_on"};
    device_of_params = _i == 0 ? SYNCED_MEM_DEVICE_CURRENT : 0;
    for (way = 0; way < 4; way++)
        dies(use_stale_view, messages[way]);
    lives(use_valid_views);
    ck_assert_str_eq(said, "");
    dies(use_stale_root, "'params' (5000 bytes)");
}
END_TEST

/* A page that the caller's memory does not fill is not protected, and the notice names the part. */
static void use_parts_of_user_memory(void)
{
    static unsigned char memory[3 * PAGE];
    synced_mem *const mem = make_named_on("users", 2000, SYNCED_MEM_DEVICE_CURRENT);
    OK(synced_mem_set_cpu_data(mem, (void *)(((uintptr_t)memory + PAGE - 1) / PAGE * PAGE)));
    synced_mem *const view = view_of(mem, 100, 200);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(view));
    RELEASE_EACH(view, mem);
}

START_TEST(small_user_memory)
{
    lives(use_parts_of_user_memory);
    SAID("the host copy of 'users' (2000 bytes) is not protected, as its memory fills no whole page;");
}
END_TEST

START_TEST(discarded)
{
    dies(read_discarded, "synced_mem: an object without a name (5000 bytes): its host copy at 0x");
    SAID("is stale since synced_mem_resize_discard;");
}
END_TEST

/* ---- The call that made the pointer expire ---- */

void fw_discard(synced_mem *mem);

/* A framework's wrapper, in which it makes all its calls of this kind. */
__attribute__((noinline, visibility("default"))) void fw_discard(synced_mem *mem)
{
    OK(synced_mem_resize_discard(mem, SIZE));
}

void fw_layer(synced_mem *mem);

__attribute__((noinline, visibility("default"))) void fw_layer(synced_mem *mem)
{
    synced_mem_scope_begin("layer3");
    fw_discard(mem);
    synced_mem_scope_end();
}

static bool in_train;

static void read_what_a_layer_discarded(void)
{
    if (in_train)
        synced_mem_scope_begin("train");
    synced_mem *const mem = make(SIZE);
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    fw_layer(mem);
    synced_mem_scope_begin("later");
    touch_to_read(data);
}

static void read_what_nobody_knows_who_discarded(void)
{
    synced_mem *const mem = make(SIZE);
    unsigned char *const data = synced_mem_mutable_cpu_data(mem);
    sm_process.wants_caller = false;
    OK(synced_mem_resize_discard(mem, SIZE));
    touch_to_read(data);
}

START_TEST(call_places)
{
    for (int i = 0; i < 2; i++) {
        in_train = i > 0;
        dies(read_what_a_layer_discarded, "is stale since synced_mem_resize_discard;");
        SAID(in_train ? " expired then\nsynced_mem: that call was made in 'train/layer3' at fw_discard+0x"
                      : " expired then\nsynced_mem: that call was made in 'layer3' at fw_discard+0x");
        const char *const at = strstr(said, " at fw_discard+0x");
        const char *const caller = strstr(at, " < ");
        ck_assert_msg(caller && strncmp(caller, " < fw_layer+0x", 14) == 0, "%s", said);
        ck_assert_ptr_nonnull(strchr(caller, '\n'));
    }
    dies(read_what_nobody_knows_who_discarded, " is stale since a call of the library; the pointer");
    ck_assert_ptr_null(strstr(said, "that call"));
}
END_TEST

/* ---- Correct programs ---- */

static void go_round(void)
{
    for (kind = 0; kind < (gpu_expected() ? KINDS : 1); kind++) {
        synced_mem *const mem = make_weight();
        const size_t size = kinds[kind].size;
        host_fill(synced_mem_overwrite_cpu_data(mem), size, 1);
        if (gpu_expected()) {
            void *const data = synced_mem_mutable_gpu_data(mem);
            gpu_fill(data, size, 2, NULL);
            ck_assert(host_is(synced_mem_cpu_data(mem), size, 2));
            host_fill(synced_mem_mutable_cpu_data(mem), size, 3);
            ck_assert(device_is(synced_mem_gpu_data(mem), size, 3));
            ck_assert(host_is(synced_mem_cpu_data(mem), size, 3));
            host_fill(synced_mem_overwrite_cpu_data(mem), size, 4);
            OK(synced_mem_async_gpu_push(mem, NULL));
            gpu_fill(synced_mem_mutable_gpu_data_on(mem, NULL), size, 5, NULL);
            OK(synced_mem_async_cpu_pull(mem, NULL));
            ck_assert(host_is(synced_mem_cpu_data(mem), size, 5));
            OK(synced_mem_resize(mem, size - 100));
            OK(synced_mem_resize(mem, size));
            OK(synced_mem_release_gpu_data(mem));
        }
        OK(synced_mem_resize_discard(mem, size));
        ck_assert(host_is(synced_mem_cpu_data(mem), size, 0));
        host_fill(synced_mem_mutable_cpu_data(mem), size, 6);
        OK(synced_mem_resize(mem, 2 * size));
        OK(synced_mem_release(mem));
    }
    ck_assert_uint_eq(stats_now().unprotected, 0);
}

START_TEST(all_accesses)
{
    lives(go_round);
    ck_assert_str_eq(said, "");
    if (gpu_expected())
        lives(read_target);
    ck_assert_str_eq(said, "");
}
END_TEST

/* The process has more objects than the initial tables have room for. */
static void hold_many(void)
{
    enum { MANY = 3000 };
    static synced_mem *mems[MANY];
    for (int i = 0; i < MANY; i++) {
        mems[i] = make_at_cpu(100, 1);
        if (i % 2)
            OK(synced_mem_resize_discard(mems[i], 100));
    }
    release_all(mems, MANY);
    ck_assert_uint_eq(stats_now().unprotected, 0);
}

START_TEST(many_objects)
{
    lives(hold_many);
}
END_TEST

/* ---- Threads ---- */

enum { ROUNDS = 2000 };
static atomic_int asked;
static atomic_int answered;

static void *release_device_copies(void *mem)
{
    for (int round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&asked) < round)
            (void)sched_yield();
        OK(synced_mem_release_gpu_data(mem));
        atomic_store(&answered, round);
    }
    return NULL;
}

/* Both calls set the head to AT_CPU. Neither makes the other's pointer expire. */
static void write_while_another_releases(void)
{
    pthread_t other;
    synced_mem *const mem = make(SIZE);
    ck_assert_int_eq(pthread_create(&other, NULL, release_device_copies, mem), 0);
    for (int round = 1; round <= ROUNDS; round++) {
        ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        atomic_store(&asked, round);
        for (volatile int i = 0; i < round % 400; i++)
            continue;
        touch_to_write(synced_mem_mutable_cpu_data(mem));
        while (atomic_load(&answered) < round)
            (void)sched_yield();
    }
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    OK(synced_mem_release(mem));
}

START_TEST(opened_before_it_is_given)
{
    if (gpu_expected())
        lives(write_while_another_releases);
}
END_TEST

/* ---- Conditions under which debug mode is on ---- */

static void use_old_pointer_as_another_user(void)
{
    insecure = true;
    use_old_pointer();
}

START_TEST(off)
{
    ck_assert_int_eq(run(use_old_pointer, ""), 0);
    ck_assert_int_eq(run(use_old_pointer, "0"), 0);
    ck_assert_int_eq(run(use_old_pointer_as_another_user, "1"), 0);
    ck_assert_str_eq(said, "");
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("debug");
    TCase *const cases = add_case_in_children(all, "debug");
    add_tests(cases, small_user_memory, all_accesses, opened_before_it_is_given);
    add_gpu_loop_test(cases, old_pointers, 0, KINDS);
    add_gpu_loop_test(cases, small_views, 0, 2);
    if (fixture_schedule() > 0)
        return all;
    TCase *const host = add_case_in_children(all, "on the host alone");
    add_tests(host, discarded, call_places, many_objects, off);
    return all;
}
