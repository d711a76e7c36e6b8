/* Checks hand-overs while a stream captures, while another thread's call goes on, and in callbacks. On the emulated
 * runtime. */
#include "share_two_kit.h"

#include <pthread.h>

/* ---- Streams ---- */

START_TEST(a_stream_captures)
{
    cudaGraph_t graph;
    open_two();
    gpu_fill(synced_mem_overwrite_gpu_data(one), BYTES, 1, NULL);
    stream = open_stream(BLOCKING);
    ck_assert_int_eq(cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_end_turn(one));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_abandon_turn(one));
    ck_assert_int_eq(cudaStreamEndCapture((cudaStream_t)stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    OK(synced_mem_end_turn(one));
    close_stream(stream);
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    check_on_host();
}
END_TEST

/* ---- Threads ---- */

static void *read_on_host(void *unused)
{
    const void *const data = synced_mem_cpu_data(one);
    SOUND(data != NULL && pattern_is(data, BYTES, 1));
    return unused;
}

static void *hand_one_over(void *unused)
{
    SOUND(synced_mem_end_turn(one) == SYNCED_MEM_OK);
    return unused;
}

/* A call that has passed the gate ends before the turn does. Others are refused meanwhile. */
START_TEST(a_hand_over_waits_for_calls)
{
    pthread_t reader;
    pthread_t ender;
    open_two();
    stream = open_stream(NON_BLOCKING);
    gpu_hold(stream);
    gpu_fill(synced_mem_overwrite_gpu_data_on(one, stream), BYTES, 1, stream);
    ck_assert_int_eq(pthread_create(&reader, NULL, read_on_host, NULL), 0);
    while (!others_sleep())
        continue;
    ck_assert_int_eq(pthread_create(&ender, NULL, hand_one_over, NULL), 0);
    while (!others_sleep())
        continue;
    FAILS_NULL(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_gpu_data(one));
    FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_begin_turn(one, CPU, READ, 0));
    FAILS(SYNCED_MEM_ERR_TIMEOUT, synced_mem_begin_turn(other, CPU, READ, 0));
    gpu_unhold();
    ck_assert_int_eq(pthread_join(reader, NULL), 0);
    ck_assert_int_eq(pthread_join(ender, NULL), 0);
    ck_assert_int_eq(unsound, 0);
    OK(synced_mem_begin_turn(other, CPU, READ, 0));
    close_stream(stream);
    check_on_host();
}
END_TEST

/* ---- Callbacks ---- */

static synced_mem_status in_callback = SYNCED_MEM_STATUS_FORCE_INT; /* it was not called yet */

static void hand_over_in_callback(void *data, void *user, synced_mem_stream unused)
{
    (void)data, (void)user, (void)unused;
    in_callback = synced_mem_abandon_turn(one);
    if (in_callback == SYNCED_MEM_ERR_INVALID_STATE)
        in_callback = synced_mem_end_turn(one);
}

/* The callback runs in a call on the object itself. */
START_TEST(a_callback_hands_over)
{
    static char bytes[BYTES];
    synced_mem *const adopted = make(BYTES);
    const synced_mem_memory memory = {.struct_size = sizeof memory,
                                      .cpu_data = bytes,
                                      .callback = hand_over_in_callback,
                                      .flags = SYNCED_MEM_MEMORY_PAGE_LOCK};
    open_two();
    OK(synced_mem_use_memory(adopted, &memory));
    stream = open_stream(NON_BLOCKING);
    gpu_hold(stream);
    OK(synced_mem_async_gpu_push(adopted, stream));
    OK(synced_mem_release(adopted));
    ck_assert_int_eq(in_callback, SYNCED_MEM_STATUS_FORCE_INT);
    gpu_unhold();
    gpu_stream_sync(stream);
    const void *const data = synced_mem_overwrite_cpu_data(one);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    ck_assert_int_eq(in_callback, SYNCED_MEM_ERR_INVALID_STATE);
    OK(synced_mem_end_turn(one));
    close_stream(stream);
    release_two();
}
END_TEST

static int hand_over_in_handler(const synced_mem_out_of_memory *request, void *user)
{
    (void)request, (void)user;
    in_callback = synced_mem_end_turn(one);
    return 0;
}

/* The handler runs in a call on the object that is refused memory. */
START_TEST(a_handler_hands_over)
{
    open_two();
    OK(synced_mem_end_turn(one));
    OK(synced_mem_release(one));
    OK(synced_mem_begin_turn(other, CPU, WRITE, 0));
    one = other;
    synced_mem_set_out_of_memory_handler(hand_over_in_handler, NULL);
    emu_fail("cuMemImportFromShareableHandle", 1, cudaErrorMemoryAllocation, false);
    emu_fail("cuMemImportFromShareableHandle", 2, cudaErrorMemoryAllocation, false);
    emu_fail("cuMemImportFromShareableHandle", 3, cudaErrorMemoryAllocation, false);
    emu_fail("cuMemImportFromShareableHandle", 4, cudaErrorMemoryAllocation, false);
    FAILS_NULL(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, synced_mem_gpu_data(one));
    ck_assert_int_eq(in_callback, SYNCED_MEM_ERR_INVALID_STATE);
    emu_fail_clear();
    synced_mem_set_out_of_memory_handler(NULL, NULL);
    ck_assert_ptr_nonnull(synced_mem_gpu_data(one));
    OK(synced_mem_release(one));
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_meanwhile");
    TCase *const cases = add_case(suite, "share_meanwhile");
    add_tests(cases, a_stream_captures, a_hand_over_waits_for_calls, a_callback_hands_over, a_handler_hands_over);
    return suite;
}
