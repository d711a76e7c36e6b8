/* User memory, borrowed and adopted, and user allocators. */
#include "check.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 1 << 20 };

static synced_mem *make(void)
{
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, NULL) == SYNCED_MEM_OK);
    return mem;
}

static void borrow(void)
{
    synced_mem *const mem = make();
    /* [borrow] */
    char *const buffer = malloc(SIZE);
    CHECK(buffer);
    memset(buffer, 5, SIZE);
    CHECK(synced_mem_set_cpu_data(mem, buffer) == SYNCED_MEM_OK); /* borrows buffer: AT_CPU, and nothing is copied */
    CHECK(synced_mem_cpu_data(mem) == buffer);
    CHECK(synced_mem_cpu_source(mem) == SYNCED_MEM_SOURCE_BORROWED);

    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK); /* waits for the library's transfers on buffer */
    free(buffer);
    /* [end] */
}

/* [adopt_callback] */
static void give_to_free(void *data, void *user, synced_mem_stream stream)
{
    (void)stream; /* NULL in this version: all work on the memory has finished */
    free(data);
    ++*(int *)user;
}
/* [end] */

static void adopt(void)
{
    synced_mem *const mem = make();
    /* [adopt] */
    int freed = 0;
    char *const buffer = malloc(SIZE);
    CHECK(buffer);
    memset(buffer, 6, SIZE);
    const synced_mem_memory memory = {
        .struct_size = sizeof memory, .cpu_data = buffer, .callback = give_to_free, .user = &freed};
    CHECK(synced_mem_use_memory(mem, &memory) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK); /* does not wait for work on the memory */
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);   /* calls the callback if it is still due */
    CHECK(freed == 1);
    /* [end] */
}

/* [read_only_callback] */
static void unmap(void *data, void *user, synced_mem_stream stream)
{
    (void)user;
    (void)stream;
    munmap(data, SIZE);
}
/* [end] */

static void read_only(void)
{
    synced_mem *const mem = make();
    char name[] = "/tmp/synced_mem_XXXXXX";
    const int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, SIZE) == 0);
    /* [read_only] */
    void *const weights = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(weights != MAP_FAILED);
    const synced_mem_memory memory = {
        .struct_size = sizeof memory, .cpu_data = weights, .callback = unmap, .flags = SYNCED_MEM_MEMORY_READ_ONLY};
    CHECK(synced_mem_use_memory(mem, &memory) == SYNCED_MEM_OK);
    CHECK(synced_mem_cpu_data(mem) == weights); /* reads use the file */

    float *const data = synced_mem_mutable_cpu_data(mem); /* memory of the library's own, with the contents */
    CHECK(data && data != weights);
    CHECK(synced_mem_cpu_source(mem) != SYNCED_MEM_SOURCE_ADOPTED); /* unmap() was called, or is due */
    data[0] = 1;
    /* [end] */
    CHECK(close(file) == 0 && synced_mem_release(mem) == SYNCED_MEM_OK);
}

static void borrow_device_memory(void)
{
    synced_mem *const mem = make();
    /* [device] */
    void *data = NULL;
    CHECK(cudaMalloc(&data, SIZE) == cudaSuccess);
    CHECK(cudaMemsetAsync(data, 7, SIZE, NULL) == cudaSuccess);     /* work on the legacy stream is tracked */
    CHECK(synced_mem_set_gpu_data(mem, data) == SYNCED_MEM_OK);     /* borrows data: the head is AT_GPU */
    CHECK(((const char *)synced_mem_cpu_data(mem))[SIZE - 1] == 7); /* waits for the memset, then transfers */
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(cudaFree(data) == cudaSuccess);
    /* [end] */
}

static void order(void)
{
    synced_mem *const mem = make();
    void *data = NULL;
    cudaStream_t stream;
    CHECK(cudaMalloc(&data, SIZE) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    /* [order] */
    CHECK(cudaMemsetAsync(data, 9, SIZE, stream) == cudaSuccess); /* a non-blocking stream */
    const synced_mem_memory memory = {.struct_size = sizeof memory, .gpu_data = data, .stream = stream};
    CHECK(synced_mem_use_memory(mem, &memory) == SYNCED_MEM_OK);    /* accesses wait for the work queued on stream */
    CHECK(((const char *)synced_mem_cpu_data(mem))[SIZE - 1] == 9); /* waits for the memset, then transfers */
    /* [end] */
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(cudaFree(data) == cudaSuccess);
}

static void page_lock(void)
{
    synced_mem *const mem = make();
    char *const buffer = malloc(SIZE);
    CHECK(buffer);
    memset(buffer, 8, SIZE);
    /* [page_lock] */
    const synced_mem_memory memory = {
        .struct_size = sizeof memory, .cpu_data = buffer, .flags = SYNCED_MEM_MEMORY_PAGE_LOCK};
    CHECK(synced_mem_use_memory(mem, &memory) == SYNCED_MEM_OK); /* pushes and pulls now return at once */
    CHECK(synced_mem_cpu_is_pinned(mem));
    CHECK(synced_mem_gpu_data(mem));
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK); /* unlocks buffer */
    free(buffer);
    /* [end] */
}

/* [table] */
struct counter {
    size_t bytes, most;
};

static void *host_alloc(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    struct counter *const counter = user;
    (void)device; /* the device of later transfers, or -1 if unknown */
    (void)stream; /* NULL for host memory */
    counter->bytes += size;
    counter->most = counter->bytes > counter->most ? counter->bytes : counter->most;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void host_free(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    struct counter *const counter = user;
    (void)alignment;
    (void)device;
    (void)stream;
    counter->bytes -= size;
    free(data);
}
/* [end] */

static void allocate(void)
{
    /* [allocator] */
    struct counter counter = {0};
    const synced_mem_allocator allocator = {
        .struct_size = sizeof allocator, .alloc = host_alloc, .free = host_free, .user = &counter};
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.cpu_allocator = &allocator; /* for this object; synced_mem_set_allocators() is for all objects */

    synced_mem *mem;
    CHECK(synced_mem_create(&mem, SIZE, &options) == SYNCED_MEM_OK);
    CHECK(synced_mem_cpu_data(mem));
    CHECK(synced_mem_cpu_source(mem) == SYNCED_MEM_SOURCE_ALLOCATOR);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    CHECK(counter.bytes == 0 && counter.most >= SIZE);
    /* [end] */
}

int main(void)
{
    borrow();
    adopt();
    read_only();
    allocate();
    if (synced_mem_device_count() > 0) {
        borrow_device_memory();
        order();
        page_lock();
    }
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
