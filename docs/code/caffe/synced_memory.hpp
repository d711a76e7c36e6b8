// Caffe's SyncedMemory as an interface to synced_mem. C++11; needs no header of CUDA's.
#ifndef CAFFE_SYNCED_MEMORY_HPP
#define CAFFE_SYNCED_MEMORY_HPP

// [class]
#include <cstddef>
#include <stdexcept>
#include <synced_mem.h>

namespace caffe {

class SyncedMemory {
public:
    enum SyncedHead { UNINITIALIZED, HEAD_AT_CPU, HEAD_AT_GPU, SYNCED };

    SyncedMemory() : SyncedMemory(0) {}
    explicit SyncedMemory(std::size_t size) : SyncedMemory(size, device_of_new()()) {}

    // With a device, host memory is page-locked from the start. Caffe's is in its GPU mode.
    SyncedMemory(std::size_t size, int device)
    {
        synced_mem_options options;
        synced_mem_options_init(&options);
        options.device = device;
        check(synced_mem_create(&mem_, size, &options));
    }

    // Fails only where memory that was set is still being copied and the device is broken; it then leaks.
    ~SyncedMemory() { (void)synced_mem_release(mem_); }

    SyncedMemory(const SyncedMemory &) = delete;
    SyncedMemory &operator=(const SyncedMemory &) = delete;

    const void *cpu_data() { return check(synced_mem_cpu_data(mem_)); }
    const void *gpu_data() { return check(synced_mem_gpu_data(mem_)); }
    void *mutable_cpu_data() { return check(synced_mem_mutable_cpu_data(mem_)); }
    void *mutable_gpu_data() { return check(synced_mem_mutable_gpu_data(mem_)); }
    void set_cpu_data(void *data) { check(synced_mem_set_cpu_data(mem_, data)); }
    void set_gpu_data(void *data) { check(synced_mem_set_gpu_data(mem_, data)); }

    // synced_mem_stream is cudaStream_t.
    void async_gpu_push(const synced_mem_stream &stream) { check(synced_mem_async_gpu_push(mem_, stream)); }

    // The numbers are the same.
    SyncedHead head() const { return static_cast<SyncedHead>(synced_mem_head(mem_)); }
    std::size_t size() const { return synced_mem_size(mem_); }

    // For what Caffe has no name for.
    synced_mem *get() const { return mem_; }

    // The function that names the device of objects made without one. Set it before the first of them is made.
    using DeviceOfNew = int (*)();
    static DeviceOfNew &device_of_new()
    {
        static DeviceOfNew function = [] { return int{SYNCED_MEM_DEVICE_CURRENT}; };
        return function;
    }

private:
    // Where Caffe's CHECK ends the program this throws; nothing has changed then.
    static void check(synced_mem_status status)
    {
        if (status != SYNCED_MEM_OK)
            throw std::runtime_error(synced_mem_last_error_message());
    }

    template <class T> static T *check(T *data)
    {
        if (data == nullptr)
            throw std::runtime_error(synced_mem_last_error_message());
        return data;
    }

    synced_mem *mem_ = nullptr;
};

} // namespace caffe
// [end]

#endif
