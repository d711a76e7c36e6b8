// What Caffe promises of its SyncedMemory, asked of the adapter.
#include "synced_memory.hpp"

#include "../check.h"

#include <cstring>
#include <cuda_runtime_api.h>

using caffe::SyncedMemory;

namespace {

constexpr std::size_t SIZE = 10;

bool all(const void *data, char value, std::size_t size = SIZE)
{
    for (std::size_t i = 0; i < size; i++)
        if (static_cast<const char *>(data)[i] != value)
            return false;
    return true;
}

// The device copy's bytes, by a copy of the test's own.
bool all_on_gpu(const void *data, char value)
{
    char bytes[SIZE];
    CHECK(cudaMemcpy(bytes, data, SIZE, cudaMemcpyDeviceToHost) == cudaSuccess);
    return all(bytes, value);
}

void fill_on_gpu(void *data, int value)
{
    CHECK(cudaMemset(data, value, SIZE) == cudaSuccess);
}

void starts_without_contents()
{
    const SyncedMemory empty;
    CHECK(empty.size() == 0 && empty.head() == SyncedMemory::UNINITIALIZED);
    const SyncedMemory mem(SIZE);
    CHECK(mem.size() == SIZE && mem.head() == SyncedMemory::UNINITIALIZED);
}

void gives_host_memory()
{
    SyncedMemory mem(SIZE);
    CHECK(all(mem.cpu_data(), 0));
    CHECK(mem.head() == SyncedMemory::HEAD_AT_CPU);
    CHECK(mem.mutable_cpu_data() == mem.cpu_data());
}

void gives_device_memory()
{
    SyncedMemory mem(SIZE);
    CHECK(all_on_gpu(mem.gpu_data(), 0));
    CHECK(mem.head() == SyncedMemory::HEAD_AT_GPU);
    CHECK(mem.mutable_gpu_data() == mem.gpu_data());
}

void gives_both()
{
    SyncedMemory mem(SIZE);
    CHECK(mem.cpu_data() && mem.gpu_data() && mem.mutable_cpu_data() && mem.mutable_gpu_data());
}

void host_writes()
{
    SyncedMemory mem(SIZE);
    for (char value = 1; value <= 2; value++) {
        void *const data = mem.mutable_cpu_data();
        CHECK(mem.head() == SyncedMemory::HEAD_AT_CPU);
        std::memset(data, value, SIZE);
        CHECK(all(mem.cpu_data(), value));
    }
}

void device_reads_what_the_host_wrote()
{
    SyncedMemory mem(SIZE);
    for (char value = 1; value <= 2; value++) {
        std::memset(mem.mutable_cpu_data(), value, SIZE);
        CHECK(mem.head() == SyncedMemory::HEAD_AT_CPU);
        CHECK(all_on_gpu(mem.gpu_data(), value));
        CHECK(mem.head() == SyncedMemory::SYNCED);
        CHECK(all(mem.cpu_data(), value));
        CHECK(mem.head() == SyncedMemory::SYNCED);
    }
}

void host_reads_what_the_device_wrote()
{
    SyncedMemory mem(SIZE);
    for (char value = 1; value <= 2; value++) {
        fill_on_gpu(mem.mutable_gpu_data(), value);
        CHECK(mem.head() == SyncedMemory::HEAD_AT_GPU);
        CHECK(all(mem.cpu_data(), value));
        CHECK(mem.head() == SyncedMemory::SYNCED);
    }
}

// Each side changes a part of what the other has left.
void both_write()
{
    SyncedMemory mem(SIZE);
    std::memset(mem.mutable_cpu_data(), 1, SIZE);
    char *const device = static_cast<char *>(mem.mutable_gpu_data());
    CHECK(mem.head() == SyncedMemory::HEAD_AT_GPU);
    CHECK(cudaMemset(device, 2, SIZE / 2) == cudaSuccess);
    char *const host = static_cast<char *>(mem.mutable_cpu_data());
    CHECK(mem.head() == SyncedMemory::HEAD_AT_CPU);
    CHECK(all(host, 2, SIZE / 2) && all(host + SIZE / 2, 1, SIZE - SIZE / 2));
    std::memset(host, 3, SIZE);
    CHECK(all_on_gpu(mem.gpu_data(), 3));
}

void takes_host_memory()
{
    char mine[SIZE];
    SyncedMemory mem(SIZE);
    std::memset(mem.mutable_cpu_data(), 1, SIZE);
    std::memset(mine, 2, SIZE);
    mem.set_cpu_data(mine);
    CHECK(mem.head() == SyncedMemory::HEAD_AT_CPU);
    CHECK(mem.cpu_data() == mine && mem.mutable_cpu_data() == mine);
    if (synced_mem_device_count() == 0)
        return;
    CHECK(all_on_gpu(mem.gpu_data(), 2));
    fill_on_gpu(mem.mutable_gpu_data(), 3);
    CHECK(mem.cpu_data() == mine && all(mine, 3));
}

void takes_device_memory()
{
    void *mine = nullptr;
    CHECK(cudaMalloc(&mine, SIZE) == cudaSuccess);
    {
        SyncedMemory mem(SIZE);
        std::memset(mem.mutable_cpu_data(), 1, SIZE);
        fill_on_gpu(mine, 2);
        mem.set_gpu_data(mine);
        CHECK(mem.head() == SyncedMemory::HEAD_AT_GPU);
        CHECK(mem.gpu_data() == mine && all(mem.cpu_data(), 2));
        std::memset(mem.mutable_cpu_data(), 3, SIZE);
        CHECK(mem.gpu_data() == mine && all_on_gpu(mine, 3));
    }
    CHECK(cudaFree(mine) == cudaSuccess);
}

void pushes()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    SyncedMemory mem(SIZE, 0);
    std::memset(mem.mutable_cpu_data(), 1, SIZE);
    mem.async_gpu_push(stream);
    CHECK(mem.head() == SyncedMemory::SYNCED);
    CHECK(all_on_gpu(mem.gpu_data(), 1)); // which waits: Caffe leaves that to its caller
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

template <class Function> bool throws(Function function)
{
    try {
        function();
    } catch (const std::runtime_error &) {
        return true;
    }
    return false;
}

void refuses()
{
    SyncedMemory mem(SIZE);
    CHECK(throws([&] { mem.set_cpu_data(nullptr); }));
    CHECK(throws([&] { mem.set_gpu_data(nullptr); }));
    CHECK(throws([&] { mem.async_gpu_push(nullptr); })); // there is nothing to push yet
    CHECK(mem.head() == SyncedMemory::UNINITIALIZED);
    if (synced_mem_device_count() == 0)
        CHECK(throws([&] { mem.gpu_data(); }));
}

} // namespace

int main()
{
    starts_without_contents();
    gives_host_memory();
    host_writes();
    takes_host_memory();
    refuses();
    if (synced_mem_device_count() > 0) {
        gives_device_memory();
        gives_both();
        device_reads_what_the_host_wrote();
        host_reads_what_the_device_wrote();
        both_write();
        takes_device_memory();
        pushes();
    }
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
