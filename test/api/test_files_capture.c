/* Checks that a capturing stream is refused what would read a file, or leave it. */
#include "files_kit.h"

#include <cuda_runtime_api.h>

enum { SIZE = 10007 };

static void begin_capture(synced_mem_stream stream)
{
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
}

static void end_capture(synced_mem_stream stream)
{
    cudaGraph_t graph = NULL;
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
}

START_TEST(a_capture)
{
    synced_mem_file *const file = make_file(SIZE, 1);
    synced_mem *const mem = make_in_file(SIZE, file, 0);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    begin_capture(stream);
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_gpu_data_on(mem, stream));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_push(mem, stream));
    end_capture(stream);
    (void)given(synced_mem_gpu_data_on(mem, stream));
    begin_capture(stream);
    (void)given(synced_mem_gpu_data_on(mem, stream));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_mutable_gpu_data_on(mem, stream)); /* the graph would write */
    end_capture(stream);
    STATE(mem, AT_GPU, 1);
    close_stream(stream);
    OK(synced_mem_release(mem));
    end_file(file);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("files_capture");
    add_tests(add_case(made, "capture"), a_capture);
    return made;
}
