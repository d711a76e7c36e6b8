/* Checks lists of copies and fills by a kernel, against the same work on the host. */
#include "fixture.h"

#include "device/device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 4 << 20, MOST_BYTES = 9000, MOST_GAP = 40 };

/* A side's memory and what it must hold. */
struct side {
    unsigned char *data;
    unsigned char *expected;
};

struct world {
    struct side from;
    struct side to;
    bool up, down; /* else on the device */
    struct sm_list_entry *list;
    size_t room;
    synced_mem_stream stream;
    unsigned processors;
};

static uint64_t state;

static size_t draw(size_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % below;
}

static size_t most_entries(void)
{
    return gpu_is_emulated() ? 2000 : 100000;
}

/* Loading goes on beside the program. */
static unsigned await_processors(int device)
{
    (void)sm_device_list_processors(device);
    sm_device_await_lists();
    return sm_device_list_processors(device);
}

/* Not every device, and no runtime before 12.8. */
static bool has_lists(void)
{
    if (!gpu_expected() || devices() == 0)
        return false;
    OK(sm_device_resolve(0, &(int){0}));
    ck_assert(await_processors(0) > 0 || !gpu_is_emulated());
    return await_processors(0) > 0;
}

static void *allocate(bool on_host, size_t size)
{
    return on_host ? gpu_pinned_alloc(size) : gpu_alloc(0, size);
}

static struct side make_side(bool on_host, size_t size, unsigned seed)
{
    struct side side = {.data = allocate(on_host, size), .expected = malloc(size)};
    ck_assert_ptr_nonnull(side.expected);
    for (size_t i = 0; i < size; i++)
        side.expected[i] = (unsigned char)(i * seed + (i >> 9));
    if (on_host) {
        memcpy(side.data, side.expected, size);
    } else {
        void *const pinned = gpu_pinned_alloc(size);
        memcpy(pinned, side.expected, size);
        OK(sm_device_copy_h2d(0, side.data, pinned, size, SM_HANDLE_LEGACY));
        OK(sm_device_stream_sync(0, SM_HANDLE_LEGACY));
        gpu_pinned_free(pinned);
    }
    return side;
}

/* Checks every byte, and gives the side's memory up. */
static void end_side(const struct side *side, bool on_host, size_t size)
{
    unsigned char *const found = on_host ? side->data : malloc(size);
    ck_assert_ptr_nonnull(found);
    if (!on_host)
        gpu_read(found, side->data, size);
    size_t i = 0;
    while (i < size && found[i] == side->expected[i])
        i++;
    ck_assert_msg(i == size, "byte %zu is %d, not %d", i, found[i % size], side->expected[i % size]);
    if (on_host) {
        gpu_pinned_free(side->data);
    } else {
        free(found);
        gpu_free(side->data);
    }
    free(side->expected);
}

static size_t bytes_of(size_t entries)
{
    const size_t least = entries * (MOST_GAP + 64);
    return least > MEMORY ? least : MEMORY;
}

static void begin(struct world *world, int direction, size_t entries)
{
    OK(sm_device_resolve(0, &(int){0}));
    world->up = direction == 0;
    world->down = direction == 1;
    world->room = entries;
    world->from = make_side(world->up, bytes_of(entries), 131);
    world->to = make_side(world->down, bytes_of(entries), 37);
    world->list = gpu_pinned_alloc(entries * sizeof *world->list);
    world->stream = gpu_stream_create(0, false);
    world->processors = await_processors(0);
}

static void end(struct world *world)
{
    end_side(&world->from, world->up, bytes_of(world->room));
    end_side(&world->to, world->down, bytes_of(world->room));
    gpu_pinned_free(world->list);
    gpu_stream_destroy(world->stream);
}

/* Lists ranges of the target in ascending order, with a gap between any two, and of sources anywhere. */
static size_t draw_list(struct world *world, size_t entries, int value)
{
    const size_t size = bytes_of(world->room);
    const size_t fair = size / entries;
    size_t at = 0;
    size_t count = 0;
    while (count < entries) {
        const size_t most = fair - MOST_GAP < MOST_BYTES ? fair - MOST_GAP : MOST_BYTES;
        const size_t bytes = draw(most + 1);
        const size_t source = draw(size - bytes);
        at += 1 + draw(MOST_GAP);
        if (at + bytes > size)
            break;
        world->list[count++] =
            (struct sm_list_entry){world->to.data + at, value < 0 ? world->from.data + source : NULL, bytes};
        if (value < 0)
            memcpy(world->to.expected + at, world->from.expected + source, bytes);
        else
            memset(world->to.expected + at, value, bytes);
        at += bytes;
    }
    return count;
}

static void run_list(const struct world *world, size_t count, int value, unsigned blocks)
{
    struct sm_list_job job = {.count = (unsigned)count, .value = value};
    if (count <= SM_FEW_ENTRIES)
        memcpy(job.few, world->list, count * sizeof *world->list);
    else
        job.list = world->list;
    OK(sm_device_run_list(0, &job, blocks, world->stream));
    memset(&job, 0xee, sizeof job);
    OK(sm_device_stream_sync(0, world->stream));
}

/* The directions: up, down, within the device; each with copies and fills. */
START_TEST(random_lists)
{
    if (!has_lists())
        return;
    const size_t counts[] = {1, 2, SM_FEW_ENTRIES, SM_FEW_ENTRIES + 1, 1000, most_entries()};
    const int direction = _i % 3;
    state = fixture_schedule() * 100 + (uint64_t)_i;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct world world;
        begin(&world, direction, counts[i]);
        const int value = _i < 3 ? -1 : (int)draw(256);
        const size_t count = draw_list(&world, counts[i], value);
        run_list(&world, count, value, 1 + (unsigned)draw(world.processors));
        end(&world);
    }
}
END_TEST

/* Each size and each pair of alignments up to two elements. */
START_TEST(every_alignment)
{
    enum { MOST = 33, STEP = 80 };
    struct world world;
    if (!has_lists())
        return;
    begin(&world, _i, (size_t)17 * 17 * MOST);
    for (size_t size = 0; size < MOST; size++) {
        size_t count = 0;
        for (size_t to = 0; to < 17; to++) {
            for (size_t from = 0; from < 17; from++) {
                const size_t at = STEP * (17 * to + from);
                world.list[count++] =
                    (struct sm_list_entry){world.to.data + at + to, world.from.data + at + from, size};
                memcpy(world.to.expected + at + to, world.from.expected + at + from, size);
            }
        }
        run_list(&world, count, -1, 3);
    }
    end(&world);
}
END_TEST

/* A device may be asked for the first time by many calls, of which none waits. */
START_TEST(loading_goes_on_beside_the_program)
{
    if (!has_lists())
        return;
    for (int device = 0; device < devices(); device++)
        ck_assert(await_processors(device) > 0 || !gpu_is_emulated());
    ck_assert_uint_gt(sm_device_list_processors(0), 0);
    OK(synced_mem_shutdown());
    OK(sm_device_resolve(0, &(int){0}));
    ck_assert_uint_gt(await_processors(0), 0);
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("list");
    TCase *const lists = add_case(all, "lists");
    tcase_set_timeout(lists, 300);
    add_gpu_loop_test(lists, random_lists, 0, 6);
    add_gpu_loop_test(lists, every_alignment, 0, 3);
    add_gpu_tests(lists, loading_goes_on_beside_the_program);
    return all;
}
