// The interface of Caffe's SyncedMemory, on top of synced_mem. C++11; needs no CUDA header.
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

    // An object that names its device gets page-locked host memory from the start, as in Caffe's GPU mode.
    SyncedMemory(std::size_t size, int device)
    {
        synced_mem_options options;
        synced_mem_options_init(&options);
        options.device = device;
        check(synced_mem_create(&mem_, size, &options));
    }

    // The release fails only if the wait for transfers on borrowed memory fails. The object then leaks.
    ~SyncedMemory() { (void)synced_mem_release(mem_); }

    SyncedMemory(const SyncedMemory &) = delete;
    SyncedMemory &operator=(const SyncedMemory &) = delete;

    const void *cpu_data() { return check(synced_mem_cpu_data(mem_)); }
    const void *gpu_data() { return check(synced_mem_gpu_data(mem_)); }
    void *mutable_cpu_data() { return check(synced_mem_mutable_cpu_data(mem_)); }
    void *mutable_gpu_data() { return check(synced_mem_mutable_gpu_data(mem_)); }
    void set_cpu_data(void *data) { check(synced_mem_set_cpu_data(mem_, data)); }
    void set_gpu_data(void *data) { check(synced_mem_set_gpu_data(mem_, data)); }

    // synced_mem_stream and cudaStream_t are the same type.
    void async_gpu_push(const synced_mem_stream &stream) { check(synced_mem_async_gpu_push(mem_, stream)); }

    // Both enums have the same numbers.
    SyncedHead head() const { return static_cast<SyncedHead>(synced_mem_head(mem_)); }
    std::size_t size() const { return synced_mem_size(mem_); }

    // The object, for functions that Caffe's class does not have.
    synced_mem *get() const { return mem_; }

    // The function that returns the device of objects made without one. Set it before the first such object is made.
    using DeviceOfNew = int (*)();
    static DeviceOfNew &device_of_new()
    {
        static DeviceOfNew function = [] { return int{SYNCED_MEM_DEVICE_CURRENT}; };
        return function;
    }

private:
    // Throws where Caffe's CHECK ends the program. The failed call has changed nothing.
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
