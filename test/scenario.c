/* Lives of objects in which something may fail. */
#include "scenario.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the caller brings has the alignment that some of the objects ask for. */
enum { STEPS = 40, SIZE = 70000, ALIGNMENT = 4096, ROOM = SIZE / ALIGNMENT * ALIGNMENT + ALIGNMENT };

static const enum step scenarios[][STEPS] = {
    /* Without a GPU. An object that names its device leaves the caller free to be on another. */
    {CREATE, CPU_READ, CPU_WRITE, RELEASE_DATA, CPU_OVERWRITE, CPU_READ, RELEASE, SHUTDOWN, CREATE, CPU_WRITE, RELEASE},
    {CREATE_NAMED, CPU_WRITE, SET_CPU, CPU_READ, CPU_WRITE, ADOPT_CPU, CPU_READ, RELEASE_DATA, CPU_READ, RETAIN,
     RELEASE, RELEASE},
    /* Back and forth */
    {CREATE, CPU_WRITE, GPU_READ, CPU_READ, GPU_WRITE, CPU_READ, CPU_WRITE, GPU_WRITE, CPU_WRITE, GPU_READ, GPU_WRITE,
     RELEASE},
    {CREATE_NAMED, GPU_READ, CPU_READ, GPU_OVERWRITE, CPU_WRITE, GPU_OVERWRITE, CPU_OVERWRITE, GPU_READ, RELEASE,
     SHUTDOWN, CREATE_NAMED, CPU_WRITE, GPU_READ, RELEASE},
    /* Pushes */
    {CREATE, CPU_WRITE, PUSH_STREAM, GPU_READ, CPU_WRITE, PUSH_LEGACY, CPU_WRITE, PUSH_STREAM, GPU_WRITE, CPU_READ,
     CPU_OVERWRITE, PUSH_STREAM, RELEASE},
    {CREATE_NAMED, CPU_WRITE, PUSH_STREAM, PUSH_LEGACY, RELEASE_CPU, CPU_READ, RELEASE_GPU, PUSH_STREAM, RELEASE_DATA,
     CPU_WRITE, PUSH_LEGACY, GPU_READ, RELEASE},
    /* Sides that come and go */
    {CREATE, CPU_WRITE, RELEASE_CPU, GPU_READ, RELEASE_GPU, CPU_READ, GPU_READ, RELEASE_GPU, GPU_WRITE, RELEASE_CPU,
     RELEASE_GPU, RELEASE_CPU, CPU_WRITE, RELEASE_DATA, GPU_READ, RELEASE},
    /* Memory of the caller's */
    {CREATE, SET_CPU, PUSH_STREAM, SET_GPU, CPU_READ, SET_BOTH, GPU_WRITE, CPU_WRITE, PUSH_STREAM, RELEASE_CPU,
     CPU_READ, GPU_READ, RELEASE},
    {CREATE_NAMED, ADOPT_CPU, PUSH_STREAM, CPU_WRITE, GPU_WRITE, RELEASE_DATA, ADOPT_GPU, CPU_READ, GPU_WRITE, RELEASE},
    {CREATE, ADOPT_BOTH, GPU_READ, CPU_WRITE, PUSH_STREAM, SET_CPU, GPU_READ, RELEASE_GPU, PUSH_LEGACY, RELEASE},
};
const int scenario_count = sizeof scenarios / sizeof scenarios[0];
const int scenario_count_without_gpu = 2;

/* What the one object of a scenario has to be like. */
static struct {
    synced_mem *mem;
    unsigned references;
    unsigned pattern; /* of the contents */
    unsigned fresh;   /* the last one that was used */
    const void *host; /* where the host has the contents, or NULL */
    int caller_on;    /* the caller's current device */
    bool given_up;    /* the device is lost */
    int owed, called; /* callbacks */
    const char *doing;
} now;

/* What the caller brings. */
static struct {
    void *host, *host_of_both, *adopted_host; /* all different, so that none is written while the object uses it */
    void *device, *device_of_both, *adopted_device;
    void *device_memory;               /* what these three are in */
    synced_mem_stream stream, kernels; /* the one of pushes; the other is a blocking stream */
    int devices;
} mine;

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: at %s, not so: %s; last error: %s\n", __FILE__, __LINE__, now.doing,         \
                          #condition, synced_mem_last_error_message());                                                \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)

/* The device of all objects, and of the streams and memory that the caller brings. */
static int home(void)
{
    return mine.devices > 0 ? mine.devices - 1 : 0;
}

static void *host_memory(void)
{
    void *const data = aligned_alloc(ALIGNMENT, ROOM);
    ck_assert_ptr_nonnull(data);
    return data;
}

void scenario_prepare(int scenario, int device_count, bool at_home)
{
    mine.devices = device_count;
    const int on = home();
    mine.host = host_memory();
    mine.host_of_both = host_memory();
    mine.adopted_host = host_memory();
    if (!gpu_expected())
        return;
    char *const memory = mine.device_memory = gpu_alloc(on, 3 * ROOM + ALIGNMENT);
    mine.device = memory + (0 - (uintptr_t)memory) % ALIGNMENT;
    mine.device_of_both = (char *)mine.device + ROOM;
    mine.adopted_device = (char *)mine.device + 2 * ROOM;
    mine.stream = gpu_stream_create(on, false);
    mine.kernels = gpu_stream_create(on, true);
    now.caller_on = scenarios[scenario][0] == CREATE_NAMED && !at_home ? 0 : on;
    gpu_make_current(now.caller_on);
}

void scenario_clean_up(void)
{
    free(mine.host);
    free(mine.host_of_both);
    free(mine.adopted_host);
    if (!gpu_expected())
        return;
    gpu_stream_sync(mine.stream);
    gpu_stream_destroy(mine.stream);
    gpu_stream_sync(mine.kernels);
    gpu_stream_destroy(mine.kernels);
    gpu_free(mine.device_memory);
}

/* ---- Steps ---- */

static void called_back(void *data, void *user, synced_mem_stream stream)
{
    REQUIRE(data == mine.adopted_host || data == mine.adopted_device);
    REQUIRE(user == &mine);
    REQUIRE(stream == NULL);
    now.called++;
}

/* Answers what the library did; pointer-returning calls are judged by what they return. */
static synced_mem_status judge(const void *data)
{
    return data ? SYNCED_MEM_OK : synced_mem_last_error();
}

static synced_mem_status on_host(void *data, bool write)
{
    if (data && write) {
        host_fill(data, SIZE, ++now.fresh);
        now.pattern = now.fresh;
    }
    if (data) {
        now.host = data;
        REQUIRE(host_is(data, SIZE, now.pattern));
    }
    return judge(data);
}

static synced_mem_status on_device(void *data, bool write)
{
    if (data && write) {
        if (gpu_try_fill(data, SIZE, ++now.fresh, mine.kernels))
            now.pattern = now.fresh;
        else
            now.given_up = true;
        now.host = NULL;
    }
    return judge(data);
}

static synced_mem_status create(bool named)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    if (named) {
        options.name = "named";
        options.alignment = ALIGNMENT;
        options.device = home();
    }
    const synced_mem_status status = synced_mem_create(&now.mem, SIZE, named ? &options : NULL);
    REQUIRE((status == SYNCED_MEM_OK) == (now.mem != NULL));
    if (status == SYNCED_MEM_OK) {
        now.references = 1;
        now.pattern = 0;
        now.host = NULL;
    }
    return status;
}

/* The caller's memory has new contents each time that it is handed in. */
static synced_mem_status hand_in(void *host, void *device, bool adopt)
{
    const unsigned pattern = ++now.fresh;
    synced_mem_status status;
    if (host)
        pattern_write(host, SIZE, pattern);
    if (device && !gpu_try_fill(device, SIZE, pattern, mine.kernels))
        return SYNCED_MEM_ERR_DEVICE_LOST;
    if (host && device)
        status = adopt ? synced_mem_adopt_data(now.mem, host, device, called_back, &mine)
                       : synced_mem_set_data(now.mem, host, device);
    else if (host)
        status = adopt ? synced_mem_adopt_cpu_data(now.mem, host, called_back, &mine)
                       : synced_mem_set_cpu_data(now.mem, host);
    else
        status = adopt ? synced_mem_adopt_gpu_data(now.mem, device, called_back, &mine)
                       : synced_mem_set_gpu_data(now.mem, device);
    if (status == SYNCED_MEM_OK) {
        now.pattern = pattern;
        now.host = host;
        now.owed += adopt ? (host != NULL) + (device != NULL) : 0;
    }
    return status;
}

static synced_mem_status let_go(synced_mem_status status)
{
    if (status == SYNCED_MEM_OK && synced_mem_head(now.mem) != SYNCED_MEM_AT_CPU)
        now.host = NULL;
    if (status == SYNCED_MEM_OK && synced_mem_head(now.mem) == SYNCED_MEM_UNINITIALIZED)
        now.pattern = 0;
    return status;
}

static synced_mem_status give_up(void)
{
    const synced_mem_status status = synced_mem_release(now.mem);
    if (status == SYNCED_MEM_OK && --now.references == 0)
        now.mem = NULL;
    return status;
}

static synced_mem_status retain(void)
{
    now.references++;
    return synced_mem_retain(now.mem);
}

static synced_mem_status perform(enum step step)
{
#define STEP(name, call)                                                                                               \
    case name:                                                                                                         \
        now.doing = #name;                                                                                             \
        return call;
    switch (step) {
        STEP(END, SYNCED_MEM_OK)
        STEP(CREATE, create(false))
        STEP(CREATE_NAMED, create(true))
        STEP(CPU_READ, on_host((void *)synced_mem_cpu_data(now.mem), false))
        STEP(CPU_WRITE, on_host(synced_mem_mutable_cpu_data(now.mem), true))
        STEP(CPU_OVERWRITE, on_host(synced_mem_overwrite_cpu_data(now.mem), true))
        STEP(GPU_READ, on_device((void *)synced_mem_gpu_data(now.mem), false))
        STEP(GPU_WRITE, on_device(synced_mem_mutable_gpu_data(now.mem), true))
        STEP(GPU_OVERWRITE, on_device(synced_mem_overwrite_gpu_data(now.mem), true))
        STEP(PUSH_LEGACY, synced_mem_async_gpu_push(now.mem, NULL))
        STEP(PUSH_STREAM, synced_mem_async_gpu_push(now.mem, mine.stream))
        STEP(SET_CPU, hand_in(mine.host, NULL, false))
        STEP(SET_GPU, hand_in(NULL, mine.device, false))
        STEP(SET_BOTH, hand_in(mine.host_of_both, mine.device_of_both, false))
        STEP(ADOPT_CPU, hand_in(mine.adopted_host, NULL, true))
        STEP(ADOPT_GPU, hand_in(NULL, mine.adopted_device, true))
        STEP(ADOPT_BOTH, hand_in(mine.adopted_host, mine.adopted_device, true))
        STEP(RELEASE_CPU, let_go(synced_mem_release_cpu_data(now.mem)))
        STEP(RELEASE_GPU, let_go(synced_mem_release_gpu_data(now.mem)))
        STEP(RELEASE_DATA, let_go(synced_mem_release_data(now.mem)))
        STEP(RETAIN, retain())
        STEP(RELEASE, give_up())
        STEP(SHUTDOWN, synced_mem_shutdown())
    }
#undef STEP
    return SYNCED_MEM_OK;
}

/* ---- What must hold ---- */

static void check_caller(void)
{
    const int current = gpu_find_current_device();
    REQUIRE(current == now.caller_on || current == -1);
    REQUIRE(now.called <= now.owed);
}

/* An arriving device copy whose arrival could not be waited for is invalid from then on; the host copy is not. */
static void check_as_before(const struct facts *before)
{
    const synced_mem_state head = synced_mem_head(now.mem);
    REQUIRE(head == before->head || (before->head == SYNCED_MEM_SYNCED && head == SYNCED_MEM_AT_CPU));
    REQUIRE(synced_mem_size(now.mem) == before->size);
    if (now.host && (head & SYNCED_MEM_AT_CPU))
        REQUIRE(pattern_is(now.host, SIZE, now.pattern));
}

static void check_host_contents_stay(void)
{
    if (!now.mem || !(synced_mem_head(now.mem) & SYNCED_MEM_AT_CPU))
        return;
    const void *const data = synced_mem_cpu_data(now.mem);
    REQUIRE(data != NULL);
    REQUIRE(!now.host || data == now.host);
    REQUIRE(pattern_is(data, SIZE, now.pattern));
}

/* The calls of a step that can fail, and the one that then can not. */
static int tries_of(enum outcome expected)
{
    return expected == MUST_SUCCEED ? 1 : expected == MAY_FAIL_TWICE ? 3 : 2;
}

/* Whether the last failure was that of a transfer to the caller's memory on the caller's stream that nobody can wait for: such
 * memory is not touched again, and the object goes on without it. */
static bool is_out_of_sight(void)
{
    return synced_mem_last_error() == SYNCED_MEM_ERR_CUDA &&
           strstr(synced_mem_last_error_message(), "nobody can tell when") != NULL;
}

/* False: the device is lost. */
static bool take(enum step step, enum outcome expected)
{
    for (int i = 0; i < tries_of(expected); i++) {
        const bool had = now.mem != NULL;
        const struct facts before = had ? facts_of(now.mem) : (struct facts){.size = 0};
        const synced_mem_status status = perform(step);
        check_caller();
        if (status == SYNCED_MEM_OK)
            return !now.given_up;
        REQUIRE(expected != MUST_SUCCEED);
        REQUIRE(had == (now.mem != NULL));
        if (had)
            check_as_before(&before);
    }
    if (expected == MAY_FAIL_TWICE && is_out_of_sight())
        return true;
    REQUIRE(expected == MAY_BREAK);
    now.given_up = true;
    return false;
}

void scenario_run(int scenario, enum outcome expected)
{
    const enum step *step = scenarios[scenario];
    while (*step != END && take(*step, expected))
        step++;
    if (!now.given_up)
        return;
    now.doing = "letting go";
    check_host_contents_stay();
    while (now.mem)
        REQUIRE(give_up() == SYNCED_MEM_OK);
}

void scenario_check_end(enum outcome expected)
{
    now.doing = "the end";
    synced_mem_status status = synced_mem_shutdown();
    for (int tries = 1; tries < tries_of(expected) && status != SYNCED_MEM_OK; tries++)
        status = synced_mem_shutdown();
    check_caller();
    REQUIRE(status == SYNCED_MEM_OK || expected == MAY_BREAK);
    const synced_mem_stats stats = stats_now();
    REQUIRE(stats.objects == 0);
    REQUIRE(stats.retired == 0);
    REQUIRE(stats.quarantined == 0 || expected == MAY_FAIL_TWICE);
    if (stats.quarantined > 0)
        return;
    REQUIRE(now.called == now.owed);
    REQUIRE(stats.pageable_bytes == 0);
    REQUIRE(stats.pinned_bytes == 0);
    REQUIRE(stats.gpu_bytes == 0);
}
