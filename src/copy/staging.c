/* The settings of staged transfers. */
#include "copy/staging.h"

#include "base/once.h"
#include "base/status.h"
#include "system/process.h"

#include <stdatomic.h>
#include <stdint.h>

enum { MAX_THREADS = 64, BUSY_LINK = 15 };
enum { SMALLEST_BUFFER = 65536, BUFFER = 2097152, LARGEST_BUFFER = 67108864, MINIMUM = 131072 };

static struct {
    atomic_uint threads;
    atomic_size_t buffer;
    atomic_size_t minimum;
} settings;

static void store_settings(unsigned threads, size_t buffer, size_t minimum)
{
    atomic_store_explicit(&settings.threads, threads, memory_order_relaxed);
    atomic_store_explicit(&settings.buffer, buffer, memory_order_relaxed);
    atomic_store_explicit(&settings.minimum, minimum, memory_order_relaxed);
}

/* Fifteen threads and the caller copy nearly as fast as the link goes on all machines that were measured. Each has a
 * processor of its own. */
static void store_defaults(void)
{
    const unsigned processors = sm_processors();
    const unsigned most = processors > 1 ? processors - 1 : 1;
    store_settings(most < BUSY_LINK ? most : BUSY_LINK, BUFFER, MINIMUM);
}

static void init_settings(void)
{
    static struct sm_once once;
    sm_once(&once, store_defaults);
}

unsigned sm_staging_threads(void)
{
    init_settings();
    return atomic_load_explicit(&settings.threads, memory_order_relaxed);
}

size_t sm_staging_buffer(void)
{
    init_settings();
    return atomic_load_explicit(&settings.buffer, memory_order_relaxed);
}

size_t sm_staging_minimum(void)
{
    init_settings();
    return atomic_load_explicit(&settings.minimum, memory_order_relaxed);
}

size_t sm_staging_least_push(void)
{
    const size_t beyond = sm_staging_buffer() + 1;
    return sm_staging_minimum() < beyond ? sm_staging_minimum() : beyond;
}

void sm_staging_get(synced_mem_staging *staging)
{
    staging->threads = sm_staging_threads();
    staging->buffer_bytes = sm_staging_buffer();
    staging->minimum_bytes = sm_staging_minimum();
}

synced_mem_status sm_staging_set(const synced_mem_staging *staging)
{
    if (staging->threads > MAX_THREADS)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "threads is %u, but at most %d are possible", staging->threads,
                       MAX_THREADS);
    if (staging->buffer_bytes < SMALLEST_BUFFER || staging->buffer_bytes > LARGEST_BUFFER)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "buffer_bytes is %zu, but must be from %d to %d",
                       staging->buffer_bytes, SMALLEST_BUFFER, LARGEST_BUFFER);
    init_settings();
    store_settings(staging->threads, staging->buffer_bytes, staging->minimum_bytes);
    return SYNCED_MEM_OK;
}
