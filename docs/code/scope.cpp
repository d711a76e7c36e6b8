// Named scopes in C++. A scope ends with its block, also when an exception leaves the block. The program prints the
// summary of a trace without a file.
#include <synced_mem.hpp>

// [scope]
static void forward(synced::memory &mem)
{
    const synced::scope scope("forward");
    mem.mutable_cpu_data();
    if (synced_mem_device_count() > 0)
        mem.gpu_data();
}
// [end]

int main()
{
    // [summary]
    synced_mem_status status = synced_mem_trace_start(NULL);
    // [end]
    synced::check(status);
    synced::memory mem(1000);
    for (int i = 0; i < 3; i++)
        forward(mem);
    synced::check(synced_mem_trace_summary(stderr));
    mem.release();
    synced::check(synced_mem_trace_stop());
    synced::check(synced_mem_shutdown());
}
