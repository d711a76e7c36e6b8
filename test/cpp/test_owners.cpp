// Owners, accesses and failures of synced_mem.hpp, with exceptions.
#include "kit.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

using synced::access;
using synced::memory;

namespace
{

constexpr std::size_t SIZE = 1000;

static_assert(std::is_nothrow_move_constructible_v<memory> && std::is_nothrow_move_assignable_v<memory>);
static_assert(!std::is_copy_constructible_v<memory> && !std::is_copy_assignable_v<memory>);
static_assert(!std::is_convertible_v<std::size_t, memory>);
static_assert(std::is_nothrow_swappable_v<memory> && sizeof(memory) == sizeof(synced_mem *));
static_assert(std::is_trivially_copyable_v<access<float>>);
static_assert(std::is_convertible_v<access<float>, access<const float>>);
static_assert(!std::is_convertible_v<access<const float>, access<float>>);
static_assert(!std::is_convertible_v<access<float>, access<const int>>);
static_assert(std::is_convertible_v<access<float>, const void *>);
static_assert(!std::is_convertible_v<access<const float>, void *>);
static_assert(std::is_same_v<decltype(std::declval<const memory &>().cpu_data<int>()), access<const int>>);

// ---- Owners ----

void owner_releases()
{
    {
        const memory mem(SIZE);
        CHECK(mem && mem.size() == SIZE && mem.head() == SYNCED_MEM_UNINITIALIZED && objects() == 1);
    }
    CHECK(objects() == 0);
    memory mem(0);
    CHECK(mem && mem.size() == 0 && mem.cpu_data() && mem.cpu_data().empty());
    mem.release();
    CHECK(!mem && objects() == 0);
    mem.release();
}

void owner_takes_options()
{
    synced::options options;
    options.name = "weights";
    options.alignment = 4096;
    options.device = 3;
    memory mem(SIZE, options);
    CHECK(std::string(mem.name()) == "weights" && mem.device() == 3);
    options.device = SYNCED_MEM_DEVICE_CURRENT;
    memory on_host(SIZE, options);
    CHECK(reinterpret_cast<std::uintptr_t>(on_host.cpu_data().data()) % 4096 == 0);
}

void owner_moves()
{
    memory one(SIZE);
    synced_mem *const handle = one.get();
    memory two(std::move(one));
    CHECK(!one && two.get() == handle && objects() == 1);
    memory three(SIZE);
    three = std::move(two);
    CHECK(!two && three.get() == handle && objects() == 1);
    memory &same = three;
    three = std::move(same);
    CHECK(three.get() == handle && objects() == 1);
    one = std::move(two); // both are empty
    CHECK(!one && !two);
    swap(one, three);
    CHECK(one.get() == handle && !three);
    std::vector<memory> all;
    for (std::size_t i = 0; i < 100; i++)
        all.emplace_back(i);
    for (std::size_t i = 0; i < 100; i++)
        CHECK(all[i].size() == i);
    all.erase(all.begin(), all.begin() + 50);
    CHECK(objects() == 51 && all.front().size() == 50);
}

void owner_retains()
{
    memory one(SIZE);
    one.mutable_cpu_data<char>()[0] = 7;
    memory two = one.retain();
    CHECK(two.get() == one.get() && objects() == 1);
    one.release();
    CHECK(two.cpu_data<char>()[0] == 7);
    memory three = memory::retain(two.get());
    two = memory();
    CHECK(three.cpu_data<char>()[0] == 7 && objects() == 1);
}

void owner_exchanges_with_c()
{
    synced_mem *made;
    CHECK(synced_mem_create(&made, SIZE, nullptr) == SYNCED_MEM_OK);
    memory mem = memory::take(made);
    CHECK(mem.get() == made);
    made = mem.detach();
    CHECK(!mem && synced_mem_release(made) == SYNCED_MEM_OK);
    CHECK(!memory::take(nullptr));
    refuses([] { (void)memory::retain(nullptr); });
}

// Each call on an empty owner is refused, and no fact of it ends the program.
void owner_is_empty()
{
    memory mem(SIZE);
    memory other(SIZE);
    const memory moved(std::move(mem));
    CHECK(!mem && mem.size() == 0 && mem.device() == -1 && std::strlen(mem.name()) == 0);
    CHECK(mem.head() == SYNCED_MEM_UNINITIALIZED);
    synced_mem_memory use = {};
    use.struct_size = sizeof use;
    refuses([&] { mem.cpu_data(); });
    refuses([&] { mem.mutable_cpu_data(); });
    refuses([&] { mem.overwrite_cpu_data(); });
    refuses([&] { mem.gpu_data(); });
    refuses([&] { mem.mutable_gpu_data(); });
    refuses([&] { mem.overwrite_gpu_data(); });
    refuses([&] { mem.gpu_data_on(nullptr); });
    refuses([&] { mem.mutable_gpu_data_on(nullptr); });
    refuses([&] { mem.overwrite_gpu_data_on(nullptr); });
    refuses([&] { mem.async_gpu_push(nullptr); });
    refuses([&] { mem.async_cpu_pull(nullptr); });
    refuses([&] { mem.end_use_on(nullptr); });
    refuses([&] { mem.wait(); });
    refuses([&] { mem.async_gpu_copy(other, nullptr); });
    refuses([&] { other.async_gpu_copy(mem, nullptr); });
    refuses([&] { mem.cpu_copy(other); });
    refuses([&] { other.cpu_copy(mem); });
    refuses([&] { mem.copy(0, other, 0, 1); });
    refuses([&] { other.copy(0, mem, 0, 1); });
    refuses([&] { mem.clear(); });
    refuses([&] { mem.resize(1); });
    refuses([&] { mem.resize_discard(1); });
    refuses([&] { mem.release_cpu_data(); });
    refuses([&] { mem.release_gpu_data(); });
    refuses([&] { mem.release_data(); });
    refuses([&] { mem.set_cpu_data(&use); });
    refuses([&] { mem.set_gpu_data(&use); });
    refuses([&] { mem.use_memory(use); });
    refuses([&] { mem.share(0, 0); });
    refuses([&] { (void)mem.retain(); });
    refuses([&] { (void)mem.view(0, 0); });
    refuses([&] { synced::turn turn(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 0); });
    refuses([&] { (void)synced::turn::adopt(mem); });
    CHECK(moved.size() == SIZE);
}

// ---- Accesses ----

void access_has_elements()
{
    memory mem(10 * sizeof(int) + 3);
    const access<int> all = mem.overwrite_cpu_data<int>();
    CHECK(all.size() == 10 && !all.empty() && all.mem() == mem.get());
    int next = 0;
    for (int &one : all)
        one = next++;
    const access<const int> read = mem.cpu_data<int>();
    CHECK(read.data() == all.data() && read[9] == 9 && read.end() - read.begin() == 10);
    const access<const int> also = all;
    CHECK(also.data() == all.data() && also.size() == 10);
    const void *const bytes = mem.cpu_data();
    CHECK(bytes == all.data() && mem.cpu_data().size() == 10 * sizeof(int) + 3);
#ifdef __cpp_lib_span
    const std::span<const int> span = mem.cpu_data<int>().span();
    CHECK(span.size() == 10 && span.data() == all.data() && span.back() == 9);
#endif
    const access<int> nothing;
    CHECK(nothing.empty() && nothing.begin() == nothing.end() && !nothing);
}

// An access sees the size of now, so a resize makes it shorter and never longer than the memory that was returned.
void access_follows_the_size()
{
    memory mem(SIZE);
    const access<char> all = mem.mutable_cpu_data<char>();
    mem.resize(10);
    CHECK(all.size() == 10);
}

void access_moves_contents()
{
    memory mem(SIZE);
    std::memset(mem.overwrite_cpu_data(), 1, SIZE);
    CHECK(mem.gpu_data() && mem.head() == SYNCED_MEM_SYNCED);
    CHECK(cudaMemset(mem.mutable_gpu_data<char>(), 2, SIZE) == cudaSuccess);
    CHECK(mem.head() == SYNCED_MEM_AT_GPU);
    CHECK(mem.cpu_data<char>()[SIZE - 1] == 2);
    CHECK(cudaMemset(mem.overwrite_gpu_data(), 3, SIZE) == cudaSuccess);
    CHECK(mem.cpu_data<char>()[0] == 3);
}

void access_on_streams()
{
    const Stream one, two;
    memory mem(SIZE);
    memory copy(SIZE);
    std::memset(mem.overwrite_cpu_data(), 1, SIZE);
    mem.async_gpu_push(one);
    CHECK(cudaMemcpyAsync(copy.overwrite_gpu_data_on(two), mem.gpu_data_on(two), SIZE, cudaMemcpyDeviceToDevice, two) ==
          cudaSuccess);
    CHECK(cudaMemsetAsync(mem.mutable_gpu_data_on<char>(one) + 1, 2, SIZE - 1, one) == cudaSuccess);
    mem.end_use_on(one);
    mem.async_cpu_pull(one);
    mem.wait();
    CHECK(mem.cpu_data<char>()[0] == 1 && mem.cpu_data<char>()[1] == 2);
    CHECK(copy.cpu_data<char>()[0] == 1 && copy.cpu_data<char>()[1] == 1);
}

void copies_and_contents()
{
    memory from(SIZE);
    memory to(SIZE);
    std::memset(from.overwrite_cpu_data(), 5, SIZE);
    to.cpu_copy(from);
    CHECK(to.cpu_data<char>()[SIZE - 1] == 5 && to.head() == SYNCED_MEM_AT_CPU);
    to.clear();
    CHECK(to.head() == SYNCED_MEM_UNINITIALIZED && to.cpu_data<char>()[0] == 0);
    to.copy(10, from, 0, 1);
    CHECK(to.cpu_data<char>()[9] == 0 && to.cpu_data<char>()[10] == 5 && to.cpu_data<char>()[11] == 0);
    to.resize(2 * SIZE);
    CHECK(to.size() == 2 * SIZE && to.cpu_data<char>()[10] == 5);
    to.resize_discard(SIZE);
    CHECK(to.head() == SYNCED_MEM_UNINITIALIZED);
    to.release_cpu_data();
    to.release_gpu_data();
    to.release_data();
    char mine[SIZE] = {9};
    to.set_cpu_data(mine);
    CHECK(to.cpu_data<char>().data() == mine);
    if (!with_gpu())
        return;
    const Stream stream;
    memory on_device(SIZE);
    on_device.async_gpu_copy(from, stream);
    CHECK(on_device.head() == SYNCED_MEM_AT_GPU && on_device.cpu_data<char>()[1] == 5);
}

void views_are_objects()
{
    memory root(SIZE);
    root.mutable_cpu_data();
    {
        memory view = root.view(100, 50);
        CHECK(view.size() == 50 && synced_mem_root(view.get()) == root.get());
        view.mutable_cpu_data<char>()[0] = 3;
        throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { root.resize(1); });
    }
    CHECK(root.cpu_data<char>()[100] == 3 && objects() == 1);
}

// ---- Failures ----

void bad_input_is_an_error()
{
    refuses([] { memory mem(SIZE_MAX); });
    refuses([] {
        synced::options options;
        options.alignment = 3;
        memory mem(SIZE, options);
    });
    refuses([] {
        synced::options options;
        options.struct_size = 0;
        memory mem(SIZE, options);
    });
    memory mem(SIZE);
    memory larger(2 * SIZE);
    mem.mutable_cpu_data<char>()[0] = 1;
    refuses([&] { (void)mem.view(1, SIZE); });
    refuses([&] { mem.resize(SIZE_MAX); });
    refuses([&] { mem.cpu_copy(larger); });
    refuses([&] { mem.cpu_copy(mem); });
    refuses([&] { mem.set_cpu_data(nullptr); });
    refuses([&] { mem.async_gpu_push(synced::no_stream()); });
    refuses([&] { mem.gpu_data_on(synced::library_stream()); });
    refuses([&] { (void)memory::receive(-1, 0); });
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { larger.async_gpu_push(nullptr); });
    CHECK(mem.size() == SIZE && mem.head() == SYNCED_MEM_AT_CPU && mem.cpu_data<char>()[0] == 1);
    if (!with_gpu())
        throws(SYNCED_MEM_ERR_NO_GPU, [&] { mem.gpu_data(); });
}

void error_has_status_and_detail()
{
    try {
        synced::check(synced_mem_set_cpu_data(nullptr, nullptr));
        CHECK(!"an error is thrown");
    } catch (const std::exception &error) { // the standard's handlers catch it
        CHECK(std::strstr(error.what(), "synced_mem_set_cpu_data"));
    }
    // The last failed call had another status, so its detail is not this error's.
    const synced::error timeout(SYNCED_MEM_ERR_TIMEOUT);
    CHECK(timeout.status() == SYNCED_MEM_ERR_TIMEOUT && std::string(timeout.what()) == "the time is over");
    const synced::error copy(timeout);
    CHECK(copy.status() == timeout.status() && std::string(copy.what()) == timeout.what());
    synced::check(SYNCED_MEM_OK);
    int value = 0;
    CHECK(synced::check(&value) == &value);
    refuses([] { synced::check(synced_mem_cpu_data(nullptr)); });
    CHECK(synced::no_stream() == SYNCED_MEM_NO_STREAM && synced::library_stream() == SYNCED_MEM_STREAM_LIBRARY);
}

// An exception of the program's own leaves a block with an owner, a scope and an access.
void exceptions_leave_nothing()
{
    for (int round = 0; round < 3; round++) {
        try {
            const synced::scope scope("round");
            memory mem(SIZE);
            memory view = mem.view(0, 10);
            view.mutable_cpu_data<char>()[0] = 1;
            throw round;
        } catch (int caught) {
            CHECK(caught == round && objects() == 0);
        }
    }
}

const Test tests[] = {
    {"owner_releases", owner_releases, false},
    {"owner_takes_options", owner_takes_options, true},
    {"owner_moves", owner_moves, false},
    {"owner_retains", owner_retains, false},
    {"owner_exchanges_with_c", owner_exchanges_with_c, false},
    {"owner_is_empty", owner_is_empty, false},
    {"access_has_elements", access_has_elements, false},
    {"access_follows_the_size", access_follows_the_size, false},
    {"access_moves_contents", access_moves_contents, true},
    {"access_on_streams", access_on_streams, true},
    {"copies_and_contents", copies_and_contents, false},
    {"views_are_objects", views_are_objects, false},
    {"bad_input_is_an_error", bad_input_is_an_error, false},
    {"error_has_status_and_detail", error_has_status_and_detail, false},
    {"exceptions_leave_nothing", exceptions_leave_nothing, false},
};

} // namespace

int main()
{
    return run_tests(tests);
}
