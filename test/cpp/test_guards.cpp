// Guards of synced_mem.hpp: tensors, scopes. Page-locked memory for containers.
#include "kit.hpp"

#include "../../docs/code/dlpack/dlpack.h"

#include <cstring>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

// DLPack's struct before version 1.
struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(DLManagedTensor *self);
};

using synced::memory;

namespace
{

constexpr std::size_t SIZE = 24 * sizeof(float);

static_assert(!std::is_copy_constructible_v<synced::tensor> && std::is_nothrow_move_assignable_v<synced::tensor>);
static_assert(!std::is_copy_constructible_v<synced::scope>);

// ---- Tensors ----

template <class T> void has_type(int code, int bits)
{
    memory mem(64);
    const synced::tensor tensor = mem.to_dlpack<T>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {2});
    CHECK(tensor->dl_tensor.dtype.code == code && tensor->dl_tensor.dtype.bits == bits);
    CHECK(tensor->dl_tensor.dtype.lanes == 1);
}

struct half { // a type of the program's
    std::uint16_t bits;
};

void tensor_has_the_element_type();

void tensor_is_guarded()
{
    memory mem(SIZE);
    mem.mutable_cpu_data<float>()[23] = 4;
    {
        const synced::tensor tensor = mem.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, {4, 6});
        CHECK(tensor && tensor->dl_tensor.ndim == 2 && tensor->dl_tensor.shape[1] == 6);
        CHECK(tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
        CHECK(static_cast<float *>(tensor->dl_tensor.data)[23] == 4);
        throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.resize(1); });
        throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.release_data(); });
    }
    mem.resize(1);
}

void tensor_outlives_its_owner()
{
    memory mem(SIZE);
    synced::tensor tensor = mem.to_dlpack<char>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {SIZE});
    mem = memory();
    CHECK(objects() == 1);
    std::memset(tensor->dl_tensor.data, 1, SIZE);
    tensor = synced::tensor();
    CHECK(objects() == 0);
}

void tensor_moves()
{
    memory mem(SIZE);
    synced::tensor one = mem.to_dlpack<char>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {1});
    DLManagedTensorVersioned *const raw = one.get();
    synced::tensor two(std::move(one));
    CHECK(!one && two.get() == raw);
    synced::tensor three = mem.to_dlpack<char>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {1});
    three = std::move(two);
    synced::tensor &same = three;
    three = std::move(same);
    CHECK(!two && three.get() == raw);
    DLManagedTensorVersioned *const handed = three.release();
    CHECK(handed == raw && !three && three.release() == nullptr);
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.resize(1); }); // the consumer has it
    handed->deleter(handed);
    mem.resize(1);
}

void tensor_ends_with_an_exception()
{
    memory mem(SIZE);
    try {
        const synced::tensor tensor = mem.to_dlpack<char>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {1});
        mem.resize(1);
        CHECK(!"the memory stays");
    } catch (const synced::error &error) {
        CHECK(error.status() == SYNCED_MEM_ERR_INVALID_STATE);
    }
    mem.resize(1);
}

void tensor_is_legacy()
{
    memory mem(SIZE);
    synced::legacy_tensor tensor =
        mem.to_dlpack<float, DLManagedTensor>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_OVERWRITE, {6, 4});
    CHECK(tensor->dl_tensor.shape[0] == 6);
    refuses([&] { (void)mem.to_dlpack<float, DLManagedTensor>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, {6, 4}); });
    const memory back = memory::from_dlpack(std::move(tensor));
    CHECK(!tensor && back.size() == SIZE);
    CHECK(back.cpu_data().data() == mem.cpu_data().data());
}

void tensor_is_refused()
{
    memory mem(SIZE);
    refuses([&] { (void)mem.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, {25}); });
    refuses([&] { (void)mem.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, {-1}); });
    refuses([&] { (void)mem.to_dlpack(synced_mem_dlpack_options{}); });
    refuses([&] { (void)memory().to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, {1}); });
    refuses([&] { (void)memory::from_dlpack(synced::tensor()); });
    if (!with_gpu())
        throws(SYNCED_MEM_ERR_NO_GPU, [&] { (void)mem.to_dlpack<float>(SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ, {1}); });
    synced::tensor tensor = mem.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {2, 2});
    const std::int64_t stride = std::exchange(tensor->dl_tensor.strides[0], 7); // rows of a wider tensor
    refuses([&] { (void)memory::from_dlpack(std::move(tensor)); });
    CHECK(tensor && tensor->dl_tensor.strides[0] == 7); // still the guard's
    tensor->dl_tensor.strides[0] = stride;
    const memory back = memory::from_dlpack(std::move(tensor));
    CHECK(!tensor && back.size() == 4 * sizeof(float));
}

// A tensor of another library, whose deleter counts.
int deleted;

void count_deletion(DLManagedTensorVersioned *)
{
    deleted++;
}

DLManagedTensorVersioned foreign(void *data, std::int64_t *shape, void (*deleter)(DLManagedTensorVersioned *))
{
    DLManagedTensorVersioned tensor = {};
    tensor.version.major = 1;
    tensor.deleter = deleter;
    tensor.dl_tensor.data = data;
    tensor.dl_tensor.device.device_type = kDLCPU;
    tensor.dl_tensor.ndim = 1;
    tensor.dl_tensor.shape = shape;
    tensor.dl_tensor.dtype.code = kDLInt;
    tensor.dl_tensor.dtype.bits = 8;
    tensor.dl_tensor.dtype.lanes = 1;
    return tensor;
}

void tensor_of_another_library()
{
    alignas(64) char data[8] = {1, 2, 3};
    std::int64_t shape = 8;
    DLManagedTensorVersioned raw = foreign(data, &shape, count_deletion);
    deleted = 0;
    {
        const synced::tensor unused(&raw);
    }
    CHECK(deleted == 1);
    {
        const memory mem = memory::from_dlpack(synced::tensor(&raw));
        CHECK(mem.cpu_data<char>()[2] == 3 && deleted == 1);
    }
    CHECK(deleted == 2);
    raw.deleter = nullptr; // static memory
    {
        const synced::tensor unused(&raw);
    }
    const memory mem = memory::from_dlpack(synced::tensor(&raw));
    CHECK(mem.cpu_data().data() == static_cast<void *>(data));
}

void tensor_on_the_device()
{
    const Stream stream;
    memory mem(SIZE);
    synced::tensor tensor =
        mem.to_dlpack<std::byte>(SYNCED_MEM_SIDE_GPU, SYNCED_MEM_OVERWRITE, {std::int64_t{SIZE}}, stream);
    CHECK(tensor->dl_tensor.device.device_type == kDLCUDA);
    CHECK(cudaMemsetAsync(tensor->dl_tensor.data, 7, SIZE, stream) == cudaSuccess);
    memory back = memory::from_dlpack(std::move(tensor), stream);
    CHECK(back.cpu_data<char>()[SIZE - 1] == 7);
    mem = memory();
}

// ---- Page-locked memory ----

void pinned_serves_containers()
{
    synced::pinned_resource pinned;
    std::pmr::vector<int> numbers(&pinned);
    for (int i = 0; i < 10000; i++)
        numbers.push_back(i);
    for (int i = 0; i < 10000; i++)
        CHECK(numbers[static_cast<std::size_t>(i)] == i);
    CHECK(objects() == 1); // the earlier ones went back
    memory mem(numbers.size() * sizeof(int));
    mem.set_cpu_data(numbers.data());
    CHECK(synced_mem_cpu_is_pinned(mem.get()) == with_gpu());
    std::pmr::string text("a text that is too long for a place in the string itself", &pinned);
    CHECK(text.back() == 'f' && objects() == 3);
    const std::pmr::vector<int> moved(std::move(numbers));
    CHECK(moved.back() == 9999);
}

void pinned_is_aligned()
{
    synced::pinned_resource pinned;
    for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2)
        for (std::size_t size : {0, 1, 63, 64, 65, 5000}) {
            void *const data = pinned.allocate(size, alignment);
            CHECK(reinterpret_cast<std::uintptr_t>(data) % (alignment > 64 ? alignment : 64) == 0);
            std::memset(data, 1, size);
            pinned.deallocate(data, size, alignment);
        }
}

void pinned_refuses()
{
    synced::pinned_resource pinned;
    synced::pinned_resource other;
    CHECK(pinned == pinned && pinned != other && pinned != *std::pmr::new_delete_resource());
    for (std::size_t size : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2})
        refuses([&] { (void)pinned.allocate(size, 1); });
    refuses([&] { (void)pinned.allocate(1, std::size_t{1} << 30); });
    refuses([&] { (void)synced::pinned_resource(-2).allocate(1); });
    std::pmr::vector<char> kept(10, 'x', &pinned);
    throws(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, [&] { kept.resize(std::size_t{1} << 60); });
    CHECK(kept.size() == 10 && kept[9] == 'x'); // as the standard's containers promise
    throws(SYNCED_MEM_ERR_INVALID_STATE, [] { synced::check(synced_mem_shutdown()); });
}

const Test tests[] = {
    {"tensor_has_the_element_type", tensor_has_the_element_type, false},
    {"tensor_is_guarded", tensor_is_guarded, false},
    {"tensor_outlives_its_owner", tensor_outlives_its_owner, false},
    {"tensor_moves", tensor_moves, false},
    {"tensor_ends_with_an_exception", tensor_ends_with_an_exception, false},
    {"tensor_is_legacy", tensor_is_legacy, false},
    {"tensor_is_refused", tensor_is_refused, false},
    {"tensor_of_another_library", tensor_of_another_library, false},
    {"tensor_on_the_device", tensor_on_the_device, true},
    {"pinned_serves_containers", pinned_serves_containers, false},
    {"pinned_is_aligned", pinned_is_aligned, false},
    {"pinned_refuses", pinned_refuses, false},
};

} // namespace

template <> struct synced::dlpack_type<half> {
    static constexpr std::uint8_t code = kDLFloat;
    static constexpr std::uint8_t bits = 16;
};

namespace
{

void tensor_has_the_element_type()
{
    has_type<float>(kDLFloat, 32);
    has_type<double>(kDLFloat, 64);
    has_type<std::int8_t>(kDLInt, 8);
    has_type<std::int64_t>(kDLInt, 64);
    has_type<std::uint16_t>(kDLUInt, 16);
    has_type<bool>(6, 8);
    has_type<std::byte>(kDLUInt, 8);
    has_type<half>(kDLFloat, 16);
}

} // namespace

int main()
{
    return run_tests(tests);
}
