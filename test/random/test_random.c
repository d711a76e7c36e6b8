/*
 * The program of the random test. Sequences are played in children, so that a crash or a hang is a failure like any
 * other. The report counts the cells that the calls of all children have reached.
 *
 *     test_random [--calls N] [--seed S] [--threads N] [--cells] [--without NAME,NAME]
 *     test_random --schedule S --replay 'TEXT'
 *
 * From the environment: SYNCED_MEM_RANDOM_CALLS instead of --calls, SYNCED_MEM_EMU_SEED instead of --seed.
 */
#include "random.h"

#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SKIP = 77, CALLS = 400000, CALLS_OF_GPU = 1000000, FREE_ROUNDS = 6, PATIENCE_S = 600 };

static struct {
    unsigned long calls;
    uint64_t seed;
    unsigned schedule;
    const char *replay;
    bool cells;
    int threads;
    unsigned long excluded[2];
} options = {.seed = 1, .threads = THREADS};

/* ---- Options ---- */

static void exclude(const char *list)
{
    for (int code = 0; code < OP_CODES; code++) {
        const size_t length = strlen(op_name(code));
        for (const char *at = strstr(list, op_name(code)); at; at = strstr(at + 1, op_name(code)))
            if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
                options.excluded[code / 64] |= 1ul << (code % 64);
    }
}

static bool read_option(const char *name, const char *value)
{
    if (strcmp(name, "--calls") == 0)
        options.calls = strtoul(value, NULL, 0);
    else if (strcmp(name, "--seed") == 0)
        options.seed = strtoull(value, NULL, 0);
    else if (strcmp(name, "--schedule") == 0)
        options.schedule = (unsigned)strtoul(value, NULL, 0);
    else if (strcmp(name, "--threads") == 0)
        options.threads = atoi(value) >= 1 && atoi(value) <= THREADS ? atoi(value) : THREADS;
    else if (strcmp(name, "--replay") == 0)
        options.replay = value;
    else if (strcmp(name, "--without") == 0)
        exclude(value);
    else
        return false;
    return true;
}

static bool read_options(int count, char **words)
{
    const char *const calls = getenv("SYNCED_MEM_RANDOM_CALLS");
    const char *const seed = getenv("SYNCED_MEM_EMU_SEED");
    options.calls = calls ? strtoul(calls, NULL, 0) : 0;
    options.seed = seed ? strtoull(seed, NULL, 0) : options.seed;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--cells") == 0)
            options.cells = true;
        else if (i + 1 == count || !read_option(words[i], words[i + 1]))
            return false;
        else
            i++;
    }
    return true;
}

/* ---- Children ---- */

static bool has_managed_memory(void)
{
    bool has = true;
    synced_mem_device_info info = {.struct_size = sizeof info};
    for (int device = 0; device < machine.devices; device++)
        has = has && synced_mem_get_device_info(device, &info) == SYNCED_MEM_OK && info.concurrent_managed_access;
    return has;
}

/* Queries the machine in a child. A runtime that a process has started does not work in its children. */
static void ask_machine(void)
{
    const pid_t child = fork();
    if (child == 0) {
        const int devices = gpu_start(0);
        machine.devices = devices < DEVICES ? devices : DEVICES;
        machine.per_thread = devices > 0 && gpu_has_per_thread_stream();
        shared->calls = (unsigned long)machine.devices;
        shared->active = machine.per_thread;
        shared->kernels = machine.devices > 0 && has_managed_memory();
        _exit(EXIT_SUCCESS);
    }
    (void)waitpid(child, NULL, 0);
    machine.devices = (int)shared->calls;
    machine.per_thread = shared->active;
    machine.gpu = machine.devices > 0;
    machine.managed = shared->kernels;
    shared->calls = shared->active = shared->kernels = 0;
}

static bool child_succeeds(uint64_t seed, unsigned schedule, unsigned long calls)
{
    int status = 0;
    shared->message[0] = '\0';
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        struct generator generator;
        (void)alarm(PATIENCE_S);
        if (calls > 0)
            play(source_random(&generator, seed, calls, options.excluded, options.threads), schedule, false);
        else
            play_freely(seed, FREE_ROUNDS);
        exit(EXIT_SUCCESS); /* as every program ends: tools search for leaks then */
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (status != 0 && !shared->message[0])
        say_reason(status);
    return status == 0;
}

static bool play_batch(unsigned long batch, unsigned long calls)
{
    const uint64_t seed = options.seed * 1000003 + batch;
    const unsigned schedule = (unsigned)batch % 7 == 0 ? 0 : (unsigned)seed;
    if (!child_succeeds(seed, schedule, calls)) {
        (void)printf("failed: %s\nwith --seed %llu, in batch %lu\n", shared->message, (unsigned long long)options.seed,
                     batch);
        shrink(schedule);
        return false;
    }
    if (!child_succeeds(seed, 0, 0)) {
        (void)printf("failed: %s\nwith --seed %llu, in batch %lu\n", shared->message, (unsigned long long)options.seed,
                     batch);
        return false;
    }
    return true;
}

static int play_all(void)
{
    struct timespec from, to;
    const bool emulated = gpu_schedules() > 1;
    /* Several tests may share a GPU, and a batch has to end in PATIENCE_S all the same. */
    const unsigned long at_once = emulated || !machine.gpu ? 10000 : 20000;
    if (options.calls == 0)
        options.calls = emulated || !machine.gpu ? CALLS : CALLS_OF_GPU;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned long batch = 0; shared->calls < options.calls; batch++) {
        const unsigned long left = options.calls - shared->calls;
        if (!play_batch(batch, left < at_once ? left : at_once))
            return EXIT_FAILURE;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    const bool views_met = view_cells_report(options.cells, VIEW_CELL_GOAL);
    const bool all_met = cells_report(options.cells, CELL_GOAL) && views_met;
    const double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    (void)printf("%.1f s, %.0f calls/s\n", seconds, (double)shared->calls / seconds);
    const bool busy = !machine.gpu || shared->active * 10 >= shared->calls * 3;
    const bool batched = !machine.gpu || !gpu_is_emulated() || shared->batches >= CELL_GOAL;
    return (all_met && busy && batched) || options.calls < CALLS ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int replay(void)
{
    struct op *const ops = malloc(MOST_OPS * sizeof *ops);
    const int count = ops ? ops_parse(options.replay, ops, MOST_OPS) : -1;
    if (count < 0) {
        (void)fprintf(stderr, "this is no sequence of operations\n");
        return 2;
    }
    const bool fails = fails_in_child(ops, count, options.schedule, true);
    (void)printf("%s%s\n", fails ? "failed: " : "passed", shared->message);
    free(ops);
    return fails ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int count, char **words)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !read_options(count, words)) {
        (void)fprintf(stderr,
                      "usage: test_random [--calls N] [--seed S] [--threads N] [--cells] [--without NAME,NAME]\n"
                      "       test_random --schedule S --replay 'TEXT'\n");
        return 2;
    }
    ask_machine();
    if (gpu_expected() && !machine.gpu) {
        (void)fprintf(stderr, "no device was found\n");
        return SKIP;
    }
    return options.replay ? replay() : play_all();
}
