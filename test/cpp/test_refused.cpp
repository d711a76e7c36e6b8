// Refused memory in C++: the error has the status, and objects and containers stay as they were.
#include "kit.hpp"

#include <cstring>
#include <cudart_emu.h>
#include <memory_resource>
#include <vector>

namespace
{

constexpr std::size_t LIMIT = 4 << 20;

void device_memory_is_refused()
{
    synced::memory mem(2 * LIMIT);
    std::memset(mem.overwrite_cpu_data(), 3, mem.size());
    const Stream stream;
    throws(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, [&] { mem.gpu_data(); });
    throws(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, [&] { mem.overwrite_gpu_data_on(stream); });
    throws(SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY, [&] { mem.async_gpu_push(stream); });
    CHECK(mem.head() == SYNCED_MEM_AT_CPU && mem.cpu_data<char>()[2 * LIMIT - 1] == 3);
}

void page_locked_memory_is_refused()
{
    synced::pinned_resource pinned;
    std::pmr::vector<char> kept(1000, 'x', &pinned);
    throws(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, [&] { kept.resize(2 * LIMIT); });
    CHECK(kept.size() == 1000 && kept[999] == 'x' && objects() == 1);
    kept.resize(2000, 'y');
    CHECK(kept[1999] == 'y');
}

// The end of an object that waits for a transfer on borrowed memory.
void release_reports()
{
    char mine[1000] = {1};
    synced::memory mem(sizeof mine);
    const Stream stream;
    mem.set_cpu_data(mine);
    mem.mutable_gpu_data_on(stream);
    mem.async_cpu_pull(stream);
    emu_fail("cudaEventSynchronize", 1, cudaErrorUnknown, false);
    throws(SYNCED_MEM_ERR_CUDA, [&] { mem.release(); });
    CHECK(mem.get() != nullptr); // the reference stays
    emu_fail_clear();
    mem.release();
    CHECK(!mem);
}

const Test tests[] = {
    {"device_memory_is_refused", device_memory_is_refused, true},
    {"page_locked_memory_is_refused", page_locked_memory_is_refused, true},
    {"release_reports", release_reports, true},
};

} // namespace

int main()
{
    emu_set_device_memory(0, LIMIT);
    emu_set_pinned_memory(LIMIT);
    return run_tests(tests);
}
