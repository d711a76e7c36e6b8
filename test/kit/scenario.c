/* Plays the lives of objects in which something may fail. */
#include "scenario_state.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory of the caller's has the alignment that some of the objects request. */
enum { ALIGNMENT = 4096, LARGE = 70000, SMALL = 7000, MOST_ROOM = 104 * 1024 };

static bool is_staged(int scenario)
{
    return scenario_steps[scenario][0] >= STAGE_ALONE;
}

/* Comparisons of large contents take time. So few objects are large: those on the host alone, of many pages, and those
 * whose staged transfers have more than one chunk. */
static size_t usual_size(int scenario)
{
    return scenario < scenario_count_without_gpu || is_staged(scenario) ? LARGE : SMALL;
}

/* Returns the room for an object that has grown by half. More room takes time: the emulated runtime fills memory when
 * it is allocated and when it is freed. */
static size_t room(void)
{
    const size_t grown = now.usual + now.usual / 2;
    return (grown + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

struct scenario_now now;
struct scenario_mine mine;

static void *host_memory(void)
{
    void *const data = aligned_alloc(ALIGNMENT, room());
    ck_assert_ptr_nonnull(data);
    return data;
}

static char *aligned(void *memory)
{
    return (char *)memory + (0 - (uintptr_t)memory) % ALIGNMENT;
}

static void prepare_allocators(int scenario)
{
    if (scenario_steps[scenario][0] != CREATE_ALLOC)
        return;
    mine.cpu_slots = (struct slots){.memory = aligned_alloc(ALIGNMENT, SLOTS * room()), .size = room()};
    ck_assert_ptr_nonnull(mine.cpu_slots.memory);
    if (!gpu_expected())
        return;
    mine.gpu_slots_memory = gpu_alloc(home(), SLOTS * room() + ALIGNMENT);
    mine.gpu_slots = (struct slots){.memory = aligned(mine.gpu_slots_memory), .size = room()};
}

void scenario_prepare(int scenario, int device_count, bool at_home)
{
    now = (struct scenario_now){0};
    mine = (struct scenario_mine){.devices = device_count};
    now.usual = usual_size(scenario);
    const int on = home();
    mine.host = host_memory();
    mine.host_of_both = host_memory();
    mine.adopted_host = host_memory();
    mine.locked_host = host_memory();
    for (int i = 0; i < 2; i++)
        mine.hosts_of_others[i] = host_memory();
    prepare_allocators(scenario);
    if (!gpu_expected())
        return;
    char *const memory = mine.device_memory = gpu_alloc(on, 4 * room() + ALIGNMENT);
    mine.device = aligned(memory);
    mine.device_of_both = (char *)mine.device + room();
    mine.adopted_device = (char *)mine.device + 2 * room();
    mine.seen = (char *)mine.device + 3 * room();
    mine.stream = gpu_stream_create(on, false);
    mine.second = gpu_stream_create(on, false);
    mine.kernels = gpu_stream_create(on, true);
    now.caller_on = scenario_steps[scenario][0] != CREATE && !at_home ? 0 : on;
    gpu_make_current(now.caller_on);
}

void scenario_clean_up(void)
{
    free(mine.host);
    free(mine.host_of_both);
    free(mine.adopted_host);
    for (int i = 0; i < 2; i++)
        free(mine.hosts_of_others[i]);
    free(mine.cpu_slots.memory);
    if (!gpu_expected()) {
        free(mine.locked_host);
        return;
    }
    /* The runtime may have refused to unregister it. */
    gpu_unregister_if_registered(mine.locked_host);
    free(mine.locked_host);
    synced_mem_stream const streams[] = {mine.stream, mine.second, mine.kernels};
    for (int i = 0; i < 3; i++) {
        gpu_stream_sync(streams[i]);
        gpu_stream_destroy(streams[i]);
    }
    gpu_free(mine.device_memory);
    gpu_free(mine.gpu_slots_memory);
}

/* ---- Steps ---- */

static void called_back(void *data, void *user, synced_mem_stream stream)
{
    REQUIRE(data == mine.adopted_host || data == mine.adopted_device || data == mine.locked_host);
    REQUIRE(user == &mine);
    REQUIRE(stream == NULL);
    now.called++;
}

static bool contents_are(const unsigned char *data)
{
    if (now.unsure && pattern_is(data, now.size, now.others_pattern))
        return true;
    return pattern_is(data, now.filled, now.pattern) && pattern_is(data + now.filled, now.size - now.filled, 0);
}

static synced_mem_status on_host(void *data, bool write)
{
    if (data && write) {
        host_fill(data, now.size, ++now.fresh);
        note_written(now.fresh);
    }
    if (data) {
        now.host = data;
        gpu_note_host_read(data, now.size);
        REQUIRE(contents_are(data));
    }
    return status_of(data);
}

static synced_mem_status on_device(void *data, bool write, synced_mem_stream stream)
{
    if (data && write) {
        if (gpu_try_fill(data, now.size, ++now.fresh, stream))
            note_written(now.fresh);
        else
            now.given_up = true;
        now.host = NULL;
    }
    return status_of(data);
}

/* Compares the contents with a kernel. */
static void compare(const void *data, synced_mem_stream stream)
{
    unsigned char expected[MOST_ROOM];
    if (!now.compares)
        return;
    pattern_write(expected, now.filled, now.pattern);
    memset(expected + now.filled, 0, now.size - now.filled);
    gpu_expect(data, now.size, expected, stream);
}

/* A kernel on the stream reads through the pointer that the library returned for it. */
static synced_mem_status read_on(synced_mem_stream stream)
{
    const void *const data = synced_mem_gpu_data_on(now.mem, stream);
    if (data && stream == mine.stream && !gpu_try_copy(mine.seen, data, now.size, stream))
        now.given_up = true;
    if (data)
        compare(data, stream);
    return status_of(data);
}

static synced_mem_status write_on(synced_mem_stream stream)
{
    void *const data = synced_mem_mutable_gpu_data_on(now.mem, stream);
    if (data)
        compare(data, stream);
    return on_device(data, true, stream);
}

/* Stages all transfers of pageable memory, in as many chunks as possible. */
static synced_mem_status stage(unsigned threads)
{
    const synced_mem_staging staging = {
        .struct_size = sizeof staging, .threads = threads, .buffer_bytes = 65536, .minimum_bytes = 1};
    now.staged = true;
    return synced_mem_set_staging(&staging);
}

static synced_mem_status query(void)
{
    int pending = -1;
    const synced_mem_status status = synced_mem_query(now.mem, &pending);
    REQUIRE((status == SYNCED_MEM_OK) == (pending != -1));
    return status;
}

static synced_mem_status move_twice(bool pull)
{
    synced_mem *const both[] = {now.mem, now.mem};
    return pull ? synced_mem_async_cpu_pull_n(both, 2, mine.stream) : synced_mem_async_gpu_push_n(both, 2, mine.stream);
}

/* ---- Companions: other objects that move in one call ---- */

static synced_mem_status make_companion(int i)
{
    synced_mem_options options = default_options();
    options.device = home();
    return now.companions[i] ? SYNCED_MEM_OK : synced_mem_create(&now.companions[i], COMPANION_SIZE, &options);
}

static synced_mem_status write_companion(int i, bool on_gpu)
{
    const unsigned pattern = COMPANION_PATTERN + (unsigned)i;
    const synced_mem_status status = make_companion(i);
    if (status != SYNCED_MEM_OK)
        return status;
    void *const data = on_gpu ? synced_mem_overwrite_gpu_data_on(now.companions[i], mine.second)
                              : synced_mem_overwrite_cpu_data(now.companions[i]);
    if (data && on_gpu && !gpu_try_fill(data, COMPANION_SIZE, pattern, mine.second))
        now.given_up = true;
    if (data && !on_gpu)
        host_fill(data, COMPANION_SIZE, pattern);
    return status_of(data);
}

static synced_mem_status write_companions(bool on_gpu)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (int i = 0; i < COMPANIONS && status == SYNCED_MEM_OK && !now.given_up; i++)
        status = write_companion(i, on_gpu);
    return status;
}

static synced_mem_status move_all(bool pull)
{
    synced_mem *const all[] = {now.companions[0], now.mem, now.companions[1]};
    return pull ? synced_mem_async_cpu_pull_n(all, 3, mine.stream) : synced_mem_async_gpu_push_n(all, 3, mine.stream);
}

static synced_mem_status release_companions(void)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (int i = 0; i < COMPANIONS && status == SYNCED_MEM_OK; i++) {
        const void *const data = now.companions[i] && !now.given_up ? synced_mem_cpu_data(now.companions[i]) : NULL;
        if (now.companions[i] && !now.given_up && !data)
            return synced_mem_last_error();
        REQUIRE(!data || host_is(data, COMPANION_SIZE, COMPANION_PATTERN + (unsigned)i));
        status = now.companions[i] ? synced_mem_release(now.companions[i]) : SYNCED_MEM_OK;
        now.companions[i] = status == SYNCED_MEM_OK ? NULL : now.companions[i];
    }
    return status;
}

static synced_mem_status resize(size_t size, bool keep)
{
    const synced_mem_status status = keep ? synced_mem_resize(now.mem, size) : synced_mem_resize_discard(now.mem, size);
    if (status != SYNCED_MEM_OK)
        return status;
    now.size = size;
    now.largest = size > now.largest ? size : now.largest;
    now.filled = !keep ? 0 : now.filled < size ? now.filled : size;
    now.host = NULL;
    return status;
}

static synced_mem_status create(const synced_mem_options *options)
{
    const synced_mem_status status = synced_mem_create(&now.mem, now.usual, options);
    REQUIRE((status == SYNCED_MEM_OK) == (now.mem != NULL));
    if (status == SYNCED_MEM_OK) {
        now.references = 1;
        now.pattern = 0;
        now.size = now.filled = now.largest = now.usual;
        now.host = NULL;
    }
    return status;
}

static synced_mem_status create_named(synced_mem_placement_kind placement)
{
    synced_mem_options options = default_options();
    options.name = "named";
    options.alignment = ALIGNMENT;
    options.device = home();
    options.placement = placement;
    return create(&options);
}

static synced_mem_status create_with_allocators(void)
{
    const synced_mem_allocator cpu = slots_table(&mine.cpu_slots);
    const synced_mem_allocator gpu = slots_table(&mine.gpu_slots);
    synced_mem_options options = default_options();
    options.cpu_allocator = &cpu;
    options.gpu_allocator = &gpu;
    options.device = home();
    return create(&options);
}

/* Memory that the caller hands in. */
struct offer {
    void *host, *device;
    bool adopt;
    bool ordered; /* ready in the order of the stream */
    bool locked;  /* to be page-locked */
};

/* Uses Caffe's calls where they suffice. */
static synced_mem_status set_or_use(const struct offer *offer)
{
    if (!offer->adopt && !offer->ordered && !offer->locked && !(offer->host && offer->device))
        return offer->host ? synced_mem_set_cpu_data(now.mem, offer->host)
                           : synced_mem_set_gpu_data(now.mem, offer->device);
    return USE(now.mem, .cpu_data = offer->host, .gpu_data = offer->device,
               .callback = offer->adopt ? called_back : NULL, .user = &mine,
               .stream = offer->ordered ? mine.stream : NULL, .flags = offer->locked ? SYNCED_MEM_MEMORY_PAGE_LOCK : 0);
}

/* Writes new contents to the caller's memory before each time that it is handed in. */
static synced_mem_status hand_in(struct offer offer)
{
    const unsigned pattern = ++now.fresh;
    if (offer.host)
        pattern_write(offer.host, now.size, pattern);
    if (offer.device && !gpu_try_fill(offer.device, now.size, pattern, offer.ordered ? mine.stream : mine.kernels))
        return SYNCED_MEM_ERR_DEVICE_LOST;
    const synced_mem_status status = set_or_use(&offer);
    if (status == SYNCED_MEM_OK) {
        note_written(pattern);
        now.host = offer.ordered ? NULL : offer.host; /* NULL: the contents may be arriving */
        now.owed += offer.adopt ? (offer.host != NULL) + (offer.device != NULL) : 0;
    }
    return status;
}

static synced_mem_status let_go(synced_mem_status status)
{
    if (status == SYNCED_MEM_OK && synced_mem_head(now.mem) != SYNCED_MEM_AT_CPU)
        now.host = NULL;
    if (status == SYNCED_MEM_OK && synced_mem_head(now.mem) == SYNCED_MEM_UNINITIALIZED)
        now.filled = 0;
    return status;
}

static synced_mem_status give_up(void)
{
    const synced_mem_status status = synced_mem_release(now.mem);
    if (status == SYNCED_MEM_OK && --now.references == 0)
        now.mem = NULL;
    return status;
}

static synced_mem_status retain(void)
{
    now.references++;
    return synced_mem_retain(now.mem);
}

static synced_mem_status perform(enum step step)
{
#define STEP(name, call)                                                                                               \
    case name:                                                                                                         \
        now.doing = #name;                                                                                             \
        return call;
    switch (step) {
        STEP(END, SYNCED_MEM_OK)
        STEP(CREATE, create(NULL))
        STEP(CREATE_NAMED, create_named(SYNCED_MEM_PLACEMENT_SEPARATE))
        STEP(CREATE_ALLOC, create_with_allocators())
        STEP(CREATE_MAPPED, create_named(SYNCED_MEM_PLACEMENT_MAPPED))
        STEP(CREATE_MANAGED, create_named(SYNCED_MEM_PLACEMENT_MANAGED))
        STEP(CPU_READ, on_host((void *)synced_mem_cpu_data(now.mem), false))
        STEP(CPU_WRITE, on_host(synced_mem_mutable_cpu_data(now.mem), true))
        STEP(CPU_OVERWRITE, on_host(synced_mem_overwrite_cpu_data(now.mem), true))
        STEP(GPU_READ, on_device((void *)synced_mem_gpu_data(now.mem), false, NULL))
        STEP(GPU_WRITE, on_device(synced_mem_mutable_gpu_data(now.mem), true, mine.kernels))
        STEP(GPU_OVERWRITE, on_device(synced_mem_overwrite_gpu_data(now.mem), true, mine.kernels))
        STEP(READ_ON, read_on(mine.stream))
        STEP(READ_ON_2, read_on(mine.second))
        STEP(WRITE_ON, write_on(mine.stream))
        STEP(WRITE_ON_2, write_on(mine.second))
        STEP(OVERWRITE_ON, on_device(synced_mem_overwrite_gpu_data_on(now.mem, mine.stream), true, mine.stream))
        STEP(END_USE_ON, synced_mem_end_use_on(now.mem, mine.stream))
        STEP(FORGET_STREAM, synced_mem_forget_stream(mine.stream))
        STEP(PUSH_LEGACY, synced_mem_async_gpu_push(now.mem, NULL))
        STEP(PUSH_STREAM, synced_mem_async_gpu_push(now.mem, mine.stream))
        STEP(PULL_STREAM, synced_mem_async_cpu_pull(now.mem, mine.stream))
        STEP(PULL_2, synced_mem_async_cpu_pull(now.mem, mine.second))
        STEP(PUSH_N, move_twice(false))
        STEP(PULL_N, move_twice(true))
        STEP(WRITE_COMPANIONS, write_companions(false))
        STEP(WRITE_COMPANIONS_ON, write_companions(true))
        STEP(PUSH_ALL, move_all(false))
        STEP(PULL_ALL, move_all(true))
        STEP(RELEASE_COMPANIONS, release_companions())
        STEP(QUERY, query())
        STEP(WAIT, synced_mem_wait(now.mem))
        STEP(REAP, synced_mem_reap())
        STEP(GROW, resize(now.largest + now.usual / 2, true))
        STEP(SHRINK, resize(now.usual / 3, true))
        STEP(REGROW, resize(now.usual, true))
        STEP(DISCARD, resize(now.usual, false))
        STEP(SET_CPU, hand_in((struct offer){.host = mine.host}))
        STEP(LOCK_CPU, hand_in((struct offer){.host = mine.locked_host, .locked = true}))
        STEP(LOCK_BOTH_ON,
             hand_in((struct offer){mine.locked_host, mine.device_of_both, .locked = true, .ordered = true}))
        STEP(ADOPT_LOCKED, hand_in((struct offer){.host = mine.locked_host, .adopt = true, .locked = true}))
        STEP(SET_GPU, hand_in((struct offer){.device = mine.device}))
        STEP(SET_BOTH, hand_in((struct offer){.host = mine.host_of_both, .device = mine.device_of_both}))
        STEP(ADOPT_CPU, hand_in((struct offer){.host = mine.adopted_host, .adopt = true}))
        STEP(ADOPT_GPU, hand_in((struct offer){.device = mine.adopted_device, .adopt = true}))
        STEP(ADOPT_BOTH, hand_in((struct offer){mine.adopted_host, mine.adopted_device, .adopt = true}))
        STEP(SET_CPU_ON, hand_in((struct offer){.host = mine.host, .ordered = true}))
        STEP(SET_GPU_ON, hand_in((struct offer){.device = mine.device, .ordered = true}))
        STEP(SET_BOTH_ON, hand_in((struct offer){mine.host_of_both, mine.device_of_both, .ordered = true}))
        STEP(ADOPT_CPU_ON, hand_in((struct offer){.host = mine.adopted_host, .adopt = true, .ordered = true}))
        STEP(ADOPT_GPU_ON, hand_in((struct offer){.device = mine.adopted_device, .adopt = true, .ordered = true}))
        STEP(ADOPT_BOTH_ON,
             hand_in((struct offer){mine.adopted_host, mine.adopted_device, .adopt = true, .ordered = true}))
        STEP(RELEASE_CPU, let_go(synced_mem_release_cpu_data(now.mem)))
        STEP(RELEASE_GPU, let_go(synced_mem_release_gpu_data(now.mem)))
        STEP(RELEASE_DATA, let_go(synced_mem_release_data(now.mem)))
        STEP(CLEAR, scenario_clear())
        STEP(MAKE_OTHERS, scenario_make_others(SYNCED_MEM_PLACEMENT_SEPARATE, false))
        STEP(MAKE_PAGEABLE, scenario_make_others(SYNCED_MEM_PLACEMENT_SEPARATE, true))
        STEP(MAKE_MANAGED, scenario_make_others(SYNCED_MEM_PLACEMENT_MANAGED, false))
        STEP(OTHER_CPU, scenario_write_other(false))
        STEP(OTHER_GPU, scenario_write_other(true))
        STEP(COPY_ON, scenario_copy(false, false, mine.stream))
        STEP(COPY_2, scenario_copy(false, false, mine.second))
        STEP(COPY_CPU, scenario_copy(true, false, NULL))
        STEP(COPY_N, scenario_copy(false, true, mine.stream))
        STEP(COPY_CPU_N, scenario_copy(true, true, NULL))
        STEP(RELEASE_OTHERS, scenario_release_others())
        STEP(DIVIDE, scenario_divide())
        STEP(READ_VIEW_ON, scenario_read_view_on())
        STEP(UNITE, scenario_unite())
        STEP(RETAIN, retain())
        STEP(RELEASE, give_up())
        STEP(SHUTDOWN, synced_mem_shutdown())
        STEP(STAGE_ALONE, stage(0))
        STEP(STAGE, stage(1))
        STEP(STAGE_MANY, stage(3))
    }
#undef STEP
    return SYNCED_MEM_OK;
}

/* ---- Checks ---- */

static void check_caller(void)
{
    const int current = gpu_find_current_device();
    REQUIRE(current == now.caller_on || current == -1);
    REQUIRE(now.called <= now.owed);
}

static bool is_copy(enum step step)
{
    return step >= COPY_ON && step <= COPY_CPU_N;
}

/* A copy that was arriving becomes invalid when the device is lost or the transfer fails. The copy that was its source
 * stays valid. */
static void check_as_before(enum step step, const struct facts *before, enum outcome expected)
{
    const synced_mem_head_kind head = synced_mem_head(now.mem);
    const bool may_lose = (expected == MAY_BREAK || now.staged) && before->head == SYNCED_MEM_SYNCED;
    const bool overwritten = is_copy(step) && ((head & ~before->head) == 0 || now.unsure);
    REQUIRE(head == before->head || (may_lose && head != SYNCED_MEM_UNINITIALIZED) || overwritten);
    REQUIRE(synced_mem_size(now.mem) == before->size);
    if (now.host && (head & SYNCED_MEM_AT_CPU))
        REQUIRE(contents_are(now.host));
}

static void check_host_contents_stay(void)
{
    if (!now.mem || !(synced_mem_head(now.mem) & SYNCED_MEM_AT_CPU))
        return;
    const void *const data = synced_mem_cpu_data(now.mem);
    if (!data && !now.host) /* they were still arriving, and were lost */
        return;
    REQUIRE(data != NULL);
    REQUIRE(!now.host || data == now.host);
    REQUIRE(contents_are(data));
}

/* Returns how often a step is tried: each call that can fail, and one that cannot. */
static int tries_of(enum outcome expected)
{
    return expected == MUST_SUCCEED ? 1 : expected == MAY_FAIL_TWICE ? 3 : 2;
}

/* Returns whether the last failure was of work that cannot be waited for, on memory of the caller's or of a part. The
 * library does not touch such memory again, and the object goes on without it. A later step may then find no contents
 * to move. */
static bool is_out_of_sight(void)
{
    const synced_mem_status status = synced_mem_last_error();
    const bool now_unknown =
        status == SYNCED_MEM_ERR_CUDA && strstr(synced_mem_last_error_message(), "is unknown, as no event") != NULL;
    const bool is_without = now.out_of_sight && status == SYNCED_MEM_ERR_INVALID_STATE;
    now.out_of_sight = now.out_of_sight || now_unknown;
    return now_unknown || is_without;
}

/* Tries a step. Returns false if the device is lost. */
static bool take(enum step step, enum outcome expected)
{
    for (int i = 0; i < tries_of(expected); i++) {
        const bool had = now.mem != NULL;
        const struct facts before = had ? facts_of(now.mem) : (struct facts){.size = 0};
        const synced_mem_status status = perform(step);
        check_caller();
        if (status == SYNCED_MEM_OK)
            return !now.given_up;
        REQUIRE(expected != MUST_SUCCEED);
        REQUIRE(had == (now.mem != NULL));
        if (had)
            check_as_before(step, &before, expected);
    }
    if (expected == MAY_FAIL_TWICE && is_out_of_sight())
        return true;
    REQUIRE(expected == MAY_BREAK);
    now.given_up = true;
    return false;
}

void scenario_compare(bool so)
{
    now.compares = so;
}

void scenario_run(int scenario, enum outcome expected)
{
    const enum step *step = scenario_steps[scenario];
    while (*step != END && take(*step, expected))
        step++;
    if (!now.given_up)
        return;
    now.doing = "letting go";
    check_host_contents_stay();
    REQUIRE(scenario_release_others() == SYNCED_MEM_OK);
    REQUIRE(release_companions() == SYNCED_MEM_OK);
    REQUIRE(scenario_unite() == SYNCED_MEM_OK);
    while (now.mem)
        REQUIRE(give_up() == SYNCED_MEM_OK);
}

/* Refused memory must not count as used. */
static void check_peaks(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    (void)synced_mem_host_pool_get_stats(&stats);
    REQUIRE(stats.peak_requested_bytes <= stats.peak_held_bytes);
}

void scenario_check_end(enum outcome expected)
{
    now.doing = "the end";
    check_peaks();
    synced_mem_status status = synced_mem_shutdown();
    for (int tries = 1; tries < tries_of(expected) && status != SYNCED_MEM_OK; tries++)
        status = synced_mem_shutdown();
    check_caller();
    REQUIRE(gpu_mismatches(now.compares) == 0);
    REQUIRE(status == SYNCED_MEM_OK || expected == MAY_BREAK);
    const synced_mem_stats stats = stats_now();
    REQUIRE(stats.objects == 0);
    REQUIRE(stats.retired == 0);
    REQUIRE(stats.quarantined == 0 || expected == MAY_FAIL_TWICE);
    if (stats.quarantined > 0)
        return;
    REQUIRE(now.called == now.owed);
    REQUIRE(mine.cpu_slots.freed == mine.cpu_slots.used && !mine.cpu_slots.wrong);
    REQUIRE(mine.gpu_slots.freed == mine.gpu_slots.used && !mine.gpu_slots.wrong);
    REQUIRE(stats.pageable_bytes == 0);
    REQUIRE(stats.pinned_bytes == 0);
    REQUIRE(stats.gpu_bytes == 0);
    REQUIRE(stats.managed_bytes == 0);
}
