/* Checks the seam without a GPU runtime: it refuses each call, and writes no output. */
#include "fixture.h"

#include "device/device.h"

#include <stdint.h>

/* Without a runtime each function of the seam fails, and changes no output. */
START_TEST(seam_without_gpu)
{
    uint64_t took;
    int device = 77;
    void *data = &device;
    synced_mem_stream stream = (synced_mem_stream)(void *)&device;
    sm_event event = (sm_event)(void *)&device;
    bool done = true;
    char id[SM_PCI_ID_BYTES] = "77";
    struct sm_stream_facts facts = {.id = 77};
    struct sm_pool_numbers numbers = {.used = 77};
    synced_mem_device_info info = {.device = 77};
    size_t free_bytes = 77;
    size_t total = 77;
    size_t locked = 77;
    struct sm_pointer_facts pointer;
    struct sm_unified_facts unified;
    unsigned char uuid[SM_DEVICE_UUID_BYTES] = {77};
    struct sm_device_shareable made = {.file = 77};
    const void *const from = data;
    const struct sm_list_job job = {.value = -1};
    const size_t size = 1;
    if (gpu_expected())
        return;
    ck_assert(!sm_device_frees_in_order(0));
    ck_assert_uint_eq(sm_device_list_processors(0), 0);
    sm_device_await_lists();
    ck_assert(!sm_device_has_batches(stream));
    ck_assert(!sm_device_batch_takes(data, 1, true));
    ck_assert_int_eq(sm_device_count(), 0);
    ck_assert(!sm_device_in_use());
    sm_device_stay(0);
    sm_device_keep_lists();
    sm_device_pool_warm_beside(true);
    ck_assert_uint_eq(sm_device_probed(0), 0);
    sm_device_pool_reach(0, 1);
    OK(sm_device_shutdown());
    const synced_mem_status all[] = {
        sm_device_resolve(0, &device),
        sm_device_query_pointer(0, data, &pointer),
        sm_device_pci_id(0, id),
        sm_device_host_register(0, data, 8, false, &locked),
        sm_device_host_unregister(0, data, 8, &locked),
        sm_device_alloc(0, 8, NULL, &data),
        sm_device_free(0, data, NULL),
        sm_device_unified_facts(0, &unified),
        sm_device_check_mapped(0, data),
        sm_device_managed_alloc(0, 8, &data),
        sm_device_managed_free(0, data),
        sm_device_managed_prefetch(0, data, 8, true, NULL),
        sm_device_managed_advise(0, data, 8),
        sm_device_uuid(0, uuid),
        sm_device_share(0, 8, 1, &made),
        sm_device_import(0, 0, 8, 1, &data),
        sm_device_unmap(0, data, 8),
        sm_device_stream_create(0, &stream),
        sm_device_stream_destroy(0, stream),
        sm_device_stream_sync(0, NULL),
        sm_device_stream_wait(0, NULL, event),
        sm_device_stream_query_capture(0, stream, &facts),
        sm_device_of_stream(stream, 0, &device),
        sm_device_copy_h2d(0, data, data, 1, NULL),
        sm_device_copy_d2h(0, data, data, 1, NULL),
        sm_device_copy_d2d(0, data, data, 1, NULL),
        sm_device_copy_any(0, data, data, 1, NULL),
        sm_device_copy_peer(0, data, 0, data, 1, 1, NULL),
        sm_device_fill(0, data, 0, 1, NULL),
        sm_device_run_list(0, &job, 1, NULL),
        sm_device_run_probe(0, 1, NULL),
        sm_device_copy_batch(0, &data, &from, &size, 1, true, NULL),
        sm_device_event_create(0, &event),
        sm_device_event_destroy(0, event),
        sm_device_event_record(0, event, NULL),
        sm_device_event_sync(0, event),
        sm_device_event_query(0, event, &done),
        sm_device_timing_create(0, &event),
        sm_device_elapsed(0, event, event, &took),
        sm_device_stream_query(0, NULL, &done),
        sm_device_info(0, &info),
        sm_device_memory_info(0, &free_bytes, &total),
        sm_device_pool_set_threshold(0, 0),
        sm_device_pool_set_reuse(0, 0),
        sm_device_pool_allow_peer(0, 1, true),
        sm_device_pool_trim(0, 0),
        sm_device_pool_reset_peaks(0),
        sm_device_pool_numbers(0, &numbers),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ck_assert_int_eq(all[i], SYNCED_MEM_ERR_NO_GPU);
    ck_assert_int_eq(device, 77);
    ck_assert_int_eq(uuid[0], 77);
    ck_assert_int_eq(made.file, 77);
    ck_assert_ptr_eq(data, &device);
    ck_assert_ptr_eq(stream, (void *)&device);
    ck_assert_uint_eq(facts.id, 77);
    ck_assert_uint_eq(numbers.used, 77);
    ck_assert_int_eq(info.device, 77);
    ck_assert_uint_eq(free_bytes + total, 2 * 77);
    ck_assert_str_eq(id, "77");
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("seam");
    TCase *const tests = add_case(made, "seam");
    tcase_add_test(tests, seam_without_gpu);
    return made;
}
