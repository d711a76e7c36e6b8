// A user's program in C++17, which uses synced_mem.hpp alone.
#include <synced_mem.hpp>

#include <cstdio>
#include <cstring>

static bool works()
{
    synced::memory mem(100);
    std::memset(mem.overwrite_cpu_data(), 7, mem.size());
    if (synced_mem_device_count() > 0 && !mem.gpu_data())
        return false;
    synced::memory view = mem.view(99, 1);
    return view.cpu_data<char>()[0] == 7;
}

int main()
{
    try {
        if (!works())
            return 1;
        synced::check(synced_mem_shutdown());
        synced::memory never(SIZE_MAX);
    } catch (const synced::error &error) {
        std::printf("%s\n", error.what());
        return error.status() == SYNCED_MEM_ERR_INVALID_ARGUMENT ? 0 : 1;
    }
    return 1;
}
