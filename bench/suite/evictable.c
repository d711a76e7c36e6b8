#include "evictable.h"

#include "../evict/simulate.h"
#include "measure.h"
#include "pattern.h"
#include "suite.h"
#include "synced_mem/report.h"

#include <stdlib.h>

void evictables_make(struct evictables *all, size_t count, size_t size, size_t fit, synced_mem_file *file)
{
    synced_mem_options options;
    uint64_t over;
    must(count <= MOST_EVICTABLE, "too many objects");
    *all = (struct evictables){.count = count, .size = size, .fit = fit};
    synced_mem_options_init(&options);
    options.device = 0;
    options.evictable = 1;
    for (size_t i = 0; i < count; i++) {
        must_work(synced_mem_create(&all->mems[i], size, &options) == SYNCED_MEM_OK);
        if (file) {
            must_work(synced_mem_use_file(all->mems[i], file, i * size) == SYNCED_MEM_OK);
            continue;
        }
        void *const data = synced_mem_overwrite_cpu_data(all->mems[i]);
        must_work(data != NULL);
        pattern_fill(data, size, i);
    }
    must_work(synced_mem_gpu_set_budget(0, fit * size, &over) == SYNCED_MEM_OK);
    must(over == 0, "the budget is exceeded before the first use");
}

void evictables_release(const struct evictables *all)
{
    for (size_t i = 0; i < all->count; i++)
        must_work(synced_mem_release(all->mems[i]) == SYNCED_MEM_OK);
    must_work(synced_mem_gpu_set_budget(0, SYNCED_MEM_NO_BUDGET, NULL) == SYNCED_MEM_OK);
}

size_t evictable_size(void)
{
    return suite.quick ? 64 * KIB : suite.emulated ? 256 * KIB : 64 * MIB;
}

uint64_t count_misses(void)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    must_work(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    return stats.hold_misses;
}

uint64_t count_fewest_misses(const struct evictables *all, const uint32_t *uses, size_t count, size_t rounds)
{
    uint64_t sizes[MOST_EVICTABLE];
    struct outcome outcome;
    struct use *const order = calloc(count * rounds, sizeof *order);
    must(order != NULL, "no memory");
    for (size_t i = 0; i < all->count; i++)
        sizes[i] = 1;
    for (size_t i = 0; i < count * rounds; i++)
        order[i].member = uses[i % count];
    must(simulate(&(struct order){order, count * rounds, sizes, (uint32_t)all->count}, all->fit, BELADY, &outcome),
         "no memory");
    free(order);
    return outcome.misses;
}
