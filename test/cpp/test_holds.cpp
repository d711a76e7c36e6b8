// Holds of synced_mem.hpp.
#include "kit.hpp"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

using synced::hold;
using synced::memory;

namespace
{

constexpr std::size_t SIZE = 1 << 16;

static_assert(!std::is_copy_constructible_v<hold> && std::is_nothrow_move_assignable_v<hold>);

memory make_evictable(char value)
{
    synced::options options;
    options.evictable = 1;
    options.device = 0;
    memory mem(SIZE, options);
    std::memset(mem.overwrite_cpu_data(), value, SIZE);
    return mem;
}

bool is_held(const memory &mem)
{
    return synced_mem_gpu_data(mem.get()) != nullptr;
}

void set_budget(std::uint64_t bytes)
{
    synced::check(synced_mem_gpu_set_budget(0, bytes, nullptr));
}

void hold_ends()
{
    const memory mem = make_evictable(3);
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.gpu_data(); });
    {
        const hold now(mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
        CHECK(now && is_held(mem));
        const hold again(mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ); // holds count
    }
    CHECK(!is_held(mem));
    hold now(mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
    now.release();
    CHECK(!now && !is_held(mem));
    now.release();
}

void hold_ends_with_an_exception()
{
    memory mem = make_evictable(3);
    try {
        const hold now(mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_MUTABLE, nullptr);
        mem.resize(1);
        CHECK(!"a held object can't be resized");
    } catch (const synced::error &error) {
        CHECK(error.status() == SYNCED_MEM_ERR_INVALID_STATE);
    }
    CHECK(!is_held(mem));
    mem.resize(1);
}

void hold_of_several()
{
    std::vector<memory> several;
    for (int i = 0; i < 4; i++)
        several.push_back(make_evictable(static_cast<char>(i)));
    const std::array<synced_mem *, 2> handles = {several[0].get(), several[1].get()};
    {
        const hold all(several, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
        const hold two(handles, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
        const hold listed({several[2].get(), several[3].get()}, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
        for (const memory &each : several)
            CHECK(is_held(each));
    }
    for (const memory &each : several)
        CHECK(!is_held(each));
    const hold none(std::vector<memory>(), SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
    CHECK(none);
}

// All of them or none: with room for two, the third is not evicted for them.
void hold_of_too_many()
{
    memory three[] = {make_evictable(1), make_evictable(2), make_evictable(3)};
    set_budget(2 * SIZE);
    throws(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, [&] { hold never(three, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ); });
    for (const memory &each : three)
        CHECK(!is_held(each));
    for (int i = 0; i < 6; i++) {
        const hold now(three[i % 3], SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
        CHECK(is_held(three[i % 3]));
    }
    set_budget(SYNCED_MEM_NO_BUDGET);
}

void hold_moves()
{
    const memory one = make_evictable(1);
    const memory two = make_evictable(2);
    hold first(one, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
    hold second(std::move(first));
    CHECK(!first && second && is_held(one));
    hold &same = second;
    second = std::move(same);
    CHECK(second && is_held(one));
    second = hold(two, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ); // ends that of one
    CHECK(!is_held(one) && is_held(two));
    second = hold();
    CHECK(!is_held(two));
}

// The guard has a reference of its own, as a last release of a held object fails.
void hold_outlives_the_owner()
{
    memory mem = make_evictable(1);
    hold now(mem, SYNCED_MEM_SIDE_GPU, SYNCED_MEM_READ);
    mem.release();
    CHECK(objects() == 1);
    now.release();
    CHECK(objects() == 0);
}

void hold_on_the_host()
{
    synced::check(synced_mem_cpu_set_budget(std::uint64_t{1} << 40, nullptr, nullptr));
    synced::options options;
    options.evictable = 1;
    memory mem(SIZE, options);
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.cpu_data(); });
    {
        const hold now(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_OVERWRITE);
        std::memset(mem.overwrite_cpu_data(), 1, SIZE);
    }
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.cpu_data(); });
    synced::check(synced_mem_cpu_set_budget(SYNCED_MEM_NO_BUDGET, nullptr, nullptr));
    CHECK(mem.cpu_data<char>()[0] == 1);
}

void hold_is_refused()
{
    synced::options options;
    options.evictable = 1;
    const memory mem(SIZE, options);
    const memory other(SIZE); // not evictable
    const synced_mem_side side = SYNCED_MEM_SIDE_CPU;
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { hold never(other, side, SYNCED_MEM_READ); });
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { hold never({mem.get(), other.get()}, side, SYNCED_MEM_READ); });
    refuses([&] { hold never({mem.get(), mem.get()}, side, SYNCED_MEM_READ); });
    refuses([&] { hold never({mem.get(), nullptr}, side, SYNCED_MEM_READ); });
    refuses([&] { hold never(memory(), side, SYNCED_MEM_READ); });
    refuses([&] { hold never(mem, static_cast<synced_mem_side>(3), SYNCED_MEM_READ); });
    hold now(mem, side, SYNCED_MEM_OVERWRITE);
    synced_mem *const handle = mem.get();
    synced::check(synced_mem_unhold(handle, side)); // behind the guard's back
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { now.release(); });
    CHECK(now);
}

const Test tests[] = {
    {"hold_ends", hold_ends, true},
    {"hold_ends_with_an_exception", hold_ends_with_an_exception, true},
    {"hold_of_several", hold_of_several, true},
    {"hold_of_too_many", hold_of_too_many, true},
    {"hold_moves", hold_moves, true},
    {"hold_outlives_the_owner", hold_outlives_the_owner, true},
    {"hold_on_the_host", hold_on_the_host, false},
    {"hold_is_refused", hold_is_refused, false},
};

} // namespace

int main()
{
    return run_tests(tests);
}
