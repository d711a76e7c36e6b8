/* Wrong programs that launch the library's kernel. */
#include "trust_lists.h"
#include "trust_wrong.h"

static void list_changed_in_flight(void)
{
    const cudaStream_t stream = new_stream();
    struct sm_list_entry *const list = new_list(new_device_memory(), new_pinned());
    struct sm_list_job job = job_of(list);

    MUST(launch_list(kernel_of(new_library()), &job, stream));
    list[1].bytes = 8;
    cudaStreamSynchronize(stream);
}

static void list_written_in_flight(void)
{
    struct sm_list_entry *const list = new_list(new_device_memory(), new_pinned());
    struct sm_list_job job = job_of(list);

    MUST(launch_list(kernel_of(new_library()), &job, new_stream()));
    emu_host_write(list, sizeof *list);
}

static void pageable_list(void)
{
    static struct sm_list_entry list[SIZE / 16];
    struct sm_list_job job = job_of(list);

    launch_list(kernel_of(new_library()), &job, new_stream());
}

static void entry_beyond_its_memory(void)
{
    struct sm_list_job job = {.count = 1, .value = 1};

    job.few[0] = (struct sm_list_entry){new_device_memory() + 1, NULL, SIZE};
    launch_list(kernel_of(new_library()), &job, new_stream());
}

static void entries_with_one_target(void)
{
    byte *const device = new_device_memory();
    struct sm_list_job job = {.count = 2, .value = 1};

    job.few[0] = (struct sm_list_entry){device, NULL, 10};
    job.few[1] = (struct sm_list_entry){device + 9, NULL, 10};
    launch_list(kernel_of(new_library()), &job, new_stream());
}

static void entry_beside_a_copy(void)
{
    byte *const device = new_device_memory(), *const host = new_pinned();
    struct sm_list_job job = job_of(new_list(device, host));

    MUST(launch_list(kernel_of(new_library()), &job, new_stream()));
    to_host(new_pinned(), device, new_stream());
}

static void unloaded_too_early(void)
{
    const cudaLibrary_t library = new_library();
    struct sm_list_job job = job_of(new_list(new_device_memory(), new_pinned()));

    MUST(launch_list(kernel_of(library), &job, new_stream()));
    cudaLibraryUnload(library);
}

static void unloaded_twice(void)
{
    const cudaLibrary_t library = new_library();

    MUST(cudaLibraryUnload(library));
    cudaLibraryUnload(library);
}

static void launched_after_unload(void)
{
    const cudaLibrary_t library = new_library();
    const void *const kernel = kernel_of(library);
    struct sm_list_job job = job_of(new_list(new_device_memory(), new_pinned()));

    MUST(cudaLibraryUnload(library));
    CHECK(launch_list(kernel, &job, new_stream()) == cudaErrorInvalidDeviceFunction);
}

static void library_leaked(void)
{
    (void)new_library();
}

const struct wrong wrong_list_programs[] = {
    {{"list changed in flight", list_changed_in_flight}, ABORTS, 1, {"cudaStreamSynchronize in", "has changed"}},
    {{"list written in flight", list_written_in_flight}, RACES, RACE_SEEDS, {"emu_host_write", "cudaLaunchKernelExC"}},
    {{"pageable list", pageable_list}, ABORTS, SEEDS, {"cudaLaunchKernelExC in", "not memory that a kernel can touch"}},
    {{"entry beyond its memory", entry_beyond_its_memory}, ABORTS, SEEDS, {"cudaLaunchKernelExC in", "a kernel can"}},
    {{"entries with one target", entries_with_one_target}, ABORTS, SEEDS, {"cudaLaunchKernelExC in", "in no order"}},
    {{"entry beside a copy", entry_beside_a_copy}, RACES, RACE_SEEDS, {"cudaMemcpyAsync", "cudaLaunchKernelExC"}},
    {{"library unloaded too early", unloaded_too_early}, ABORTS, 1, {"cudaLibraryUnload in", "is queued"}},
    {{"library unloaded twice", unloaded_twice}, ABORTS, SEEDS, {"cudaLibraryUnload in", "no longer, a library"}},
    {{"kernel launched after unload", launched_after_unload}, TELLS, SEEDS, {NULL, NULL}},
    {{"library leaked", library_leaked}, LEAKS, 1, {"library of kernels", "cudaLibraryLoadData"}},
    {{NULL, NULL}, TELLS, 0, {NULL, NULL}},
};
