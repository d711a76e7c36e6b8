// synced_mem.hpp without exceptions: failures are statuses, empty owners and guards, and accesses to NULL.
#include "kit.hpp"

#include "../../docs/code/dlpack/dlpack.h"

#include <cstring>
#include <utility>

#if SYNCED_MEM_EXCEPTIONS
#error "compile this file without exceptions"
#endif

using synced::memory;

namespace
{

constexpr std::size_t SIZE = 100;

void calls_return_statuses()
{
    memory mem(SIZE);
    CHECK(mem);
    std::memset(mem.overwrite_cpu_data(), 1, SIZE);
    CHECK(mem.resize(2 * SIZE) == SYNCED_MEM_OK && mem.cpu_data<char>()[SIZE] == 0);
    CHECK(mem.resize(SIZE_MAX) == SYNCED_MEM_ERR_INVALID_ARGUMENT && mem.size() == 2 * SIZE);
    CHECK(mem.clear() == SYNCED_MEM_OK && mem.async_gpu_push(nullptr) == SYNCED_MEM_ERR_INVALID_STATE);
    CHECK(mem.release() == SYNCED_MEM_OK && !mem && mem.release() == SYNCED_MEM_OK);
    CHECK(synced::check(SYNCED_MEM_ERR_TIMEOUT) == SYNCED_MEM_ERR_TIMEOUT);
}

void makers_give_empty_owners()
{
    const memory never(SIZE_MAX);
    CHECK(!never && synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_ARGUMENT);
    CHECK(!never.cpu_data() && never.cpu_data().size() == 0 && !never.view(0, 0) && !never.retain());
    CHECK(!memory::retain(nullptr) && !memory::receive(-1, 0));
    memory mem(SIZE);
    CHECK(!mem.view(1, SIZE) && mem.view(0, SIZE));
    memory moved = std::move(mem);
    CHECK(!mem && !mem.mutable_cpu_data() && mem.wait() == SYNCED_MEM_ERR_INVALID_ARGUMENT);
    if (!with_gpu())
        CHECK(!moved.gpu_data() && synced_mem_last_error() == SYNCED_MEM_ERR_NO_GPU);
    else
        CHECK(moved.gpu_data().size() == SIZE);
}

void guards_are_empty()
{
    memory mem(SIZE);
    CHECK(!mem.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, {1000}));
    synced::tensor tensor = mem.to_dlpack<char>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {2, 2});
    CHECK(tensor && mem.resize(1) == SYNCED_MEM_ERR_INVALID_STATE);
    tensor->dl_tensor.strides[0] = 9;
    CHECK(!memory::from_dlpack(std::move(tensor)) && tensor);
    tensor->dl_tensor.strides[0] = 2;
    CHECK(memory::from_dlpack(std::move(tensor)).size() == 4 && !tensor);
    const synced::turn never(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 0);
    CHECK(!never && synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_STATE);
    const synced::turn of_nothing(memory(), SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 0);
    CHECK(!of_nothing && synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_ARGUMENT);
}

void holds_return_statuses()
{
    synced::options options;
    options.evictable = 1;
    memory mem(SIZE, options);
    const synced::hold never({mem.get(), mem.get()}, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ);
    CHECK(!never && synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_ARGUMENT);
    synced::hold now(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_OVERWRITE);
    CHECK(now && mem.resize(1) == SYNCED_MEM_ERR_INVALID_STATE);
    synced_mem *const handle = mem.get();
    CHECK(synced_mem_unhold(handle, SYNCED_MEM_SIDE_CPU) == SYNCED_MEM_OK);
    CHECK(now.release() == SYNCED_MEM_ERR_INVALID_STATE && now);
    CHECK(synced_mem_hold(handle, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_READ, nullptr) == SYNCED_MEM_OK);
    CHECK(now.release() == SYNCED_MEM_OK && !now && now.release() == SYNCED_MEM_OK && mem.resize(1) == SYNCED_MEM_OK);
}

void files_return_statuses()
{
    const synced::file never(-1);
    memory mem(SIZE);
    CHECK(!never && synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_ARGUMENT && !never.retain());
    CHECK(never.wait() == SYNCED_MEM_ERR_INVALID_ARGUMENT && mem.use_file(never, 0) == SYNCED_MEM_ERR_INVALID_ARGUMENT);
}

#ifdef __linux__
void turns_return_statuses()
{
    synced::options options;
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    memory mem(SIZE, options);
    synced::turn turn = synced::turn::adopt(mem);
    synced::tensor tensor = mem.to_dlpack<char>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {1});
    CHECK(turn.release() == SYNCED_MEM_ERR_INVALID_STATE && turn);
    CHECK(turn.abandon() == SYNCED_MEM_ERR_INVALID_STATE && turn);
    tensor = synced::tensor();
    CHECK(turn.release() == SYNCED_MEM_OK && !turn && turn.release() == SYNCED_MEM_OK);
}

void slots_return_statuses()
{
    synced::options options;
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    memory mem(SIZE, options);
    synced::slot slot(mem, 3);
    CHECK(slot && !synced::slot(mem, 3) && synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_STATE);
    CHECK(synced::turn::adopt(mem).release() == SYNCED_MEM_OK);
    CHECK(!synced::turn::begin_consumed(mem, SYNCED_MEM_SIDE_CPU, 0));
    CHECK(synced_mem_last_error() == SYNCED_MEM_ERR_TIMEOUT);
    CHECK(synced::turn::begin_slot(mem, SYNCED_MEM_SIDE_CPU, slot.number(), 0));
    CHECK(slot.release() == SYNCED_MEM_OK && !slot && slot.release() == SYNCED_MEM_OK);
    CHECK(!synced::turn::begin_slot(mem, SYNCED_MEM_SIDE_CPU, 3, 0));
    CHECK(synced::slot::adopt(mem, 3).release() == SYNCED_MEM_ERR_INVALID_STATE);
}
#endif

const Test tests[] = {
    {"calls_return_statuses", calls_return_statuses, false},
    {"makers_give_empty_owners", makers_give_empty_owners, false},
    {"guards_are_empty", guards_are_empty, false},
    {"holds_return_statuses", holds_return_statuses, false},
    {"files_return_statuses", files_return_statuses, false},
#ifdef __linux__
    {"turns_return_statuses", turns_return_statuses, false},
    {"slots_return_statuses", slots_return_statuses, false},
#endif
};

} // namespace

int main()
{
    return run_tests(tests);
}
