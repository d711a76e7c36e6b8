/* The runs that show whether waits are needed: the scripts, and random sequences. */
#include "random.h"
#include "waits.h"
#include "waits_scripts.h"

#include "gpu.h"

#include <pthread.h>

enum { SEQUENCES = 24, CALLS = 4000, MORE_SEQUENCES = 30, MORE_CALLS = 30000 };

static const struct scripts *const tables[] = {&transfer_scripts, &access_scripts, &failure_scripts,  &release_scripts,
                                               &copy_scripts,     &part_scripts,   &read_only_scripts};
enum { TABLES = sizeof tables / sizeof tables[0] };

static int count_scripts(void)
{
    int count = 0;
    for (int i = 0; i < TABLES; i++)
        count += tables[i]->count;
    return count;
}

static const struct script *script_at(int index)
{
    int table = 0;
    while (index >= tables[table]->count)
        index -= tables[table++]->count;
    return &tables[table]->of[index];
}

int waits_runs(void)
{
    return count_scripts() * WAYS + SEQUENCES;
}

int waits_more_runs(void)
{
    return MORE_SEQUENCES;
}

/* Excludes calls that set how the library works, as waits of copy threads and ages of pool memory vary between runs.
 * Excludes objects that page-lock a part of another one's memory, and views, as transfers of parts of pageable memory
 * are staged. Excludes allocators, as they wait themselves. Excludes memory that both sides use: its prefetch is only a
 * hint, so nothing shows whether it comes in its turn. Excludes files: their contents are staged, and waits of their
 * threads vary between runs. */
static void run_sequence(uint64_t seed, unsigned long calls)
{
    unsigned long excluded[2] = {0};
    struct generator generator;
    excluded[0] |= 1ul << OP_CREATE_ALLOCATED | 1ul << OP_CREATE_SHARED;
    excluded[OP_SHARE / 64] |= 1ul << (OP_SHARE % 64);
    excluded[OP_VIEW / 64] |= 1ul << (OP_VIEW % 64);
    for (int code = OP_STAGING; code <= OP_ALLOCATORS; code++)
        excluded[code / 64] |= 1ul << (code % 64);
    excluded[OP_USE_FILE / 64] |= 1ul << (OP_USE_FILE % 64);
    excluded[OP_WRITE_FILE / 64] |= 1ul << (OP_WRITE_FILE % 64);
    play(source_random(&generator, seed, calls, excluded, THREADS), (unsigned)seed % 5, false);
}

/* Runs a script on its own thread, as sequences do. So the call chains are the same on every path to it. */
static void *run_script(void *run)
{
    (void)gpu_start(0);
    script_at((int)((size_t)run / WAYS))->play((enum way)((size_t)run % WAYS));
    return NULL;
}

void waits_run(int run)
{
    const int scripted = count_scripts() * WAYS;
    pthread_t thread;
    if (run < scripted) {
        if (run % WAYS >= script_at(run / WAYS)->ways)
            return;
        MUST(pthread_create(&thread, NULL, run_script, (void *)(uintptr_t)run) == 0);
        (void)pthread_join(thread, NULL);
    } else if (run < waits_runs()) {
        run_sequence(1000 + (uint64_t)(run - scripted), CALLS);
    } else {
        run_sequence(2000 + (uint64_t)(run - waits_runs()), MORE_CALLS);
    }
}
