/*
 * Checks accesses to a root again and again, on one stream and on others by turns: the library lists the parts that the
 * stream does not have, and no others, however many there are.
 */
#include "views_kit.h"

#include "object/listing.h"
#include "object/piece_tree.h"
#include "published.h"
#include "stream/waits.h"

/* ---- Calls in the middle of a call ---- */

/* The linker puts the wrappers in place of the library's own functions (--wrap). */
static void (*meanwhile)(void); /* is called once, when a call is about to wait, with nothing locked */
static bool is_refused;         /* there is no memory for a reader */
static size_t reserved;         /* the number of readers that were reserved */

synced_mem_status __real_sm_waits_wait(struct sm_waits *waits, bool *ended);
synced_mem_status __wrap_sm_waits_wait(struct sm_waits *waits, bool *ended);
synced_mem_status __wrap_sm_waits_wait(struct sm_waits *waits, bool *ended)
{
    void (*const call)(void) = meanwhile;
    meanwhile = NULL;
    if (call)
        call();
    return __real_sm_waits_wait(waits, ended);
}

struct sm_use *__real_sm_inflight_reserve_many(size_t count);
struct sm_use *__wrap_sm_inflight_reserve_many(size_t count);
struct sm_use *__wrap_sm_inflight_reserve_many(size_t count)
{
    reserved += count;
    return is_refused ? NULL : __real_sm_inflight_reserve_many(count);
}

struct sm_use *__real_sm_inflight_reserve(void);
struct sm_use *__wrap_sm_inflight_reserve(void);
struct sm_use *__wrap_sm_inflight_reserve(void)
{
    return is_refused ? NULL : __real_sm_inflight_reserve();
}

/* ---- A root in parts ---- */

enum { MOST = 10000, PART = 64 };

static struct {
    synced_mem *root, *views[MOST];
    size_t count, size; /* of the parts */
    synced_mem_stream stream, other;
} it;

static void divide(size_t count, size_t size)
{
    it.count = count;
    it.size = size;
    it.root = make_on(count * size, 0);
    (void)given(synced_mem_overwrite_gpu_data_on(it.root, it.stream));
    for (size_t i = 0; i < count; i++)
        it.views[i] = view_of(it.root, i * size, size);
}

static void release_view(size_t i)
{
    OK(synced_mem_release(it.views[i]));
    it.views[i] = NULL;
}

static void unite(void)
{
    for (size_t i = 0; i < it.count; i++)
        if (it.views[i])
            release_view(i);
    OK(synced_mem_release(it.root));
}

static void *access_on(synced_mem *mem, bool writes, synced_mem_stream stream)
{
    return given(writes ? synced_mem_mutable_gpu_data_on(mem, stream) : synced_mem_gpu_data_on(mem, stream));
}

/* Returns how many parts the next access by the user would list, of those from first on. */
static size_t count_listed_from(bool writes, size_t first)
{
    const struct sm_piece_range range = {
        .begin = first * it.size, .end = it.count * it.size, .mark = SM_MARK_TO_READ + writes};
    const struct sm_division *const division = sm_division_of(it.root);
    ck_assert(sm_piece_tree_is_valid(division));
    return sm_piece_tree_count(division, &range);
}

static size_t count_listed(bool writes)
{
    return count_listed_from(writes, 0);
}

static void change(size_t i)
{
    host_fill(given(synced_mem_overwrite_cpu_data(it.views[i])), it.size, 1);
}

/* ---- Accesses ---- */

static const size_t counts[] = {4, 100, MOST};

START_TEST(lists_what_has_changed)
{
    const bool writes = _i % 2;
    it.stream = open_stream(NON_BLOCKING);
    it.other = open_stream(NON_BLOCKING);
    divide(counts[_i / 2], PART);
    void *const data = access_on(it.root, writes, it.stream);
    ck_assert_uint_eq(count_listed(writes), 0);
    ck_assert_ptr_eq(access_on(it.root, writes, it.stream), data);
    change(0);
    change(it.count - 1);
    ck_assert_uint_eq(count_listed(writes), 2);
    ck_assert_ptr_eq(access_on(it.root, writes, it.stream), data);
    ck_assert_uint_eq(count_listed(writes), 0);
    /* another stream's access to a part */
    (void)access_on(it.views[1], writes, it.other);
    ck_assert_uint_eq(count_listed(writes), 1);
    ck_assert_ptr_eq(access_on(it.root, writes, it.stream), data);
    ck_assert_uint_eq(count_listed(writes), 0);
    OK(synced_mem_end_use_on(it.views[2], it.stream));
    ck_assert_uint_eq(count_listed(writes), 1);
    ck_assert_ptr_eq(access_on(it.root, writes, it.stream), data);
    ck_assert_uint_eq(count_listed(writes), 0);
    unite();
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

/* Modes have users of their own. Reads leave those of the writer, and a write on the same stream those of the
 * reader. */
START_TEST(both_modes)
{
    it.stream = open_stream(NON_BLOCKING);
    divide(counts[_i], PART);
    for (int i = 0; i < 3; i++) {
        (void)access_on(it.root, false, it.stream);
        (void)access_on(it.root, true, it.stream);
        ck_assert_uint_eq(count_listed(false), 0);
        ck_assert_uint_eq(count_listed(true), 0);
    }
    change(1);
    ck_assert_uint_eq(count_listed(false), 1);
    ck_assert_uint_eq(count_listed(true), 1);
    (void)access_on(it.root, false, it.stream); /* the part is SYNCED then */
    ck_assert_uint_eq(count_listed(false), 0);
    ck_assert_uint_eq(count_listed(true), 1);
    unite();
    close_stream(it.stream);
}
END_TEST

/* Another stream that accesses the whole root becomes its user, and no part is missed by either. */
START_TEST(streams_by_turns)
{
    const bool writes = _i % 2;
    it.stream = open_stream(NON_BLOCKING);
    it.other = open_stream(NON_BLOCKING);
    const synced_mem_stream streams[] = {it.stream, it.other, NULL};
    divide(counts[_i / 2], PART);
    for (unsigned i = 0; i < 9; i++) {
        const synced_mem_stream now = streams[i % 3], next = streams[(i + 1) % 3];
        unsigned char *const data = access_on(it.root, writes, now);
        ck_assert_uint_eq(count_listed(writes), 0);
        if (writes)
            gpu_fill(data, it.count * it.size, i + 1, now);
        change(i % it.count);
        unsigned char bytes[PART];
        gpu_read(bytes, (unsigned char *)access_on(it.root, false, next) + i % it.count * it.size, it.size);
        ck_assert(pattern_is(bytes, it.size, 1));
    }
    unite();
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

/* A view in several parts is listed by the marks of its own parts if the stream is the root's user. Another stream does
 * not become the user. */
START_TEST(views_in_several_parts)
{
    const bool writes = _i % 2;
    it.stream = open_stream(NON_BLOCKING);
    it.other = open_stream(NON_BLOCKING);
    divide(counts[_i / 2], PART);
    const size_t half = it.count / 2;
    synced_mem *const view = view_of(it.root, half * PART, (it.count - half) * PART);
    (void)access_on(it.root, writes, it.stream);
    for (size_t i = 0; i < it.count; i++)
        if (i % half == 0)
            change(i);
    ck_assert_uint_eq(count_listed(writes), 2);
    (void)access_on(view, writes, it.stream);
    ck_assert_uint_eq(count_listed(writes), 1);
    ck_assert_uint_eq(count_listed_from(writes, half), 0);
    (void)access_on(view, writes, it.other);
    ck_assert_uint_eq(count_listed(writes), 1 + it.count - half);
    (void)access_on(view, writes, it.other); /* nothing to do, though its parts have marks */
    ck_assert_uint_eq(count_listed(writes), 1 + it.count - half);
    (void)access_on(it.root, writes, it.stream);
    ck_assert_uint_eq(count_listed(writes), 0);
    OK(synced_mem_release(view));
    unite();
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

/* Zeros that the stream fills belong to its own use. */
START_TEST(zeros_on_the_stream)
{
    const bool writes = _i % 2, had_it = _i / 2;
    it.stream = open_stream(NON_BLOCKING);
    it.other = open_stream(NON_BLOCKING);
    divide(100, PART);
    gpu_fill(access_on(it.root, true, it.stream), 100 * PART, 1, it.stream);
    (void)access_on(it.root, writes, had_it ? it.stream : it.other);
    gpu_delay(it.stream);
    for (size_t i = 0; i < 100; i += 2)
        OK(synced_mem_clear(it.views[i]));
    unsigned char *const data = access_on(it.root, writes, it.stream);
    for (size_t i = 0; i < 100; i++) {
        unsigned char wanted[PART];
        pattern_write(wanted, PART, 0);
        if (i % 2 == 0)
            gpu_expect(data + i * PART, PART, wanted, it.stream);
    }
    if (writes)
        gpu_fill(data, PART, 2, it.stream);
    /* other streams come after the fills, and after what the stream writes */
    ck_assert(device_is(access_on(it.views[0], false, it.other), PART, writes ? 2 : 0));
    gpu_stream_sync(it.other);
    ck_assert(host_is(given(synced_mem_cpu_data(it.views[2])), PART, 0));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    unite();
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

/* The publication of an object that is one part, and the notes on the part that go with it. */
struct shown {
    struct sm_published published;
    void *gpu_data;
    unsigned head, marks;
    bool at_rest;
};

static struct shown shown_of(const struct synced_mem *view)
{
    const struct sm_record *const record = &view->at.first->record;
    return (struct shown){.published = published_of(view),
                          .gpu_data = atomic_load(&view->gpu_data),
                          .head = atomic_load(&view->record.head),
                          .marks = record->marks,
                          .at_rest = record->at_rest};
}

static void expect_same(const struct shown *one, const struct shown *other)
{
    ck_assert_mem_eq(&one->published, &other->published, sizeof one->published);
    ck_assert_ptr_eq(one->gpu_data, other->gpu_data);
    ck_assert_uint_eq(one->head, other->head);
    ck_assert_uint_eq(one->marks, other->marks);
    ck_assert_int_eq(one->at_rest, other->at_rest);
}

static const struct {
    void (*on_host)(size_t i);
    int uses[4]; /* 1, 2: the stream, or the other one, reads; negative: writes; 3: some stream reads */
    bool has_ended;
} pasts[] = {
    {NULL, {0}, false},    {change, {0}, false},     {NULL, {1}, false},         {NULL, {2}, false},
    {NULL, {1, 2}, false}, {NULL, {2, 1, 3}, false}, {NULL, {-1}, false},        {NULL, {-2}, false},
    {NULL, {3}, false},    {NULL, {-3}, false},      {change, {1, 2, 3}, false}, {NULL, {-1, 1}, false},
    {NULL, {1}, true},     {NULL, {-2, 2}, true},    {change, {2, 1}, true},     {NULL, {3, 1}, true},
};
enum { PASTS = sizeof pasts / sizeof *pasts };

/* Returns whether the stream can read the part again without a new place among its readers. */
static bool live_through(size_t past, size_t i)
{
    const synced_mem_stream streams[] = {NULL, it.stream, it.other, NULL};
    bool reads = false;
    if (pasts[past].on_host)
        pasts[past].on_host(i);
    for (int k = 0; k < 4 && pasts[past].uses[k]; k++) {
        const int use = pasts[past].uses[k];
        (void)access_on(it.views[i], use < 0, streams[use < 0 ? -use : use]);
        reads = use == 1 || (reads && use > 0);
    }
    if (pasts[past].has_ended)
        OK(synced_mem_end_use_on(it.views[i], it.stream));
    return reads && !pasts[past].has_ended;
}

/* However parts were used before, they are alike once an access has filled them. What each has published then is what
 * its own state allows, and only readers that are new to a part are reserved. */
START_TEST(zeros_of_parts_with_different_pasts)
{
    const bool writes = _i % 2;
    size_t again = 0;
    it.stream = open_stream(NON_BLOCKING);
    it.other = open_stream(NON_BLOCKING);
    divide(2 * PASTS, PART);
    gpu_fill(access_on(it.root, true, it.stream), it.count * PART, 1, it.stream);
    if (_i >= 4) { /* users of the root, from whom the parts are withdrawn */
        (void)access_on(it.root, false, it.other);
        (void)access_on(it.root, true, it.other);
    }
    for (size_t i = 0; i < it.count; i++)
        again += live_through((i + (size_t)_i / 2 * 5) % PASTS, i);
    gpu_delay(it.other);
    for (size_t i = 0; i < it.count; i++)
        OK(synced_mem_clear(it.views[i]));
    gpu_delay(it.stream);
    reserved = 0;
    const unsigned char *const data = access_on(it.root, writes, it.stream);
    ck_assert_uint_eq(reserved, writes ? 0 : it.count - again);
    for (size_t i = 0; i < it.count; i++) {
        const struct shown before = shown_of(it.views[i]);
        sm_publish_piece(it.views[i]->at.first);
        const struct shown after = shown_of(it.views[i]);
        expect_same(&before, &after);
        ck_assert_ptr_nonnull(before.published.on[writes]);
        ck_assert_ptr_eq(before.gpu_data, data + i * PART);
        HEAD(it.views[i], AT_GPU);
    }
    ck_assert_uint_eq(count_listed(writes), 0);
    for (size_t i = 0; i < it.count; i++)
        ck_assert(device_is(access_on(it.views[i], false, i % 2 ? it.other : it.stream), PART, 0));
    ck_assert(host_is(given(synced_mem_cpu_data(it.root)), it.count * PART, 0));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    unite();
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

/* ---- Failures ---- */

#define HEADS(first, second, third)                                                                                    \
    do {                                                                                                               \
        HEAD(it.views[0], first);                                                                                      \
        HEAD(it.views[1], second);                                                                                     \
        HEAD(it.views[2], third);                                                                                      \
    } while (0)

/* The parts are filled, and then the stream cannot be given their pointers. */
START_TEST(no_memory_for_readers_of_zeros)
{
    it.stream = open_stream(NON_BLOCKING);
    divide(3 + (size_t)_i * 20, PART);
    for (size_t i = 0; i < it.count; i++)
        OK(synced_mem_clear(it.views[i]));
    (void)synced_mem_end_use_on(it.root, it.stream);
    is_refused = true;
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_gpu_data_on(it.root, it.stream));
    HEADS(UNINITIALIZED, UNINITIALIZED, UNINITIALIZED);
    is_refused = false;
    change(1);
    OK(synced_mem_async_gpu_push(it.views[1], it.stream)); /* comes after the fill */
    ck_assert(host_is(given(synced_mem_cpu_data(it.views[0])), PART, 0));
    (void)given(synced_mem_gpu_data_on(it.root, it.stream));
    ck_assert(device_is(given(synced_mem_gpu_data_on(it.views[0], it.stream)), PART, 0));
    ck_assert(device_is(given(synced_mem_gpu_data_on(it.views[1], it.stream)), PART, 1));
    ck_assert(device_is(given(synced_mem_gpu_data_on(it.views[2], it.stream)), PART, 0));
    unite();
    close_stream(it.stream);
}
END_TEST

enum { SIZE = 1 << 16 };

static void clear_others(void)
{
    for (size_t i = 1; i < it.count; i++)
        OK(synced_mem_clear(it.views[i]));
    is_refused = true;
}

/* While an access waits for a staged transfer to be queued, another call changes parts that it had passed by. Then it
 * fails: it restores those too. */
START_TEST(parts_that_change_meanwhile)
{
    static _Alignas(4096) unsigned char memory[9 * SIZE];
    set_staging(_i == 0 ? 0 : 1, 1);
    it.stream = open_stream(NON_BLOCKING);
    divide(_i == 0 ? 3 : 9, SIZE);
    OK(synced_mem_set_cpu_data(it.root, memory));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(it.root, it.stream)), it.count * SIZE, 1, it.stream);
    gpu_stream_sync(it.stream);
    (void)given(synced_mem_gpu_data_on(it.root, it.stream));
    change(0);
    meanwhile = clear_others;
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_gpu_data_on(it.root, it.stream));
    ck_assert(meanwhile == NULL);
    HEADS(AT_CPU, UNINITIALIZED, UNINITIALIZED);
    is_refused = false;
    (void)given(synced_mem_gpu_data_on(it.root, it.stream));
    HEADS(SYNCED, AT_GPU, AT_GPU);
    ck_assert_uint_eq(count_listed(false), 0);
    ck_assert(device_is(given(synced_mem_gpu_data_on(it.views[0], it.stream)), SIZE, 1));
    ck_assert(device_is(given(synced_mem_gpu_data_on(it.views[1], it.stream)), SIZE, 0));
    unite();
    close_stream(it.stream);
}
END_TEST

static size_t first, joined; /* the parts that are joined, and their number */

/* The call has filled some of the parts by now. */
static void join_parts(void)
{
    gpu_stream_sync(it.stream);
    OK(synced_mem_end_use_on(it.root, it.stream));
    for (size_t i = first; i < first + joined; i++)
        release_view(i);
    is_refused = true;
}

/* While an access waits, another call joins parts that it has filled to one that it had passed by. Then it fails. What
 * it had passed by keeps its contents. */
START_TEST(parts_that_are_joined_meanwhile)
{
    static _Alignas(4096) unsigned char memory[5 * SIZE];
    static unsigned char wanted[5 * SIZE];
    set_staging(1, 1);
    it.stream = open_stream(NON_BLOCKING);
    divide(5, SIZE);
    OK(synced_mem_set_cpu_data(it.root, memory));
    gpu_fill(given(synced_mem_overwrite_gpu_data_on(it.root, it.stream)), 5 * SIZE, 1, it.stream);
    pattern_write(wanted, 5 * SIZE, 1);
    gpu_stream_sync(it.stream);
    (void)access_on(it.root, false, it.stream);
    for (size_t i = 1; i < 5; i += 2) {                    /* the counts of the parts beside them are smaller */
        OK(synced_mem_end_use_on(it.views[i], it.stream)); /* so that the access is counted */
        (void)access_on(it.views[i], true, it.stream);
        OK(synced_mem_clear(it.views[i]));
        memset(wanted + i * SIZE, 0, SIZE);
    }
    change(0);
    pattern_write(wanted, SIZE, 1);
    first = _i < 2 ? 1 : 3;
    joined = _i == 1 ? 3 : 2;
    meanwhile = join_parts;
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, synced_mem_gpu_data_on(it.root, it.stream));
    ck_assert(meanwhile == NULL);
    is_refused = false;
    const unsigned char *const data = given(synced_mem_cpu_data(it.root));
    gpu_note_host_read(data, 5 * SIZE);
    ck_assert(memcmp(data, wanted, 5 * SIZE) == 0);
    unite();
    close_stream(it.stream);
}
END_TEST

/* ---- At random ---- */

static uint64_t state;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(state >> 33) % below;
}

START_TEST(at_random)
{
    enum { PARTS = 40, WIDE = 10, OPERATIONS = 400 };
    state = (uint64_t)_i;
    it.stream = open_stream(NON_BLOCKING);
    it.other = open_stream(NON_BLOCKING);
    const synced_mem_stream streams[] = {it.stream, it.other, it.stream, NULL};
    memset(expected, 0, sizeof expected);
    it.count = _i % 2 ? PARTS : 4;
    it.size = ROOT / it.count;
    it.root = make_on(ROOT, 0);
    synced_mem *objects[PARTS + WIDE + PARTS];
    size_t count = 0;
    for (size_t i = 0; i < it.count; i++)
        objects[count++] = it.views[i] = view_of(it.root, i * it.size, it.size);
    for (size_t i = 0; i < WIDE; i++) {
        const size_t begin = draw((unsigned)it.count), parts = 1 + draw((unsigned)(it.count - begin));
        objects[count++] = view_of(it.root, begin * it.size, parts * it.size);
    }
    const size_t made = count;
    while (count < sizeof objects / sizeof *objects)
        objects[count++] = it.root;
    for (unsigned i = 1; i <= OPERATIONS; i++) {
        synced_mem *const mem = objects[draw((unsigned)count)];
        const synced_mem_stream stream = streams[draw(4)];
        switch (draw(9)) {
        case 0:
            device_writes(mem, i, stream);
            break;
        case 1:
            gpu_fill(access_on(mem, true, stream), synced_mem_size(mem), i, stream);
            expect(mem, i);
            break;
        case 2:
            host_writes(mem, i);
            break;
        case 3:
            ck_assert(host_reads_right(mem));
            break;
        case 4:
            OK(synced_mem_clear(mem));
            expect(mem, 0);
            break;
        case 5:
            OK(draw(2) ? synced_mem_release_gpu_data(it.root) : synced_mem_release_cpu_data(it.root));
            break;
        default:
            kernel_reads(mem, stream);
        }
        ck_assert(!sm_is_divided(it.root) || sm_piece_tree_is_valid(sm_division_of(it.root)));
    }
    ck_assert(host_reads_right(it.root));
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    for (size_t i = it.count; i < made; i++)
        OK(synced_mem_release(objects[i]));
    unite();
    CLOSE_EACH(it.stream, it.other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("users of roots in parts");
    TCase *const again = add_case(made, "accesses");
    add_gpu_loop_test(again, lists_what_has_changed, 0, 6);
    add_gpu_loop_test(again, both_modes, 0, 2);
    add_gpu_loop_test(again, streams_by_turns, 0, 4);
    add_gpu_loop_test(again, views_in_several_parts, 0, 4);
    add_gpu_loop_test(again, zeros_on_the_stream, 0, 4);
    add_gpu_loop_test(again, zeros_of_parts_with_different_pasts, 0, 8);
    TCase *const failures = add_case(made, "failures");
    add_gpu_loop_test(failures, no_memory_for_readers_of_zeros, 0, 2);
    add_gpu_loop_test(failures, parts_that_change_meanwhile, 0, 2);
    add_gpu_loop_test(failures, parts_that_are_joined_meanwhile, 0, 3);
    TCase *const random = add_case(made, "at random");
    add_gpu_loop_test(random, at_random, 0, 12);
    return made;
}
