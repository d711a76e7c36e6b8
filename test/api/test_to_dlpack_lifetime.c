/* Checks that the memory of an object that is given out as a DLPack tensor stays until the tensor's deleter was
 * called. */
#include "dlpack_kit.h"

#include <pthread.h>

/* ---- Memory that stays ---- */

/* Checks that each call that would give up memory of the exported side fails, and changes nothing. */
static void check_stays(synced_mem *mem, bool on_host, bool on_device, void *other_host, void *other_device)
{
    const struct facts before = facts_of(mem);
    if (on_host) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_set_cpu_data(mem, other_host));
        SAYS("the host copy is exported as a tensor");
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_cpu_data(mem));
    }
    if (on_device) {
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_set_gpu_data(mem, other_device));
        SAYS("the device copy is exported as a tensor");
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_gpu_data(mem));
    }
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, USE(mem, .cpu_data = other_host, .gpu_data = other_device));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(mem, SIZE - 1));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize(mem, SIZE + 1));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_resize_discard(mem, 1));
    check_unchanged(mem, &before);
}

START_TEST(memory_of_the_host_stays)
{
    char *const other = malloc(SIZE);
    ck_assert_ptr_nonnull(other);
    memset(other, 7, SIZE);
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    struct DLManagedTensorVersioned *const first = export_of(mem, OPTIONS(HOST(READ)));
    struct DLManagedTensorVersioned *const second = export_of(mem, OPTIONS(HOST(READ)));
    check_stays(mem, true, false, other, NULL);
    if (gpu_expected()) {
        ck_assert_ptr_nonnull(synced_mem_gpu_data(mem));
        OK(synced_mem_release_gpu_data(mem)); /* the other side's memory is not exported */
    }
    end(first);
    check_stays(mem, true, false, other, NULL);
    ck_assert(host_is(second->tensor.data, SIZE, 1));
    end(second);
    OK(synced_mem_resize(mem, SIZE - 1));
    OK(synced_mem_resize(mem, SIZE));
    OK(synced_mem_set_cpu_data(mem, other));
    OK(synced_mem_release(mem));
    free(other);
}
END_TEST

START_TEST(memory_of_the_device_stays)
{
    void *const other = gpu_alloc(0, SIZE);
    char host[SIZE];
    synced_mem *const mem = make_at_gpu(SIZE, 1);
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(DEVICE(MUTABLE, NULL)));
    check_stays(mem, false, true, host, other);
    ck_assert_ptr_nonnull(synced_mem_cpu_data(mem));
    OK(synced_mem_release_cpu_data(mem));
    end(out);
    OK(synced_mem_release_gpu_data(mem));
    OK(synced_mem_release(mem));
    gpu_free(other);
}
END_TEST

/* Its side gives up no memory, as both sides have one. */
START_TEST(unified_memory_stays)
{
    synced_mem *const mem = make_placed_on(SIZE, SYNCED_MEM_PLACEMENT_MAPPED, SYNCED_MEM_DEVICE_CURRENT);
    struct DLManagedTensorVersioned *const host = export_of(mem, OPTIONS(HOST(OVERWRITE)));
    struct DLManagedTensorVersioned *const device = export_of(mem, OPTIONS(DEVICE(READ, NULL)));
    ck_assert_ptr_eq(host->tensor.data, device->tensor.data);
    ck_assert_int_eq(host->tensor.device_type, TENSOR_CPU);
    ck_assert_int_eq(device->tensor.device_type, TENSOR_CUDA);
    OK(synced_mem_release_cpu_data(mem));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_data(mem));
    end(host);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_data(mem));
    end(device);
    OK(synced_mem_release_data(mem));
    OK(synced_mem_release(mem));
}
END_TEST

static void check_printed(const synced_mem *mem, const char *text, bool expected)
{
    char printed[1000] = "";
    FILE *const file = fmemopen(printed, sizeof printed, "w");
    ck_assert_ptr_nonnull(file);
    OK(synced_mem_print(mem, file));
    (void)fclose(file);
    ck_assert_msg((strstr(printed, text) != NULL) == expected, "'%s' in '%s'", text, printed);
}

/* Read-only memory that is exported can't be replaced. */
START_TEST(read_only_memory_stays)
{
    char bytes[SIZE];
    pattern_write(bytes, SIZE, 1);
    synced_mem *const mem = make(SIZE);
    OK(USE(mem, .cpu_data = bytes, .flags = SYNCED_MEM_MEMORY_READ_ONLY));
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(HOST(READ)));
    ck_assert_ptr_eq(out->tensor.data, bytes);
    check_printed(mem, "transfers to it, read-only, exported\n", true);
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_mutable_cpu_data(mem));
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_overwrite_cpu_data(mem));
    ck_assert_ptr_eq(synced_mem_cpu_data(mem), bytes);
    end(out);
    check_printed(mem, "transfers to it, read-only\n", true);
    struct DLManagedTensorVersioned *const writable = export_of(mem, OPTIONS(HOST(MUTABLE)));
    ck_assert_ptr_ne(writable->tensor.data, bytes);
    ck_assert(host_is(writable->tensor.data, SIZE, 1));
    check_printed(mem, "transfers to it, exported\n", true);
    end(writable);
    check_printed(mem, ", exported", false);
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Deleters ---- */

START_TEST(the_object_outlives_its_release)
{
    synced_mem *const mem = make_named("tensor's", SIZE);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(HOST(READ)));
    OK(synced_mem_release(mem));
    ck_assert_uint_eq(stats_now().objects, 1);
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_shutdown());
    SAYS("'tensor's'");
    ck_assert(host_is(out->tensor.data, SIZE, 1));
    end(out);
    ck_assert_uint_eq(stats_now().objects, 0);
    OK(synced_mem_shutdown());
}
END_TEST

static void *end_in_thread(void *managed)
{
    end(managed);
    return NULL;
}

START_TEST(another_thread_calls_the_deleter)
{
    pthread_t thread;
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(HOST(READ)));
    if (_i)
        OK(synced_mem_release(mem));
    ck_assert_int_eq(pthread_create(&thread, NULL, end_in_thread, out), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    if (!_i) {
        OK(synced_mem_release_data(mem));
        OK(synced_mem_release(mem));
    }
    ck_assert_uint_eq(stats_now().objects, 0);
}
END_TEST

enum { THREADS = 4, ROUNDS = 300 };

static void *export_and_end(void *mem)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct DLManagedTensorVersioned *out;
        SOUND(synced_mem_to_dlpack(&out, mem, OPTIONS(HOST(READ))) == SYNCED_MEM_OK);
        SOUND(host_is(out->tensor.data, SIZE, 1));
        SOUND(synced_mem_release_data(mem) == SYNCED_MEM_ERR_INVALID_STATE);
        end(out);
    }
    return NULL;
}

START_TEST(threads_export_one_object)
{
    pthread_t threads[THREADS];
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(HOST(READ)));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, export_and_end, mem), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(unsound, 0);
    end(out);
    OK(synced_mem_release_data(mem));
    OK(synced_mem_release(mem));
}
END_TEST

static void *replace_often(void *mem)
{
    static _Alignas(64) char bytes[2][SIZE];
    for (int i = 0; i < ROUNDS; i++) {
        const synced_mem_status status = synced_mem_set_cpu_data(mem, bytes[i % 2]);
        SOUND(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_INVALID_STATE);
    }
    return NULL;
}

/* Another thread replaces the memory between the access and the export: the tensor has the memory of the object. */
START_TEST(a_thread_replaces_the_memory)
{
    pthread_t thread;
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, replace_often, mem), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(HOST(READ)));
        ck_assert_ptr_eq(out->tensor.data, synced_mem_cpu_data(mem));
        end(out);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(unsound, 0);
    OK(synced_mem_release(mem));
}
END_TEST

/* The child's use of the parent's tensor. */
static void end_in_child(const void *argument)
{
    struct DLManagedTensorVersioned *const *const out = argument;
    leaves_memory = true;
    end(*out);
    synced_mem *const own = make_at_cpu(SIZE, 2);
    struct DLManagedTensorVersioned *const again = export_of(own, OPTIONS(HOST(READ)));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_data(own));
    end(again);
    OK(synced_mem_release_data(own));
    OK(synced_mem_release(own));
}

START_TEST(a_forked_child_calls_the_deleter)
{
    synced_mem *const mem = make_at_cpu(SIZE, 1);
    struct DLManagedTensorVersioned *const out =
        export_of(mem, gpu_expected() ? OPTIONS(DEVICE(READ, NULL)) : OPTIONS(HOST(READ)));
    ck_assert(in_a_child(end_in_child, &out));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_release_data(mem));
    ck_assert(host_is(synced_mem_cpu_data(mem), SIZE, 1));
    end(out);
    OK(synced_mem_release_data(mem));
    OK(synced_mem_release(mem));
}
END_TEST

/* The deleter comes while the consumer's kernels still run. The memory goes to nobody else before they end. */
START_TEST(a_deleter_before_the_kernels_have_ended)
{
    const synced_mem_stream consumer = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    unsigned char bytes[SIZE];
    pattern_write(bytes, SIZE, 1);
    synced_mem *const mem = make_on(SIZE, 0);
    host_fill(synced_mem_overwrite_cpu_data(mem), SIZE, 1);
    struct DLManagedTensorVersioned *const out = export_of(mem, OPTIONS(DEVICE(READ, consumer)));
    void *const data = out->tensor.data;
    gpu_delay(consumer);
    gpu_expect(data, SIZE, bytes, consumer);
    OK(synced_mem_release(mem));
    end(out);
    synced_mem *const next = make_on(SIZE, 0);
    gpu_fill(synced_mem_overwrite_gpu_data_on(next, other), SIZE, 2, other);
    ck_assert_uint_eq(gpu_mismatches(true), 0);
    CLOSE_EACH(consumer, other);
    OK(synced_mem_release(next));
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("DLPack, lifetime");
    TCase *tcase = add_case(all, "memory");
    add_tests(tcase, memory_of_the_host_stays, read_only_memory_stays);
    add_gpu_tests(tcase, memory_of_the_device_stays, unified_memory_stays);
    tcase = add_case(all, "deleters");
    add_tests(tcase, the_object_outlives_its_release, threads_export_one_object, a_thread_replaces_the_memory,
              a_forked_child_calls_the_deleter);
    add_gpu_tests(tcase, a_deleter_before_the_kernels_have_ended);
    tcase_add_loop_test(tcase, another_thread_calls_the_deleter, 0, 2);
    return all;
}
