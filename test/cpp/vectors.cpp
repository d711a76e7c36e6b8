// Vectors in page-locked memory that are pushed to the device. What the device has is read back by the test itself.
#include "kit.hpp"

#include <algorithm>
#include <memory_resource>
#include <random>
#include <utility>
#include <vector>

namespace
{

using Vector = std::pmr::vector<int>;

// Reads the device copy by a copy of the test's own, on the stream of the push.
std::vector<int> read_device(const synced::memory &mem, cudaStream_t stream)
{
    std::vector<int> found(mem.size() / sizeof(int));
    CHECK(cudaMemcpyAsync(found.data(), mem.gpu_data_on(stream), mem.size(), cudaMemcpyDeviceToHost, stream) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    return found;
}

void vectors_reach_the_device()
{
    synced::pinned_resource pinned;
    std::mt19937 random(1);
    const Stream stream;
    for (int round = 0; round < 50; round++) {
        Vector numbers(&pinned);
        const std::size_t count = 1 + random() % 5000;
        for (std::size_t i = 0; i < count; i++)
            numbers.push_back(static_cast<int>(random()));
        synced::memory mem(numbers.size() * sizeof(int));
        mem.set_cpu_data(numbers.data());
        mem.async_gpu_push(stream);
        CHECK(synced_mem_cpu_is_pinned(mem.get())); // the library asks when it uses the device
        const std::vector<int> found = read_device(mem, stream);
        CHECK(std::equal(found.begin(), found.end(), numbers.begin(), numbers.end()));
    }
}

// The device writes the vector, and the vector ends while other memory is pushed.
void vectors_come_back()
{
    synced::pinned_resource pinned;
    const Stream stream;
    for (int round = 0; round < 50; round++) {
        Vector numbers(1000, round, &pinned);
        synced::memory mem(numbers.size() * sizeof(int));
        mem.set_cpu_data(numbers.data());
        CHECK(cudaMemsetAsync(mem.mutable_gpu_data_on<int>(stream) + 500, 0, 500 * sizeof(int), stream) == cudaSuccess);
        mem.async_cpu_pull(stream);
        const auto back = mem.cpu_data<int>();
        CHECK(back.data() == numbers.data() && numbers[0] == round && numbers[499] == round && numbers[999] == 0);
        mem.async_gpu_push(stream);
    }
}

// Moves and swaps of containers keep the memory, and a pool of the standard's on top gives it back.
void containers_share_a_resource()
{
    synced::pinned_resource pinned;
    {
        Vector one({1, 2, 3}, &pinned);
        const int *const data = one.data();
        Vector two(std::move(one));
        CHECK(two.data() == data && objects() == 1);
        Vector three(&pinned);
        three = std::move(two);
        CHECK(three.data() == data);
        Vector on_heap(three, std::pmr::new_delete_resource());
        three = std::move(on_heap); // another resource: a copy
        CHECK(three.size() == 3 && three.get_allocator().resource() == &pinned);
    }
    CHECK(objects() == 0);
    std::pmr::monotonic_buffer_resource pool(1 << 16, &pinned);
    std::pmr::vector<Vector> nested(&pool);
    for (int i = 0; i < 100; i++)
        nested.emplace_back(static_cast<std::size_t>(i), i);
    CHECK(nested[99].back() == 99 && objects() < 5);
}

const Test tests[] = {
    {"vectors_reach_the_device", vectors_reach_the_device, true},
    {"vectors_come_back", vectors_come_back, true},
    {"containers_share_a_resource", containers_share_a_resource, false},
};

} // namespace

int main()
{
    return run_tests(tests);
}
