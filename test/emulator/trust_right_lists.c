/* Right programs that launch the library's kernel. */
#include "trust_lists.h"

/* A list brings bytes to the device, and the bytes are brought back by the parameter's own entries. */
static void there_and_back(void)
{
    const cudaStream_t stream = new_stream();
    byte *const host = new_pinned(), *const back = new_pinned(), *const device = new_device_memory();
    struct sm_list_entry *const list = new_list(device, host);
    const cudaLibrary_t library = new_library();
    struct sm_list_job job = job_of(list);

    host_fill(host, 7);
    MUST(launch_list(kernel_of(library), &job, stream));
    job = (struct sm_list_job){.count = 2, .value = -1};
    job.few[0] = (struct sm_list_entry){back, device, 5};
    job.few[1] = (struct sm_list_entry){back + 5, device + 5, SIZE - 5};
    MUST(launch_list(kernel_of(library), &job, stream));
    MUST(cudaStreamSynchronize(stream));
    CHECK(host_finds(back, 7));
    MUST(cudaLibraryUnload(library));
    MUST(cudaFreeHost(list));
    MUST(cudaFreeHost(host));
    MUST(cudaFreeHost(back));
    MUST(cudaFree(device));
    MUST(cudaStreamDestroy(stream));
}

/* Two streams fill parts of one allocation that no other list touches. */
static void fills_side_by_side(void)
{
    const cudaStream_t streams[] = {new_stream(), new_stream()};
    const cudaEvent_t event = new_event();
    byte *const host = new_pinned(), *const device = new_device_memory();
    const cudaLibrary_t library = new_library();

    for (int i = 0; i < 2; i++) {
        struct sm_list_job job = {.count = 1, .value = 9};
        job.few[0] = (struct sm_list_entry){device + i * (SIZE / 2), NULL, SIZE / 2};
        MUST(launch_list(kernel_of(library), &job, streams[i]));
    }
    after(streams[0], event, streams[1]);
    to_host(host, device, streams[0]);
    MUST(cudaStreamSynchronize(streams[0]));
    CHECK(host_finds(host, 9));
    MUST(cudaLibraryUnload(library));
    MUST(cudaFreeHost(host));
    MUST(cudaFree(device));
    MUST(cudaEventDestroy(event));
    for (int i = 0; i < 2; i++)
        MUST(cudaStreamDestroy(streams[i]));
}

const struct program right_list_programs[] = {
    {"lists there and back", there_and_back},
    {"lists that fill side by side", fills_side_by_side},
    {NULL, NULL},
};
