/* Checks resizes of an object that is in parts and has no views: what was in flight on the parts is in flight on the
 * whole. */
#include "fixture.h"

#include "copy/inflight.h"
#include "object/object.h"

enum { SIZE = 1000, CUT = 300, PART = 100 };

typedef void *access(synced_mem *mem, synced_mem_stream stream);

static void *read_on(synced_mem *mem, synced_mem_stream stream)
{
    return (void *)(uintptr_t)synced_mem_gpu_data_on(mem, stream);
}

static access *const accesses[] = {read_on, synced_mem_mutable_gpu_data_on, synced_mem_overwrite_gpu_data_on};
enum { ACCESSES = sizeof accesses / sizeof *accesses };

/* Cuts the object into parts: by a copy to a range of it, from one, or by a view. */
static void divide(synced_mem *mem, int how, synced_mem_stream stream)
{
    synced_mem *other = NULL;
    if (how == 2) {
        OK(synced_mem_view(&other, mem, CUT, PART, NULL));
        OK(synced_mem_clear(other));
    } else {
        other = make_on(SIZE, 0);
        OK(how == 0 ? synced_mem_copy(mem, CUT, other, 0, PART, stream)
                    : synced_mem_copy(other, 0, mem, CUT, PART, stream));
    }
    OK(synced_mem_release(other));
}

/* A stream has at most one use in each list. */
static void check_uses(const synced_mem *mem)
{
    const struct sm_copy *const copy = sm_copy_of(sm_own_record(mem), SM_GPU);
    for (const struct sm_use *use = copy ? copy->reads : NULL; use; use = use->next)
        for (const struct sm_use *other = use->next; other; other = other->next)
            ck_assert(!sm_use_is_by_stream(use) || use->by != other->by);
}

START_TEST(after_uses_of_the_parts)
{
    static const size_t sizes[] = {CUT / 2, CUT, CUT + PART, SIZE - 1, SIZE, 2 * SIZE};
    access *const first = accesses[_i % ACCESSES], *const second = accesses[_i / ACCESSES % ACCESSES];
    const int how = _i / (ACCESSES * ACCESSES) % 3;
    synced_mem_stream streams[] = {open_stream(NON_BLOCKING), open_stream(NON_BLOCKING)};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const size_t size = sizes[i / 2];
        synced_mem *const mem = make_on(SIZE, 0);
        gpu_fill(given(synced_mem_overwrite_gpu_data_on(mem, streams[0])), SIZE, 1, streams[0]);
        given(first(mem, streams[0]));
        void *const data = given(second(mem, streams[i % 2]));
        if (second != read_on)
            gpu_fill(data, SIZE, 1, streams[i % 2]);
        divide(mem, how, streams[1]);
        OK(synced_mem_resize(mem, size));
        check_uses(mem);
        given(read_on(mem, streams[1]));
        given(synced_mem_mutable_gpu_data_on(mem, streams[0]));
        const size_t same = size < CUT ? size : CUT;
        ck_assert(device_is(given(read_on(mem, streams[1])), same, 1));
        const unsigned char *const host = given(synced_mem_cpu_data(mem));
        ck_assert(host_is(host, same, 1));
        for (size_t j = CUT; j < CUT + PART && j < size && how != 1; j++)
            ck_assert_uint_eq(host[j], 0);
        for (size_t j = SIZE; j < size; j++)
            ck_assert_uint_eq(host[j], 0);
        OK(synced_mem_release(mem));
    }
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    CLOSE_EACH(streams[0], streams[1]);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("resizes of objects in parts");
    TCase *const tests = add_case(made, "resizes");
    add_gpu_loop_test(tests, after_uses_of_the_parts, 0, 3 * ACCESSES * ACCESSES);
    return made;
}
