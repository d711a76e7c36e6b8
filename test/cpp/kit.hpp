// Shared by the tests of synced_mem.hpp: checks, and a table of tests that each leave no object behind.
#ifndef CPP_KIT_HPP
#define CPP_KIT_HPP

#include <synced_mem.hpp>

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime_api.h>

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

[[noreturn]] inline void check_failed(const char *file, int line, const char *condition)
{
    std::fprintf(stderr, "%s:%d: %s does not hold\n%s\n", file, line, condition, synced_mem_last_error_message());
    std::exit(EXIT_FAILURE);
}

inline std::uint64_t objects()
{
    synced_mem_stats stats;
    stats.struct_size = sizeof stats;
    CHECK(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    return stats.objects;
}

inline bool with_gpu()
{
    return synced_mem_device_count() > 0;
}

// A stream that ends with its block, after its use by the library.
class Stream
{
  public:
    Stream()
    {
        CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
    }
    ~Stream()
    {
        CHECK(synced_mem_forget_stream(stream_) == SYNCED_MEM_OK);
        CHECK(cudaStreamDestroy(stream_) == cudaSuccess);
    }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    operator cudaStream_t() const
    {
        return stream_;
    }

  private:
    cudaStream_t stream_ = nullptr;
};

#if SYNCED_MEM_EXCEPTIONS
// Calls a function that must throw an error of this status with a detail.
template <class Function> void throws(synced_mem_status status, Function function)
{
    try {
        function();
    } catch (const synced::error &error) {
        CHECK(error.what()[0] != '\0');
        if (error.status() != status)
            check_failed(error.what(), status, "the error's status");
        return;
    }
    CHECK(!"an error is thrown");
}

template <class Function> void refuses(Function function)
{
    throws(SYNCED_MEM_ERR_INVALID_ARGUMENT, function);
}
#endif

struct Test {
    const char *name;
    void (*run)();
    bool needs_gpu;
};

template <std::size_t COUNT> int run_tests(const Test (&tests)[COUNT])
{
    for (const Test &test : tests) {
        if (test.needs_gpu && !with_gpu())
            continue;
        test.run();
        if (objects() != 0) {
            std::fprintf(stderr, "%s leaves objects\n", test.name);
            return EXIT_FAILURE;
        }
    }
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return EXIT_SUCCESS;
}

#endif
