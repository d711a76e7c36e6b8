/*
 * Plays random calls on a root and its views, and compares heads, contents and transferred bytes with a reference that
 * keeps them for each byte.
 */
#include "views_kit.h"

enum { VIEWS = 10, STEPS = 120, RUNS = 30, STREAMS = 2 };

#define CPU ((unsigned)SYNCED_MEM_AT_CPU)
#define GPU ((unsigned)SYNCED_MEM_AT_GPU)

static synced_mem *mems[1 + VIEWS]; /* the root, and its views; NULL: no view */
static unsigned char heads[ROOT];   /* of each byte */
static synced_mem_stream streams[1 + STREAMS];
static unsigned char *memory; /* of the test's, page-locked if there is a device */
static bool unified;          /* both sides use one memory: nothing is transferred */
static unsigned patterns;
static uint64_t up, down; /* the bytes that the next call is to transfer */
static uint64_t state;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static synced_mem *draw_object(void)
{
    for (;;) {
        synced_mem *const mem = mems[draw(1 + VIEWS)];
        if (mem)
            return mem;
    }
}

static unsigned char *heads_of(const synced_mem *mem)
{
    return heads + synced_mem_offset(mem);
}

static unsigned expected_head(const synced_mem *mem)
{
    unsigned all = CPU | GPU, any = 0;
    for (size_t i = 0; i < synced_mem_size(mem); i++) {
        all &= heads_of(mem)[i];
        any |= heads_of(mem)[i];
    }
    return all == 0 && any != 0 ? SYNCED_MEM_MIXED : all;
}

/* ---- The table, for each byte ---- */

static void access_bytes(const synced_mem *mem, unsigned bit, bool write, bool overwrite)
{
    unsigned char *const of = heads_of(mem);
    for (size_t i = 0; i < synced_mem_size(mem); i++) {
        if (!overwrite && of[i] != 0 && !(of[i] & bit))
            *(bit == GPU ? &up : &down) += 1;
        of[i] = (unsigned char)(write || of[i] == 0 ? bit : of[i] | bit);
    }
}

/* Makes the bytes that are valid on one side alone valid on both. */
static void transfer_bytes(const synced_mem *mem, unsigned from)
{
    unsigned char *const of = heads_of(mem);
    for (size_t i = 0; i < synced_mem_size(mem); i++)
        if (of[i] == from) {
            *(from == CPU ? &up : &down) += 1;
            of[i] = CPU | GPU;
        }
}

/* ---- The calls ---- */

static void make_view(void)
{
    synced_mem *const of = draw_object();
    const unsigned i = 1 + draw(VIEWS);
    const size_t size = synced_mem_size(of), offset = draw((unsigned)size), left = size - offset;
    if (!mems[i])
        mems[i] = view_of(of, offset, draw(2) ? 1 + draw((unsigned)left) : 1 + draw(left < 300 ? (unsigned)left : 300));
}

static void release_view(void)
{
    const unsigned i = 1 + draw(VIEWS);
    OK(synced_mem_release(mems[i]));
    mems[i] = NULL;
}

static void access_host(void)
{
    synced_mem *const mem = draw_object();
    const unsigned mode = draw(3);
    access_bytes(mem, CPU, mode > 0, mode == 2);
    void *const data = given(mode == 0   ? (void *)synced_mem_cpu_data(mem)
                             : mode == 1 ? synced_mem_mutable_cpu_data(mem)
                                         : synced_mem_overwrite_cpu_data(mem));
    if (mode < 2)
        ck_assert(bytes_are_right(mem, data));
    if (mode == 0)
        return;
    host_fill(data, synced_mem_size(mem), ++patterns);
    expect(mem, patterns);
}

static void *access_on(synced_mem *mem, unsigned mode, synced_mem_stream stream)
{
    if (draw(2))
        return given(synced_mem_access(mem, SYNCED_MEM_SIDE_GPU, (synced_mem_mode)mode, stream));
    return given(mode == 0   ? (void *)synced_mem_gpu_data_on(mem, stream)
                 : mode == 1 ? synced_mem_mutable_gpu_data_on(mem, stream)
                             : synced_mem_overwrite_gpu_data_on(mem, stream));
}

static void *access_any(synced_mem *mem, unsigned mode)
{
    if (draw(2))
        return given(synced_mem_access(mem, SYNCED_MEM_SIDE_GPU, (synced_mem_mode)mode, SYNCED_MEM_NO_STREAM));
    return given(mode == 0   ? (void *)synced_mem_gpu_data(mem)
                 : mode == 1 ? synced_mem_mutable_gpu_data(mem)
                             : synced_mem_overwrite_gpu_data(mem));
}

static void access_device(void)
{
    synced_mem *const mem = draw_object();
    const unsigned mode = draw(3), on = draw(2 + STREAMS);
    synced_mem_stream stream = on <= STREAMS ? streams[on] : NULL;
    access_bytes(mem, GPU, mode > 0, mode == 2);
    void *const data = on <= STREAMS ? access_on(mem, mode, stream) : access_any(mem, mode);
    if (mode < 2)
        gpu_expect(data, synced_mem_size(mem), expected + synced_mem_offset(mem), stream);
    if (mode == 0)
        return;
    gpu_fill(data, synced_mem_size(mem), ++patterns, stream);
    expect(mem, patterns);
}

static bool is_refused(const synced_mem *mem, bool push)
{
    const unsigned head = expected_head(mem);
    return head == SYNCED_MEM_UNINITIALIZED || head == (push ? GPU : CPU);
}

static void push_or_pull(void)
{
    synced_mem *const mem = draw_object();
    synced_mem_stream stream = streams[draw(1 + STREAMS)];
    const bool push = draw(2);
    if (is_refused(mem, push)) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE,
              push ? synced_mem_async_gpu_push(mem, stream) : synced_mem_async_cpu_pull(mem, stream));
        return;
    }
    transfer_bytes(mem, push ? CPU : GPU);
    OK(push ? synced_mem_async_gpu_push(mem, stream) : synced_mem_async_cpu_pull(mem, stream));
}

static void push_or_pull_several(void)
{
    synced_mem *list[6];
    synced_mem_stream stream = streams[draw(1 + STREAMS)];
    const bool push = draw(2);
    bool refused = false;
    const unsigned count = 1 + draw(6);
    for (unsigned i = 0; i < count; i++) {
        list[i] = draw_object();
        refused = refused || is_refused(list[i], push);
    }
    for (unsigned i = 0; i < count && !refused; i++)
        transfer_bytes(list[i], push ? CPU : GPU);
    const synced_mem_status status =
        push ? synced_mem_async_gpu_push_n(list, count, stream) : synced_mem_async_cpu_pull_n(list, count, stream);
    ck_assert_msg(status == (refused ? SYNCED_MEM_ERR_INVALID_STATE : SYNCED_MEM_OK), "%s",
                  synced_mem_last_error_message());
}

static void clear(void)
{
    synced_mem *const mem = draw_object();
    if (draw(3) > 0)
        return;
    memset(heads_of(mem), 0, synced_mem_size(mem));
    expect(mem, 0);
    OK(synced_mem_clear(mem));
}

static void end_or_wait(void)
{
    synced_mem *const mem = draw_object();
    int pending;
    if (gpu_expected() && draw(2))
        OK(synced_mem_end_use_on(mem, streams[draw(1 + STREAMS)]));
    else if (draw(2))
        OK(synced_mem_wait(mem));
    else
        OK(synced_mem_query(mem, &pending));
}

/* Copies a view of the one half of an object to a view of its other half. Not of bytes of which some are
 * UNINITIALIZED. */
static void copy(void)
{
    synced_mem *const mem = draw_object();
    const size_t half = synced_mem_size(mem) / 2;
    if (half == 0)
        return;
    synced_mem *const to = view_of(mem, draw(2) * half, half);
    synced_mem *const from = view_of(mem, synced_mem_offset(to) == synced_mem_offset(mem) ? half : 0, half);
    const bool on_host = !gpu_expected() || draw(2);
    if (!memchr(heads_of(from), 0, half)) {
        synced_mem_stream stream = streams[draw(1 + STREAMS)];
        for (size_t i = 0; i < half; i++) /* bytes that are valid on the side of the copy are not transferred */
            *(on_host ? &down : &up) += heads_of(from)[i] == (on_host ? GPU : CPU);
        OK(on_host ? synced_mem_cpu_copy(to, from) : synced_mem_async_gpu_copy(to, from, stream));
        memcpy(expected + synced_mem_offset(to), expected + synced_mem_offset(from), half);
        memset(heads_of(to), on_host ? (int)CPU : (int)GPU, half);
    }
    RELEASE_EACH(to, from);
}

/* Replaces or releases the root's memory. */
static void change_memory(void)
{
    switch (draw(unified ? 3 : 12)) {
    case 0:
        OK(synced_mem_release_data(mems[0]));
        memset(heads, 0, ROOT);
        expect(mems[0], 0);
        break;
    case 1:
        if (unified || !gpu_expected() || synced_mem_cpu_source(mems[0]) == SYNCED_MEM_SOURCE_NONE)
            break;
        transfer_bytes(mems[0], CPU);
        for (size_t i = 0; i < ROOT; i++)
            heads[i] &= GPU;
        OK(synced_mem_release_cpu_data(mems[0]));
        break;
    case 2:
        if (unified || !gpu_expected() || synced_mem_gpu_source(mems[0]) == SYNCED_MEM_SOURCE_NONE)
            break;
        transfer_bytes(mems[0], GPU);
        for (size_t i = 0; i < ROOT; i++)
            heads[i] &= CPU;
        OK(synced_mem_release_gpu_data(mems[0]));
        break;
    case 3:
        if (synced_mem_cpu_source(mems[0]) == SYNCED_MEM_SOURCE_BORROWED)
            break;
        host_fill(memory, ROOT, ++patterns);
        expect(mems[0], patterns);
        memset(heads, CPU, ROOT);
        OK(synced_mem_set_cpu_data(mems[0], memory));
        break;
    default:
        break;
    }
}

static void resize(void)
{
    bool any = false;
    for (int i = 1; i <= VIEWS; i++)
        any = any || mems[i];
    if (any) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(mems[0], ROOT - 1));
        return;
    }
    OK(synced_mem_resize_discard(mems[0], ROOT));
    memset(heads, 0, ROOT);
    expect(mems[0], 0);
}

/* ---- A run ---- */

static void (*const calls[])(void) = {make_view,     make_view,   release_view,  access_host,
                                      access_host,   clear,       end_or_wait,   copy,
                                      change_memory, resize,      push_or_pull,  push_or_pull_several,
                                      access_device, access_host, access_device, access_device};
enum { CALLS = sizeof calls / sizeof calls[0], CALLS_OF_THE_HOST = 10 };

static void play_step(void)
{
    const unsigned call = draw(gpu_expected() ? CALLS : CALLS_OF_THE_HOST);
    const synced_mem_stats before = stats_now();
    up = down = 0;
    calls[call]();
    const synced_mem_stats after = stats_now();
    if (unified)
        up = down = 0;
    ck_assert_msg(after.h2d_bytes - before.h2d_bytes == up && after.d2h_bytes - before.d2h_bytes == down,
                  "call %u: %zu bytes up, not %zu; %zu down, not %zu", call,
                  (size_t)(after.h2d_bytes - before.h2d_bytes), (size_t)up,
                  (size_t)(after.d2h_bytes - before.d2h_bytes), (size_t)down);
    for (int i = 0; i <= VIEWS; i++)
        if (mems[i])
            ck_assert_msg((unsigned)synced_mem_head(mems[i]) == expected_head(mems[i]),
                          "after call %u: head %d of %zu bytes at %zu, not %u", call, (int)synced_mem_head(mems[i]),
                          synced_mem_size(mems[i]), synced_mem_offset(mems[i]), expected_head(mems[i]));
}

/* A root whose memory is separate, mapped or managed. */
static synced_mem *make_kind(int kind)
{
    synced_mem *mem = NULL;
    synced_mem_options options = default_options();
    unified = gpu_expected() && kind > 0;
    options.device = gpu_expected() ? 0 : SYNCED_MEM_DEVICE_CURRENT;
    options.placement = unified ? (synced_mem_placement_kind)kind : SYNCED_MEM_PLACEMENT_SEPARATE;
    OK(synced_mem_create(&mem, ROOT, &options));
    if (!unified || synced_mem_cpu_data(mem)) {
        OK(synced_mem_clear(mem));
        return mem;
    }
    ck_assert_int_eq(synced_mem_last_error(), SYNCED_MEM_ERR_INVALID_STATE); /* this machine lacks the placement */
    OK(synced_mem_release(mem));
    return make_kind(0);
}

START_TEST(run)
{
    synced_mem_staging staging = {.struct_size = sizeof staging};
    OK(synced_mem_get_staging(&staging));
    staging.minimum_bytes = _i % 3 == 0 ? 1 : staging.minimum_bytes;
    staging.threads = (unsigned)_i % 4;
    OK(synced_mem_set_staging(&staging));
    state = (uint64_t)_i * 1000 + fixture_schedule();
    memory = gpu_expected() && _i % 2 ? gpu_pinned_alloc(ROOT) : malloc(ROOT);
    for (int i = 1; i <= STREAMS && gpu_expected(); i++)
        streams[i] = open_stream(i % 2 ? NON_BLOCKING : BLOCKING);
    mems[0] = make_kind(_i % 5 < 3 ? 0 : _i % 5 - 2);
    for (int i = 0; i < STEPS; i++)
        play_step();
    for (int i = 0; i <= VIEWS; i++)
        if (mems[i])
            ck_assert(host_reads_right(mems[i]));
    for (int i = 0; i <= VIEWS; i++)
        OK(synced_mem_release(mems[i]));
    for (int i = 1; i <= STREAMS && gpu_expected(); i++)
        close_stream(streams[i]);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    if (gpu_expected() && _i % 2)
        gpu_pinned_free(memory);
    else
        free(memory);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("random calls on views");
    TCase *const runs = add_case(made, "runs");
    tcase_add_loop_test(runs, run, 0, RUNS);
    return made;
}
