/* Checks stores: writes that put objects into the file, unless something changes the contents before they have ended.
 */
#include "failing_calls.h"
#include "failing_calloc.h"
#include "files_kit.h"
#include "hold_kit.h"

#include "copy/inflight.h"
#include "system/file_at.h"

#include <errno.h>
#include <stdatomic.h>

enum { SIZE = 70001, FILES_SIZE = 600000, PLACE = 300001 };

static atomic_bool is_slow;
static atomic_int fail_write_in; /* the number of further writes until one fails; 0: none fails */

/* The write waits for the next call that settles a copy, and that call for the write. */
static atomic_bool waits_for_settle, ends_at_settle;
static atomic_bool has_written;

int __real_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset);
int __wrap_sm_file_write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    if (atomic_load(&is_slow))
        (void)usleep(20000);
    while (atomic_load(&waits_for_settle))
        (void)usleep(1000);
    if (atomic_load(&fail_write_in) > 0 && atomic_fetch_sub(&fail_write_in, 1) == 1)
        return ENOSPC;
    const int error = __real_sm_file_write_at(file, data, bytes, offset);
    atomic_store(&has_written, true);
    return error;
}

synced_mem_status __real_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);
synced_mem_status __wrap_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by);
synced_mem_status __wrap_sm_inflight_settle(struct sm_copy *copy, bool conflicting, const struct sm_stream *by)
{
    if (atomic_exchange(&ends_at_settle, false)) {
        atomic_store(&waits_for_settle, false);
        while (!atomic_load(&has_written))
            (void)usleep(1000);
        (void)usleep(100000); /* the job ends */
    }
    return __real_sm_inflight_settle(copy, conflicting, by);
}

/* Another use of the object while a copy to it goes on, with nothing locked. */
static synced_mem *used_meanwhile;

synced_mem_status __real_sm_follow_staged(struct sm_fence *arrival, struct sm_stream *stream);
synced_mem_status __wrap_sm_follow_staged(struct sm_fence *arrival, struct sm_stream *stream);
synced_mem_status __wrap_sm_follow_staged(struct sm_fence *arrival, struct sm_stream *stream)
{
    synced_mem *const mem = used_meanwhile;
    used_meanwhile = NULL;
    if (mem)
        (void)given(synced_mem_gpu_data_on(mem, NULL));
    return __real_sm_follow_staged(arrival, stream);
}

static synced_mem_file *it_file(void)
{
    return make_file(FILES_SIZE, 1);
}

static synced_mem_status store(synced_mem *mem, synced_mem_file *file, uint64_t offset)
{
    return synced_mem_async_store_in_file(mem, file, offset, SYNCED_MEM_NO_STREAM);
}

/* Notes that the file has the pattern at the place. */
static void expect_stored(size_t size, unsigned pattern)
{
    pattern_write(in_file + PLACE, size, pattern);
}

/* Returns an object with the pattern on the host, on the device or on both. */
static synced_mem *make_at(synced_mem_head_kind head, unsigned pattern)
{
    synced_mem *const mem = head == SYNCED_MEM_AT_GPU ? make_at_gpu(SIZE, pattern) : make_at_cpu(SIZE, pattern);
    if (head == SYNCED_MEM_SYNCED)
        (void)given(synced_mem_gpu_data(mem));
    ck_assert_int_eq(synced_mem_head(mem), head);
    return mem;
}

/* ---- Success ---- */

/* The head is as before, the object is in the file, and a release moves nothing. */
START_TEST(a_store)
{
    const synced_mem_head_kind head = (synced_mem_head_kind)(1 + _i);
    synced_mem_file *const file = it_file();
    synced_mem *const mem = make_at(head, 2);
    OK(store(mem, file, PLACE));
    expect_stored(SIZE, 2);
    OK(synced_mem_wait(mem)); /* includes it */
    ck_assert_int_eq(synced_mem_in_file(mem), 1);
    ck_assert_int_eq(synced_mem_head(mem), head);
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(FILES_SIZE));
    const uint64_t moved = stats_now().d2h_bytes + stats_now().h2d_bytes;
    OK(synced_mem_release_data(mem));
    STATE(mem, UNINITIALIZED, 1);
    ck_assert_uint_eq(stats_now().d2h_bytes + stats_now().h2d_bytes, moved);
    ck_assert(host_has(mem, PLACE));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* A release of what alone has the contents waits for the store. */
START_TEST(a_release_waits)
{
    synced_mem_file *const file = it_file();
    synced_mem *const mem = make_at(_i % 2 ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU, 2);
    const uint64_t moved = stats_now().h2d_bytes;
    atomic_store(&is_slow, true);
    OK(store(mem, file, PLACE));
    expect_stored(SIZE, 2);
    if (_i < 2)
        OK(synced_mem_release_data(mem));
    else
        OK(_i == 3 ? synced_mem_release_gpu_data(mem) : synced_mem_release_cpu_data(mem));
    STATE(mem, UNINITIALIZED, 1);
    ck_assert_uint_eq(stats_now().h2d_bytes, moved);
    OK(synced_mem_file_wait(file));
    ck_assert(host_has(mem, PLACE));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

START_TEST(the_object_may_go)
{
    synced_mem_file *const file = it_file();
    synced_mem *const mem = make_at(_i ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU, 2), *const other = make(SIZE);
    atomic_store(&is_slow, true);
    OK(store(mem, file, PLACE));
    OK(synced_mem_release(mem));
    expect_stored(SIZE, 2);
    OK(synced_mem_use_file(other, file, PLACE));
    ck_assert(host_has(other, PLACE));
    OK(synced_mem_release(other));
    OK(synced_mem_file_release(file)); /* nobody waits for it */
    close_behind();
}
END_TEST

/* Contents that are in their place are not written again. */
START_TEST(once)
{
    synced_mem_file *const file = it_file();
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    for (int i = 0; i < 3; i++) {
        OK(store(mem, file, PLACE));
        if (i > 0)
            OK(synced_mem_file_wait(file));
    }
    ck_assert_uint_eq(stats_now().file_write_bytes, SIZE);
    host_fill(given(synced_mem_mutable_cpu_data(mem)), SIZE, 3);
    OK(store(mem, file, PLACE)); /* a changed object goes to its place again */
    OK(synced_mem_file_wait(file));
    expect_stored(SIZE, 3);
    ck_assert(file_is_right(FILES_SIZE));
    ck_assert_uint_eq(stats_now().file_write_bytes, 2 * SIZE);
    OK(store(mem, file, 5)); /* and to another one */
    OK(synced_mem_file_wait(file));
    STATE(mem, AT_CPU, 1);
    synced_mem *const other = make_at_cpu(SIZE, 4);
    OK(synced_mem_async_write_file(other, file, PLACE, SYNCED_MEM_NO_STREAM)); /* its first place is free */
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(other, file, 6, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    OK(synced_mem_release_data(mem));
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 3));
    RELEASE_EACH(mem, other);
    end_file(file);
}
END_TEST

/* An object goes from one file to another, perhaps without having been read. */
START_TEST(from_file_to_file)
{
    synced_mem_file *const first = it_file(), *second = NULL;
    FILE *const one = behind;
    synced_mem *const mem = make_in_file(SIZE, first, 11);
    second = it_file();
    if (_i == 1)
        ck_assert(host_has(mem, 11));
    atomic_store(&is_slow, true);
    OK(store(mem, second, PLACE));
    ck_assert_int_eq(synced_mem_in_file(mem), 1);
    OK(synced_mem_file_wait(second));
    ck_assert_int_eq(synced_mem_in_file(mem), 1);
    memcpy(in_file + PLACE, in_file + 11, SIZE);
    OK(synced_mem_release_data(mem));
    synced_mem *const other = make_at_cpu(SIZE, 5);
    OK(synced_mem_async_write_file(other, first, 11, SYNCED_MEM_NO_STREAM)); /* its first place is free */
    OK(synced_mem_file_wait(first));
    ck_assert(host_has(mem, PLACE));
    RELEASE_EACH(mem, other);
    end_file(second);
    OK(synced_mem_file_release(first));
    (void)fclose(one);
}
END_TEST

/* No call on the object notices the end of the store before the write: by the object itself, or by another one while
 * the object is whole or in parts. */
START_TEST(over_the_place_it_has_left)
{
    synced_mem_file *const file = it_file();
    synced_mem *const mem = make_in_file(SIZE, file, 11), *const other = make_at_cpu(SIZE, 5);
    synced_mem *const writer = _i == 0 ? mem : other;
    synced_mem *view = NULL;
    if (_i == 2)
        OK(synced_mem_view(&view, mem, 100, 1000, NULL));
    atomic_store(&waits_for_settle, true); /* the store does not end */
    OK(store(mem, file, PLACE));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(writer, file, 12, SYNCED_MEM_NO_STREAM));
    atomic_store(&waits_for_settle, false);
    OK(synced_mem_file_wait(file));
    memcpy(in_file + PLACE, in_file + 11, SIZE);
    OK(synced_mem_async_write_file(writer, file, 12, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    if (writer == mem)
        memcpy(in_file + 12, in_file + PLACE, SIZE);
    else
        pattern_write(in_file + 12, SIZE, 5);
    ck_assert(file_is_right(FILES_SIZE));
    ck_assert_int_eq(synced_mem_in_file(mem), 1);
    OK(synced_mem_release_data(mem));
    ck_assert(host_has(mem, PLACE));
    if (view)
        OK(synced_mem_release(view));
    RELEASE_EACH(mem, other);
    end_file(file);
}
END_TEST

START_TEST(no_bytes)
{
    synced_mem_file *const file = it_file();
    synced_mem *mems[] = {make(0), make_at_cpu(SIZE, 2)}, *const root = make(10), *view = NULL;
    const uint64_t offsets[] = {0, PLACE};
    OK(synced_mem_async_store_in_file_n(mems, file, offsets, 2, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_view(&view, root, 10, 0, NULL));
    OK(store(view, file, 3));
    OK(synced_mem_file_wait(file));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(synced_mem_in_file(mems[i]), 1);
    ck_assert_int_eq(synced_mem_in_file(view), 1);
    OK(synced_mem_async_store_in_file_n(mems, file, offsets, 0, SYNCED_MEM_NO_STREAM));
    RELEASE_EACH(mems[0], mems[1], view, root);
    end_file(file);
}
END_TEST

/* ---- Changes ---- */

static synced_mem *from;
static synced_mem_file *of_changes;
static unsigned char handed_in[SIZE];

static synced_mem_status write_on_host(synced_mem *mem)
{
    return status_of(synced_mem_mutable_cpu_data(mem));
}

static synced_mem_status overwrite_on_host(synced_mem *mem)
{
    return status_of(synced_mem_overwrite_cpu_data(mem));
}

static synced_mem_status write_on_device(synced_mem *mem)
{
    return status_of(synced_mem_mutable_gpu_data(mem));
}

static synced_mem_status overwrite_on_stream(synced_mem *mem)
{
    return status_of(synced_mem_overwrite_gpu_data_on(mem, NULL));
}

static synced_mem_status copy_on_host(synced_mem *mem)
{
    return synced_mem_cpu_copy(mem, from);
}

static synced_mem_status copy_on_device(synced_mem *mem)
{
    return synced_mem_async_gpu_copy(mem, from, NULL);
}

static synced_mem_status grow(synced_mem *mem)
{
    return synced_mem_resize(mem, SIZE + 1);
}

static synced_mem_status discard(synced_mem *mem)
{
    return synced_mem_resize_discard(mem, SIZE - 1);
}

static synced_mem_status hand_in(synced_mem *mem)
{
    return synced_mem_set_cpu_data(mem, handed_in);
}

static synced_mem_status use_another_place(synced_mem *mem)
{
    return synced_mem_use_file(mem, of_changes, 1);
}

static const struct change {
    synced_mem_status (*act)(synced_mem *mem);
    bool in_file; /* afterwards */
    bool of_gpu;
} changes[] = {
    {write_on_host, false, false},
    {overwrite_on_host, false, false},
    {copy_on_host, false, false},
    {synced_mem_clear, false, false},
    {grow, false, false},
    {discard, false, false},
    {hand_in, false, false},
    {use_another_place, true, false},
    {write_on_device, false, true},
    {copy_on_device, false, true},
    {overwrite_on_stream, false, true},
};
enum { CHANGES = sizeof changes / sizeof *changes };

/* A change before the store has ended, or after that: the object is not where the store has put it. */
START_TEST(each_change)
{
    const struct change *const change = &changes[_i % CHANGES];
    const synced_mem_head_kind head = (synced_mem_head_kind)(1 + _i / CHANGES % 3);
    const bool after = _i / CHANGES / 3;
    if (!gpu_expected() && (change->of_gpu || (head & SYNCED_MEM_AT_GPU)))
        return;
    synced_mem_file *const file = of_changes = it_file();
    synced_mem *const mem = make_at(head, 2);
    from = make_at_cpu(SIZE, 5);
    atomic_store(&is_slow, true);
    OK(store(mem, file, PLACE));
    if (after)
        OK(synced_mem_file_wait(file));
    OK(change->act(mem));
    OK(synced_mem_file_wait(file));
    expect_stored(SIZE, 2);
    ck_assert(file_is_right(FILES_SIZE));
    ck_assert_int_eq(synced_mem_in_file(mem), change->in_file);
    if (change->in_file)
        ck_assert(host_has(mem, 1));
    synced_mem *const other = make_at_cpu(SIZE, 6);
    OK(synced_mem_async_write_file(other, file, PLACE, SYNCED_MEM_NO_STREAM)); /* nobody is there */
    OK(synced_mem_file_wait(file));
    RELEASE_EACH(mem, other, from);
    end_file(file);
}
END_TEST

/* A pointer to write that the hot path has given before is given no more. */
START_TEST(no_write_goes_unnoticed)
{
    synced_mem_file *const file = it_file();
    synced_mem *const mem = make_at_cpu(SIZE, 2);
    for (int i = 0; i < 3; i++)
        host_fill(given(synced_mem_mutable_cpu_data(mem)), SIZE, 2);
    OK(store(mem, file, PLACE));
    OK(synced_mem_file_wait(file)); /* no call has looked at the object since */
    host_fill(given(synced_mem_mutable_cpu_data(mem)), SIZE, 3);
    STATE(mem, AT_CPU, 0);
    OK(synced_mem_release_gpu_data(mem));
    ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 3));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* The write ends after a copy to the object has begun, and before the copy looks for work to wait for. Another call
 * uses the object while the copy goes on. The object is not where its old contents were stored. */
START_TEST(ends_under_a_copy)
{
    enum { MANY = 300000 };
    static unsigned char pageable[MANY];
    synced_mem_file *const file = make_file(MANY, 1);
    synced_mem *const mem = make_at_cpu(MANY, 2), *const source = make(MANY);
    OK(synced_mem_async_gpu_push(mem, NULL));
    OK(synced_mem_release_cpu_data(mem));
    set_staging(2, 65536);
    pattern_write(pageable, MANY, 5);
    OK(synced_mem_set_cpu_data(source, pageable));
    atomic_store(&has_written, false);
    OK(synced_mem_wait(mem));
    atomic_store(&waits_for_settle, true);
    OK(store(mem, file, 0));
    atomic_store(&ends_at_settle, true);
    used_meanwhile = mem;
    OK(synced_mem_async_gpu_copy(mem, source, NULL));
    ck_assert_ptr_null(used_meanwhile);
    ck_assert(device_is(given(synced_mem_gpu_data(mem)), MANY, 5));
    OK(synced_mem_file_wait(file));
    ck_assert_int_eq(synced_mem_in_file(mem), 0);
    RELEASE_EACH(mem, source);
    end_file(file);
}
END_TEST

/* Reads, pushes and pulls change nothing. */
START_TEST(reads)
{
    synced_mem_file *const file = it_file();
    synced_mem *const mem = make_at(_i ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU, 2);
    atomic_store(&is_slow, true);
    OK(store(mem, file, PLACE));
    OK(_i ? synced_mem_async_cpu_pull(mem, NULL) : synced_mem_async_gpu_push(mem, NULL));
    (void)given(synced_mem_cpu_data(mem));
    (void)given(synced_mem_gpu_data(mem));
    OK(synced_mem_file_wait(file));
    STATE(mem, SYNCED, 1);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* Of an object in parts the changed part alone leaves. The others stay, and are one part again without views. */
START_TEST(parts)
{
    synced_mem_file *const file = it_file();
    synced_mem *const root = make_at(_i & 1 ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU, 2), *view = NULL, *rest = NULL;
    OK(synced_mem_view(&view, root, 1000, 5000, NULL));
    if (_i & 2) /* parts that differ */
        (void)given(_i & 1 ? synced_mem_cpu_data(view) : synced_mem_gpu_data(view));
    atomic_store(&is_slow, true);
    OK(store(root, file, PLACE));
    expect_stored(SIZE, 2);
    OK(synced_mem_view(&rest, root, 6000, 900, NULL)); /* cuts a part of which the file is promised */
    const unsigned char *const changed = given(synced_mem_mutable_cpu_data(view));
    ck_assert(bytes_are_of_file(changed, 5000, PLACE + 1000));
    OK(synced_mem_file_wait(file));
    ck_assert(file_is_right(FILES_SIZE));
    ck_assert_int_eq(synced_mem_in_file(root), 0);
    ck_assert_int_eq(synced_mem_in_file(view), 0);
    ck_assert_int_eq(synced_mem_in_file(rest), 1);
    const uint64_t before = stats_now().file_write_bytes;
    OK(store(root, file, PLACE)); /* only what has changed */
    OK(synced_mem_file_wait(file));
    ck_assert_uint_eq(stats_now().file_write_bytes - before, 5000);
    ck_assert_int_eq(synced_mem_in_file(root), 1);
    RELEASE_EACH(view, rest);
    OK(synced_mem_release_data(root));
    ck_assert(host_has(root, PLACE));
    OK(synced_mem_release(root));
    end_file(file);
}
END_TEST

/* ---- Refusals ---- */

static void check_refused(synced_mem *mem, synced_mem_file *file)
{
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, store(mem, file, PLACE));
    ck_assert_int_eq(synced_mem_in_file(mem), 0);
    ck_assert(file_is_right(FILES_SIZE));
    OK(synced_mem_release(mem));
}

START_TEST(refusals)
{
    synced_mem_file *const file = it_file();
    synced_mem *mem = make(SIZE);
    check_refused(mem, file); /* no contents */
    mem = make(SIZE);
    OK(synced_mem_set_cpu_data(mem, handed_in));
    check_refused(mem, file);
    synced_mem_options options = default_options();
    options.placement = SYNCED_MEM_PLACEMENT_AUTOMATIC;
    OK(synced_mem_create(&mem, SIZE, &options));
    host_fill(given(synced_mem_overwrite_cpu_data(mem)), SIZE, 2);
    check_refused(mem, file);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, store(NULL, file, 0));
    mem = make_at_cpu(SIZE, 2);
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, store(mem, NULL, 0));
    FAILS(SYNCED_MEM_ERR_INVALID_ARGUMENT, store(mem, file, UINT64_MAX));
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

/* Nobody writes where an object is about to be, or is. */
START_TEST(the_place_is_taken)
{
    synced_mem_file *const file = it_file();
    synced_mem *const mem = make_at_cpu(SIZE, 2), *const other = make_at_cpu(SIZE, 3);
    atomic_store(&is_slow, true);
    OK(store(mem, file, PLACE));
    for (int i = 0; i < 2; i++) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, store(other, file, PLACE + SIZE - 1));
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_write_file(other, file, PLACE - 1, SYNCED_MEM_NO_STREAM));
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, store(mem, file, PLACE + 1)); /* over itself */
        OK(synced_mem_file_wait(file));
    }
    expect_stored(SIZE, 2);
    ck_assert(file_is_right(FILES_SIZE));
    OK(synced_mem_release(mem));
    OK(store(other, file, PLACE - 1));
    OK(synced_mem_file_wait(file));
    OK(synced_mem_release(other));
    end_file(file);
}
END_TEST

/* ---- Failures ---- */

/* After a failed write the object is where it was before, and its place is free. */
START_TEST(a_failed_write)
{
    const bool was_in_file = _i / 2;
    synced_mem_file *const file = it_file();
    synced_mem *const mem =
        was_in_file ? make_in_file(SIZE, file, 11) : make_at(_i ? SYNCED_MEM_AT_GPU : SYNCED_MEM_AT_CPU, 2);
    synced_mem *const other = make_at_cpu(SIZE, 3);
    atomic_store(&fail_write_in, 1);
    OK(store(mem, file, PLACE));
    FAILS(SYNCED_MEM_ERR_FILE, synced_mem_file_wait(file));
    SAYS("at offset 300001");
    if (_i % 2)
        OK(store(other, file, PLACE)); /* before any call has looked at the first one */
    ck_assert_int_eq(synced_mem_in_file(mem), was_in_file);
    OK(synced_mem_release_gpu_data(mem));
    if (was_in_file) {
        OK(synced_mem_release_cpu_data(mem));
        ck_assert(host_has(mem, 11));
    } else {
        ck_assert(host_is(given(synced_mem_cpu_data(mem)), SIZE, 2));
    }
    OK(synced_mem_release(other));
    OK(store(mem, file, PLACE));
    OK(synced_mem_file_wait(file));
    ck_assert_int_eq(synced_mem_in_file(mem), 1);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

static synced_mem_status play_store(synced_mem *mem, synced_mem *view, synced_mem_file *file, struct failing *each)
{
    synced_mem *mems[] = {mem, view};
    const uint64_t offsets[] = {PLACE, PLACE + SIZE};
    begin_failing(each);
    synced_mem_status status = synced_mem_async_store_in_file_n(mems, file, offsets, 2, NULL);
    const synced_mem_status waited = synced_mem_file_wait(file);
    (void)end_failing(each);
    return status != SYNCED_MEM_OK ? status : waited;
}

/* A store that fails has put nothing into the file, and the same store then succeeds. */
START_TEST(each_failure)
{
    struct failing each = _i / 3 ? each_calloc() : each_call("*", cudaErrorUnknown);
    int failed = 0;
    while (next_failure(&each)) {
        synced_mem_file *const file = it_file();
        synced_mem *const mem = _i % 3 == 0   ? make_at_cpu(SIZE, 2)
                                : _i % 3 == 1 ? make_at_gpu(SIZE, 2)
                                              : make_in_file(SIZE, file, 11);
        synced_mem *const other = make_at_cpu(SIZE, 3);
        const synced_mem_status status = play_store(mem, other, file, &each);
        failed += status != SYNCED_MEM_OK;
        if (status != SYNCED_MEM_OK) {
            ck_assert_int_eq(status, _i / 3 ? SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY : SYNCED_MEM_ERR_CUDA);
            ck_assert_int_eq(synced_mem_in_file(mem), _i % 3 == 2);
            ck_assert_int_eq(synced_mem_in_file(other), 0);
            OK(store(mem, file, PLACE));
            OK(store(other, file, PLACE + SIZE));
            OK(synced_mem_file_wait(file));
        }
        ck_assert(synced_mem_in_file(mem) && synced_mem_in_file(other));
        if (_i % 3 == 2)
            memcpy(in_file + PLACE, in_file + 11, SIZE);
        else
            expect_stored(SIZE, 2);
        OK(synced_mem_release_data(mem));
        ck_assert(host_has(mem, PLACE));
        RELEASE_EACH(mem, other);
        end_file(file);
        OK(synced_mem_shutdown());
    }
    ck_assert(failed > 0 || _i % 2 == 0);
}
END_TEST

/* ---- Evictions ---- */

/* An evictable object is clean: to evict it moves nothing. Without a store the host copy could not even go. */
START_TEST(evictions_move_nothing)
{
    const bool of_host = _i % 2, fails = _i / 2;
    synced_mem_file *const file = it_file();
    synced_mem *mems[2];
    for (unsigned i = 0; i < 2; i++) {
        mems[i] = make_evictable("stored", SIZE);
        host_fill(given(synced_mem_overwrite_cpu_data(mems[i])), SIZE, 2 + i);
    }
    const synced_mem_side side = of_host ? SYNCED_MEM_SIDE_CPU : SYNCED_MEM_SIDE_GPU;
    if (!of_host) { /* the device alone has the contents */
        OK(synced_mem_hold_n(mems, 2, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE, NULL));
        for (unsigned i = 0; i < 2; i++)
            gpu_fill(given(synced_mem_mutable_gpu_data(mems[i])), SIZE, 2 + i, NULL);
        OK(synced_mem_unhold_n(mems, 1, SYNCED_MEM_SIDE_GPU)); /* the other one stays */
    }
    atomic_store(&fail_write_in, fails);
    atomic_store(&is_slow, true);
    OK(store(mems[0], file, PLACE));
    expect_stored(SIZE, 2);
    if (!of_host)
        ck_assert_int_eq(synced_mem_file_wait(file), fails ? SYNCED_MEM_ERR_FILE : SYNCED_MEM_OK);
    const uint64_t moved = stats_now().d2h_bytes;
    if (of_host)
        OK(synced_mem_cpu_set_budget(SIZE + 9999, NULL, NULL)); /* waits for the store */
    else
        set_budget(SIZE + 9999);
    const bool stays = of_host && fails;
    ck_assert_int_eq(synced_mem_in_file(mems[0]), !fails);
    if (of_host)
        ck_assert_int_eq(synced_mem_head(mems[0]) == SYNCED_MEM_AT_CPU, stays);
    else
        ck_assert_uint_eq(stats_now().d2h_bytes - moved, fails ? SIZE : 0);
    OK(synced_mem_cpu_set_budget(SYNCED_MEM_NO_BUDGET, NULL, NULL));
    set_budget(SYNCED_MEM_NO_BUDGET);
    OK(synced_mem_hold_n(mems, 1, side, SYNCED_MEM_READ, NULL));
    if (of_host)
        ck_assert(host_is(given(synced_mem_cpu_data(mems[0])), SIZE, 2));
    else
        ck_assert(device_is(given(synced_mem_gpu_data(mems[0])), SIZE, 2));
    OK(synced_mem_unhold_n(mems, of_host ? 1 : 2, side));
    release_all(mems, 2);
    if (fails && of_host)
        FAILS(SYNCED_MEM_ERR_FILE, synced_mem_file_wait(file));
    end_file(file);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_stored");
    TCase *const tests = add_case(made, "stores");
    const bool gpu = gpu_expected();
    tcase_add_loop_test(tests, a_store, 0, gpu ? 3 : 1);
    tcase_add_loop_test(tests, a_release_waits, 0, gpu ? 4 : 1);
    tcase_add_loop_test(tests, the_object_may_go, 0, gpu ? 2 : 1);
    tcase_add_loop_test(tests, from_file_to_file, 0, 2);
    tcase_add_loop_test(tests, over_the_place_it_has_left, 0, 3);
    add_tests(tests, once, no_bytes);
    TCase *const later = add_case(made, "changes");
    tcase_add_loop_test(later, each_change, 0, CHANGES * 6);
    add_gpu_loop_test(later, ends_under_a_copy, 0, 1);
    add_gpu_loop_test(later, reads, 0, 2);
    add_gpu_loop_test(later, parts, 0, 4);
    add_tests(later, no_write_goes_unnoticed);
    TCase *const refused = add_case(made, "refusals");
    add_tests(refused, refusals, the_place_is_taken);
    TCase *const failures = add_case(made, "failures");
    tcase_add_loop_test(failures, a_failed_write, 0, 4);
    tcase_add_loop_test(failures, each_failure, 0, 6);
    add_gpu_loop_test(add_case(made, "evictions"), evictions_move_nothing, 0, 4);
    return made;
}
