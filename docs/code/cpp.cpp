// The library in C++: a tensor, kernels on a stream, failures, DLPack, and a container in page-locked memory.
#include "check.h"
#include "dlpack/dlpack.h"

#include <cuda_runtime_api.h>
#include <synced_mem.hpp>

#include <cstring>
#include <vector>

// [tensor]
class Tensor
{
  public:
    Tensor(std::size_t rows, std::size_t columns) : columns_(columns), mem_(rows * columns * sizeof(float))
    {
    }

    std::size_t rows() const
    {
        return mem_.size() / sizeof(float) / columns_;
    }
    synced::access<const float> cpu() const
    {
        return mem_.cpu_data<float>();
    }
    synced::access<float> mutable_cpu()
    {
        return mem_.mutable_cpu_data<float>();
    }
    synced::access<const float> gpu(synced_mem_stream stream) const
    {
        return mem_.gpu_data_on<float>(stream);
    }
    synced::access<float> mutable_gpu(synced_mem_stream stream)
    {
        return mem_.mutable_gpu_data_on<float>(stream);
    }
    void resize_rows(std::size_t rows)
    {
        mem_.resize(rows * columns_ * sizeof(float));
    }

  private:
    std::size_t columns_;
    synced::memory mem_;
};
// [end]

static void use_tensor()
{
    // [access]
    Tensor tensor(100, 20);
    for (float &element : tensor.mutable_cpu()) // one access before the loop
        element = 1;
    Tensor moved = std::move(tensor);                            // takes the object; tensor has none
    const synced::access<const float> elements = moved.cpu();    // the access is made here
    CHECK(elements.size() == 2000 && elements[1999] == 1);       // the number of elements is read here
    CHECK(std::memchr(moved.cpu(), 0, elements.size()) != NULL); // where a pointer is due it is one
    // [end]
    moved.resize_rows(50);
    CHECK(moved.rows() == 50);
}

static void use_a_stream()
{
    cudaStream_t stream;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return;
    {
        // [stream]
        synced::options options;
        options.name = "activations";
        options.device = 0;
        synced::memory mem(1000, options);
        std::memset(mem.overwrite_cpu_data(), 1, mem.size());
        mem.async_gpu_push(stream);
        CHECK(cudaMemsetAsync(mem.mutable_gpu_data_on(stream), 2, mem.size() / 2, stream) == cudaSuccess); // a kernel
        mem.async_cpu_pull(stream);
        CHECK(mem.cpu_data<char>()[0] == 2 && mem.cpu_data<char>()[999] == 1); // waits for the pull
        // [end]
    }
    synced::check(synced_mem_forget_stream(stream));
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

static void fail()
{
    // [errors]
    synced::memory mem(1000);
    mem.mutable_cpu_data<char>()[0] = 5;
    try {
        mem.resize(SIZE_MAX);
    } catch (const synced::error &error) { // a std::runtime_error
        CHECK(error.status() == SYNCED_MEM_ERR_INVALID_ARGUMENT);
        CHECK(std::strstr(error.what(), "synced_mem_resize")); // the detail
    }
    CHECK(mem.size() == 1000 && mem.cpu_data<char>()[0] == 5); // nothing has changed
    // [end]
    // [c]
    int pending;
    synced::check(synced_mem_query(mem.get(), &pending)); // any function of C, with its status as an exception
    // [end]
}

static void consume(DLManagedTensorVersioned *tensor) // another library
{
    tensor->deleter(tensor);
}

static void exchange()
{
    // [dlpack]
    synced::memory mem(20 * sizeof(float));
    synced::tensor tensor = mem.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {4, 5});
    CHECK(tensor->dl_tensor.ndim == 2);
    synced::memory same = synced::memory::from_dlpack(std::move(tensor)); // a tensor as an object
    tensor = same.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, {20});
    consume(tensor.release()); // from here on the tensor is the consumer's, and the guard does nothing
    // [end]
}

static void fill_a_container()
{
    // [pinned]
    synced::pinned_resource pinned(0); // near device 0
    std::pmr::vector<float> batch(&pinned);
    for (int i = 0; i < 1000; i++)
        batch.push_back(static_cast<float>(i));

    synced::memory mem(batch.size() * sizeof(float)); // after the vector: it ends first, and waits for its transfers
    mem.set_cpu_data(batch.data());
    if (synced_mem_device_count() > 0)
        mem.async_gpu_push(nullptr); // beside the host's work, as the memory is page-locked
    // [end]
    CHECK(mem.cpu_data<float>()[999] == 999);
}

static void launch_layer(const float *)
{
} // kernels

static void run_layers(const std::vector<synced::memory> &layers)
{
    // [holds]
    synced::hold now(layers[0], SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
    for (std::size_t i = 0; i < layers.size(); i++) {
        synced::hold next;
        if (i + 1 < layers.size())
            next = synced::hold(layers[i + 1], SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ); // a prefetch
        launch_layer(layers[i].gpu_data_on<float>(nullptr));
        now = std::move(next); // ends the hold of layers[i]
    }
    // [end]
}

static void hold_layers()
{
    synced::options options;
    options.evictable = 1;
    std::vector<synced::memory> layers;
    for (int i = 0; i < 4; i++) {
        layers.emplace_back(1000 * sizeof(float), options);
        layers.back().overwrite_cpu_data<float>()[0] = 1;
    }
    run_layers(layers);
}

int main()
{
    use_tensor();
    use_a_stream();
    fail();
    exchange();
    fill_a_container();
    if (synced_mem_device_count() > 0)
        hold_layers();
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
