// Tests that the adapter behaves as Caffe's SyncedMemory.
#include "synced_memory.hpp"

#include "../check.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <memory>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

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

// Reads the bytes of the device copy with the test's own cudaMemcpy.
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

// The host and the device write in turn. Each sees the other's writes.
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
    CHECK(all_on_gpu(mem.gpu_data(), 1)); // gpu_data() waits for the push; in Caffe the caller waits
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
    CHECK(throws([&] { mem.async_gpu_push(nullptr); })); // no contents to push yet
    CHECK(mem.head() == SyncedMemory::UNINITIALIZED);
    if (synced_mem_device_count() == 0)
        CHECK(throws([&] { mem.gpu_data(); }));
}

// ---- Common usage of Caffe: kernels on the legacy stream, and no waits for them ----

// Large enough that the device works on it during several calls.
constexpr std::size_t LARGE = 1 << 20;
constexpr char ROUNDS = 4;

bool all_large_on_gpu(const void *data, char value)
{
    std::vector<char> bytes(LARGE);
    CHECK(cudaMemcpy(bytes.data(), data, LARGE, cudaMemcpyDeviceToHost) == cudaSuccess);
    return all(bytes.data(), value, LARGE);
}

// These two stand for kernels that write and for kernels that read.
void launch_fill(void *data, int value, cudaStream_t stream = nullptr)
{
    CHECK(cudaMemsetAsync(data, value, LARGE, stream) == cudaSuccess);
}

void launch_copy(void *to, const void *from, cudaStream_t stream = nullptr)
{
    CHECK(cudaMemcpyAsync(to, from, LARGE, cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
}

// In each round the host reads the object. Then two more kernels use the old pointer, and the object is released.
void uses_old_pointers(void *seen, cudaStream_t stream)
{
    for (char round = 1; round <= 2 * ROUNDS; round += 2) {
        SyncedMemory mem(LARGE);
        void *const data = mem.mutable_gpu_data();
        launch_fill(data, round, stream);
        CHECK(all(mem.cpu_data(), round, LARGE));
        launch_copy(static_cast<char *>(seen) + (round - 1) / 2 * LARGE, data, stream);
        launch_fill(data, round + 1, stream);
    }
}

// Makes objects of the same size, which reuse released memory. Checks that no old kernel writes to their memory.
void next_objects_are_whole()
{
    std::vector<std::unique_ptr<SyncedMemory>> next;
    for (char value = 100; value < 100 + 2 * ROUNDS; value++) {
        next.emplace_back(new SyncedMemory(LARGE));
        std::memset(next.back()->mutable_cpu_data(), value, LARGE);
        CHECK(next.back()->gpu_data());
    }
    CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
    for (char value = 100; value < 100 + 2 * ROUNDS; value++)
        CHECK(all_large_on_gpu(next[static_cast<std::size_t>(value - 100)]->gpu_data(), value));
}

void objects_go_under_kernels()
{
    void *seen = nullptr;
    cudaStream_t blocking;
    CHECK(cudaMalloc(&seen, ROUNDS * LARGE) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault) == cudaSuccess);
    for (cudaStream_t stream : {static_cast<cudaStream_t>(nullptr), blocking}) {
        uses_old_pointers(seen, stream);
        next_objects_are_whole();
        for (char round = 0; round < ROUNDS; round++)
            CHECK(all_large_on_gpu(static_cast<char *>(seen) + round * LARGE, static_cast<char>(2 * round + 1)));
    }
    CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
    CHECK(cudaFree(seen) == cudaSuccess);
}

// Layers with temporary objects, which are made and destroyed in each pass. One of them passes the contents on.
void temporaries_come_and_go()
{
    SyncedMemory sum(LARGE);
    std::memset(sum.mutable_cpu_data(), 1, LARGE);
    for (int pass = 0; pass < 4 * ROUNDS; pass++) {
        SyncedMemory buffer(LARGE);
        launch_copy(buffer.mutable_gpu_data(), sum.gpu_data());
        if (pass % 2)
            CHECK(all(buffer.cpu_data(), 1, LARGE));
        SyncedMemory other(LARGE);
        launch_fill(other.mutable_gpu_data(), 2);
        launch_copy(sum.mutable_gpu_data(), buffer.gpu_data());
    }
    CHECK(all(sum.cpu_data(), 1, LARGE));
}

// User memory replaces the device memory of an object while a kernel uses the old memory.
void memory_is_exchanged()
{
    void *mine = nullptr;
    CHECK(cudaMalloc(&mine, LARGE) == cudaSuccess);
    for (char round = 1; round <= ROUNDS; round++) {
        SyncedMemory mem(LARGE);
        void *const data = mem.mutable_gpu_data();
        launch_fill(data, round);
        CHECK(all(mem.cpu_data(), round, LARGE));
        launch_copy(mine, data);
        mem.set_gpu_data(mine);
        SyncedMemory next(LARGE);
        std::memset(next.mutable_cpu_data(), 99, LARGE);
        CHECK(all_large_on_gpu(next.gpu_data(), 99));
        CHECK(all(mem.cpu_data(), round, LARGE));
    }
    CHECK(cudaFree(mine) == cudaSuccess);
}

// ---- Settings at the start of a program ----

bool gpu_mode; // Caffe::mode() == Caffe::GPU

// [device]
int device_of_mode()
{
    int device = SYNCED_MEM_DEVICE_CURRENT;
#ifndef CPU_ONLY
    if (gpu_mode && synced_mem_device_count() > 0) // Caffe::mode() == Caffe::GPU
        CHECK(cudaGetDevice(&device) == cudaSuccess);
#endif
    return device;
}
// [end]

// A prefetch thread fills its buffer on the host before the process uses a GPU.
void prefetches(bool in_gpu_mode, bool with_gpu)
{
    gpu_mode = in_gpu_mode;
    // [set_device]
    SyncedMemory::device_of_new() = device_of_mode;
    // [end]
    SyncedMemory buffer(LARGE);
    std::thread([&] { std::memset(buffer.mutable_cpu_data(), 5, LARGE); }).join();
    CHECK(synced_mem_cpu_is_pinned(buffer.get()) == (in_gpu_mode && with_gpu));
    if (in_gpu_mode && with_gpu)
        CHECK(all_large_on_gpu(buffer.gpu_data(), 5));
    if (in_gpu_mode && !with_gpu)
        CHECK(synced_mem_gpu_data(buffer.get()) == nullptr && synced_mem_last_error() == SYNCED_MEM_ERR_NO_GPU);
}

// [fatal]
void end_program(synced_mem_status, const char *message, void *)
{
    std::fprintf(stderr, "%s\n", message); // LOG(FATAL) << message
    std::abort();
}
// [end]

void fail_in_a_thread()
{
    SyncedMemory mem(SIZE);
    // [set_fatal]
    synced_mem_set_error_handler(end_program, nullptr);
    // [end]
    std::thread([&] { mem.set_cpu_data(nullptr); }).join();
}

// With the handler, a failing call ends the program before it returns, as Caffe's CHECK does.
void fails_fatally()
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        fail_in_a_thread();
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

} // namespace

int main()
{
    const bool with_gpu = synced_mem_device_count() > 0;
    fails_fatally();
    prefetches(false, with_gpu);
    prefetches(true, with_gpu); // without a GPU, as in a build for the CPU
    gpu_mode = false;
    starts_without_contents();
    gives_host_memory();
    host_writes();
    takes_host_memory();
    refuses();
    if (with_gpu) {
        gives_device_memory();
        gives_both();
        device_reads_what_the_host_wrote();
        host_reads_what_the_device_wrote();
        both_write();
        takes_device_memory();
        pushes();
        objects_go_under_kernels();
        temporaries_come_and_go();
        memory_is_exchanged();
    }
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
