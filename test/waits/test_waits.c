/*
 * Checks that every wait of the library is needed. Random sequences of calls are played. Each instance of a wait in
 * src/ that they reach is recorded: the calls from the public function down to the runtime's. Then each instance is
 * dropped in the same sequences. Something must fail: a race, wrong bytes, or memory used after it was handed back.
 *
 * A place is the wait and the function that decides on it. A place fails the test if no run notices its loss, unless it
 * is listed as redundant, with the reason. A single instance may be behind another wait on every way that leads there.
 * Such instances are printed. Once an instance is noticed, the others of its place are not dropped, unless the
 * environment has SYNCED_MEM_TEST_WAITS=all.
 */
#include "random.h"
#include "waits.h"

#include "cudart_emu.h"
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CHAINS = 4000, MOST_RUNS = 256, PATIENCE_S = 200 };

/* The findings of the children, in memory shared with them. */
static struct found {
    struct emu_wait_place chain[MOST_CHAINS];
    unsigned char runs[MOST_CHAINS][MOST_RUNS]; /* whether the run reached the chain */
    int count;
    unsigned dropped;
} * found;

/* ---- One run, in a child ---- */

/* The instance that a child drops once the runtime is started. NULL: it records all waits. */
static const struct instance *to_drop;

int __real_gpu_start(unsigned schedule);
int __wrap_gpu_start(unsigned schedule);
int __wrap_gpu_start(unsigned schedule)
{
    const int devices = __real_gpu_start(schedule);
    for (int device = 0; device < devices; device++) /* otherwise memory is freed too seldom */
        (void)synced_mem_gpu_pool_set_spare_limit(device, 0);
    emu_note_waits(to_drop == NULL);
    for (int i = 0; to_drop && i < to_drop->chains; i++)
        emu_drop_wait_from(&found->chain[to_drop->chain[i]]);
    return devices;
}

static int find_chain(const struct emu_wait_place *wait)
{
    int at = 0;
    while (at < found->count && memcmp(&found->chain[at].chain, &wait->chain, sizeof wait->chain) != 0)
        at++;
    return at;
}

static void note(const struct emu_wait_place *wait, void *run)
{
    struct emu_wait_place clean;
    memset(&clean, 0, sizeof clean);
    clean.call = wait->call;
    clean.depth = wait->depth;
    for (unsigned i = 0; i < wait->depth; i++)
        clean.chain[i] = wait->chain[i];
    const int at = find_chain(&clean);
    if (at == MOST_CHAINS)
        fail("more than %d chains of calls lead to waits", MOST_CHAINS);
    found->count = at == found->count ? at + 1 : found->count;
    found->chain[at] = clean;
    found->runs[at][*(const int *)run] = 1;
}

/* Returns whether the run succeeded. */
static bool run_in_child(int run, const struct instance *drop)
{
    int status = 0;
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(PATIENCE_S);
        if (!freopen("/dev/null", "w", stderr))
            _exit(EXIT_FAILURE);
        to_drop = drop;
        waits_run(run);
        if (!drop)
            emu_each_wait(note, &run);
        exit(EXIT_SUCCESS);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* ---- Instances ---- */

static bool is_noticed(const struct instance *instance)
{
    for (int run = 0; run < waits_runs(); run++) {
        bool came_by = false;
        for (int i = 0; i < instance->chains; i++)
            came_by = came_by || found->runs[instance->chain[i]][run];
        if (came_by && !run_in_child(run, instance))
            return true;
    }
    return false;
}

static bool is_noticed_in_the_end(const struct instance *instance)
{
    for (int run = 0; run < waits_more_runs(); run++)
        if (!run_in_child(waits_runs() + run, instance))
            return true;
    return false;
}

/* Returns whether the wait is the library's. The test itself waits too. */
static bool is_ours(const struct instance *instance)
{
    return strstr(instance->name, " < synced_mem_") != NULL;
}

static bool needed[MOST_INSTANCES]; /* by place */
static bool drops_all;
static int noticed;
static int silent;
static int left_out;

static void look_at(const struct instance *instance, bool longer)
{
    if (!is_ours(instance))
        return;
    if (redundant_because(instance)) {
        needed[instance->place] = true;
    } else if (needed[instance->place] && !drops_all) {
        left_out++;
    } else if (longer ? is_noticed_in_the_end(instance) : is_noticed(instance)) {
        needed[instance->place] = true;
        noticed++;
    } else if (!longer) {
        (void)printf("no run fails without this instance alone: %s\n", instance->name);
        silent++;
    }
}

static void ask_machine(void)
{
    machine = (struct machine){.gpu = true, .per_thread = true, .devices = 2};
}

int main(void)
{
    static struct instances all;
    int unnoticed = 0;
    found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED || shared == MAP_FAILED)
        return EXIT_FAILURE;
    ask_machine();
    const char *const dropped = getenv("SYNCED_MEM_TEST_WAITS");
    drops_all = dropped && strcmp(dropped, "all") == 0;
    for (int run = 0; run < waits_runs(); run++) {
        if (!run_in_child(run, NULL)) {
            (void)printf("run %d fails with nothing dropped: %s\n", run, shared->message);
            return EXIT_FAILURE;
        }
    }
    instances_find(&all, found->chain, found->count);
    for (int i = 0; i < all.count; i++)
        look_at(&all.of[i], false);
    for (int i = 0; i < all.count; i++)
        if (is_ours(&all.of[i]) && !needed[all.of[i].place])
            look_at(&all.of[i], true);
    for (int i = 0; i < all.count; i++) {
        if (!is_ours(&all.of[i]) || needed[all.of[i].place])
            continue;
        (void)printf("no run fails without this wait:\n    %s\n", all.of[i].name);
        unnoticed++;
    }
    (void)printf("%d instances of waits in %d places: %d noticed, %d not noticed alone, %d left out, "
                 "%d in places that no run needs\n",
                 all.count, all.places, noticed, silent, left_out, unnoticed);
    return unnoticed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
