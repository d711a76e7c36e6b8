/* A handler that releases a framework's cached objects when memory is short. */
#include "check.h"

#include <string.h>

enum { MIB = 1 << 20, CACHED = 4 };

/* [handler] */
static synced_mem *cache[CACHED];

/* Called in the thread whose call was refused memory, with no lock held. The handler may call the library. */
static int release_cached(const synced_mem_out_of_memory *request, void *user)
{
    int *const released = user;
    (void)request; /* has the device, or -1 for the host, and the size of the refused memory */
    for (int i = 0; i < CACHED; i++)
        if (cache[i]) {
            (void)synced_mem_release(cache[i]);
            cache[i] = NULL;
            ++*released;
            return 1; /* something was freed: the library tries again */
        }
    return 0; /* nothing is left: the call fails */
}
/* [end] */

static synced_mem *make(size_t size)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.device = 0;
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, size, &options) == SYNCED_MEM_OK);
    return mem;
}

int main(void)
{
    if (synced_mem_device_count() == 0)
        return SKIPPED;

    /* The pool's limit stands for a machine that has no more memory. */
    CHECK(synced_mem_host_pool_set_limit(CACHED * 4 * MIB) == SYNCED_MEM_OK);
    for (int i = 0; i < CACHED; i++) {
        cache[i] = make(4 * MIB);
        CHECK(synced_mem_overwrite_cpu_data(cache[i]));
    }
    synced_mem *const mem = make(4 * MIB);

    /* [install] */
    int released = 0;
    synced_mem_set_out_of_memory_handler(release_cached, &released);
    CHECK(synced_mem_overwrite_cpu_data(mem)); /* calls the handler, which releases one object */
    CHECK(released == 1);

    synced_mem_stats stats = {.struct_size = sizeof stats};
    CHECK(synced_mem_get_stats(&stats) == SYNCED_MEM_OK);
    CHECK(stats.oom_callbacks == 1 && stats.oom_failures == 0);
    /* [end] */

    synced_mem_set_out_of_memory_handler(NULL, NULL);
    for (int i = 0; i < CACHED; i++)
        CHECK(synced_mem_release(cache[i]) == SYNCED_MEM_OK);
    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
