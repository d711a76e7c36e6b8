/*
 * A quick test of the emulated runtime by itself: time, memory, failures and misuse, over several seeds. Exits with 1
 * at the first failed check.
 */
#include "selftest.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEDS 40 /* as each takes a multiple of the time */
#define FEW_SEEDS 8
#else
#define SEEDS 200
#define FEW_SEEDS 40 /* for the tests that fill megabytes */
#endif

uint64_t seed;

/* ---- Helpers ---- */

unsigned char *pinned(unsigned char value)
{
    void *memory;
    OK(cudaMallocHost(&memory, SIZE));
    memset(memory, value, SIZE);
    return memory;
}

void *device_memory(void)
{
    void *memory;
    OK(cudaMalloc(&memory, SIZE));
    return memory;
}

cudaStream_t stream_of(unsigned flags)
{
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

cudaEvent_t new_event(void)
{
    cudaEvent_t event;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

cudaMemPool_t new_pool(int device)
{
    struct cudaMemPoolProps props;
    cudaMemPool_t pool;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = device;
    OK(cudaMemPoolCreate(&pool, &props));
    return pool;
}

uint64_t pool_number(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
    uint64_t value = 0;
    OK(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

int peek(const void *memory)
{
    unsigned char byte;
    return emu_peek(memory, &byte, 1) ? byte : -1;
}

void increment(void *argument)
{
    const struct increment *work = argument;
    unsigned char *bytes = emu_pointer(work->data);
    for (size_t i = 0; bytes != NULL && i < work->size; i++)
        bytes[i] = (unsigned char)(bytes[i] + work->add);
}

void launch_increment(cudaStream_t stream, struct increment *work)
{
    const struct emu_range range = {work->data, work->size, true};
    OK(emu_launch(stream, increment, work, &range, 1));
}

/* ---- All of it ---- */

static void run(void (*const *tests)(void))
{
    for (; *tests != NULL; tests++) {
        emu_reset(seed);
        (*tests)();
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "take_part") == 0)
        return selftest_process(atoi(argv[2]));
    for (seed = 0; seed < 3; seed++) {
        run(mapping_tests_once);
        run(process_tests_once);
    }
    for (seed = 0; seed < SEEDS; seed++) {
        run(order_tests);
        run(memory_tests);
        run(failure_tests);
        run(capture_tests);
        run(race_tests);
        if (seed >= FEW_SEEDS)
            continue;
        run(mapping_tests);
        run(process_tests);
    }
    for (seed = 0; seed < 3; seed++) {
        run(order_tests_once);
        run(failure_tests_once);
        run(capture_tests_once);
        run(race_tests_once);
    }
    emu_reset(0);
    puts("cudart_emu: all right");
    return 0;
}
