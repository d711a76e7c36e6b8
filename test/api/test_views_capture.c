/* Checks views on a stream that captures a graph. Calls that would need work are refused, and the capture goes on. */
#include "views_kit.h"

#include <cuda_runtime_api.h>

enum { HALF = ROOT / 2 };

#define MUST(call) ck_assert_msg((call) == cudaSuccess, "%s", #call)

static cudaGraph_t end_capture(synced_mem_stream stream)
{
    cudaGraph_t graph = NULL;
    MUST(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static void launch(cudaGraph_t graph, synced_mem_stream stream)
{
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, stream));
    gpu_stream_sync(stream);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
}

/* A view that is AT_GPU for the stream is captured. Its neighbour, and what reaches into it, would need a transfer. */
START_TEST(captured)
{
    if (devices() == 0)
        return;
    synced_mem_stream stream = open_stream(NON_BLOCKING), other = open_stream(NON_BLOCKING);
    synced_mem *const root = make_root(_i), *const a = view_of(root, 0, HALF), *const b = view_of(root, HALF, HALF);
    host_writes(root, 1);
    device_writes(a, 2, stream);
    void *const data = given(synced_mem_mutable_gpu_data_on(a, stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(a, stream), data);
    gpu_copy((char *)data + HALF / 2, data, HALF / 2, stream);
    synced_mem *const across = view_of(root, HALF / 2, HALF), *const inner = view_of(a, 10, 100);
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_gpu_data_on(b, stream));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_gpu_data_on(across, stream));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_overwrite_gpu_data_on(across, stream));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_gpu_push(across, stream));
    FAILS(SYNCED_MEM_ERR_CAPTURING, synced_mem_async_cpu_pull(a, stream));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_cpu_data(inner)); /* would wait for the stream */
    HEAD(a, AT_GPU);
    HEAD(inner, AT_GPU);
    HEAD(b, AT_CPU);
    HEAD(across, MIXED);
    ck_assert(host_reads_right(b));
    host_writes(b, 3);
    OK(synced_mem_async_gpu_push(b, other)); /* on a stream that does not capture */
    ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(inner, stream), (char *)data + 10);
    RELEASE_EACH(inner, across);
    cudaGraph_t graph = end_capture(stream);
    ck_assert_ptr_eq(synced_mem_mutable_gpu_data_on(a, stream), data);
    launch(graph, stream);
    memcpy(expected + HALF / 2, expected, HALF / 2);
    ck_assert(host_reads_right(a));
    ck_assert(host_reads_right(root));
    RELEASE_EACH(a, b, root);
    CLOSE_EACH(stream, other);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("views and graphs");
    TCase *const tests = add_case(made, "capture");
    tcase_add_loop_test(tests, captured, 0, 2);
    return made;
}
