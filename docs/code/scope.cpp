// Named scopes in C++. A scope ends with its block, also when an exception leaves the block. The program prints the
// summary of a trace without a file.
#include <synced_mem.h>

#include <cstdlib>
#include <stdexcept>

// [scope]
class Scope
{
  public:
    explicit Scope(const char *name) { synced_mem_scope_begin(name); }
    ~Scope() { synced_mem_scope_end(); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;
};
// [end]

static void forward(synced_mem *mem)
{
    Scope scope("forward");
    if (!synced_mem_mutable_cpu_data(mem))
        throw std::runtime_error(synced_mem_last_error_message());
    if (synced_mem_device_count() > 0 && !synced_mem_gpu_data(mem))
        throw std::runtime_error(synced_mem_last_error_message());
}

int main()
{
    synced_mem *mem;
    // [summary]
    synced_mem_status status = synced_mem_trace_start(NULL);
    // [end]
    if (status != SYNCED_MEM_OK || synced_mem_create(&mem, 1000, NULL) != SYNCED_MEM_OK)
        return EXIT_FAILURE;
    for (int i = 0; i < 3; i++)
        forward(mem);
    if (synced_mem_trace_summary(stderr) != SYNCED_MEM_OK || synced_mem_release(mem) != SYNCED_MEM_OK)
        return EXIT_FAILURE;
    return synced_mem_trace_stop() == SYNCED_MEM_OK && synced_mem_shutdown() == SYNCED_MEM_OK ? EXIT_SUCCESS
                                                                                             : EXIT_FAILURE;
}
