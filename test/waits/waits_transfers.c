/* Scripts of pushes and pulls whose contents or memory are still in use. */
#include "waits_scripts.h"

/* Work queued behind a push must see contents that another transfer or stream brings. */
static void push_twice(enum way way)
{
    struct things it = begin();
    host_writes(it.host, 1);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device));
    host_writes(synced_mem_mutable_cpu_data(it.mem), 1);
    push(&it, it.one, way);
    push(&it, it.two, way);
    gpu_copy(it.seen, it.device, SIZE, it.two);
    end(&it);
}

static void push_what_callers_bring(enum way way)
{
    struct things it = begin();
    host_writes(it.host, 1);
    gpu_fill(it.device, SIZE, 1, it.one);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device, .stream = it.one));
    push(&it, it.two, way);
    gpu_copy(it.seen, it.device, SIZE, it.two);
    end(&it);
}

/* The same for a pull, and work that reads page-locked host memory. */
static void read_host(struct things *it, synced_mem_stream stream)
{
    MUST(cudaMemcpyAsync(it->seen, it->host, SIZE, cudaMemcpyHostToDevice, stream) == cudaSuccess);
}

static void pull_twice(enum way way)
{
    struct things it = begin();
    host_writes(it.host, 1);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device));
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 2, it.one);
    pull(&it, it.one, way);
    pull(&it, it.two, way);
    read_host(&it, it.two);
    end(&it);
}

static void pull_what_callers_bring(enum way way)
{
    struct things it = begin();
    gpu_fill_host(it.host, SIZE, 1, it.one);
    OK(USE(it.mem, .cpu_data = it.host, .gpu_data = it.device, .stream = it.one));
    pull(&it, it.two, way);
    read_host(&it, it.two);
    end(&it);
}

/* A transfer to memory that a caller's stream still fills. */
static void push_over_callers(enum way way)
{
    struct things it = begin();
    gpu_fill(it.device, SIZE, 1, it.one);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.one));
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 2);
    push(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* A transfer to memory that another one still reads. */
static void pull_over_push(enum way way)
{
    struct things it = begin();
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 1);
    push(&it, it.one, way);
    gpu_fill(it.device, SIZE, 2, it.two);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.two));
    pull(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* A transfer of zeros that are still being written. */
static void pull_zeros(enum way way)
{
    struct things it = begin();
    MUST(synced_mem_gpu_data_on(it.mem, it.one));
    pull(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 0);
    end(&it);
}

/* Memory that is released while it is still being filled. */
static void discard_zeros(enum way way)
{
    struct things it = begin();
    MUST(synced_mem_gpu_data_on(it.mem, it.one));
    OK(way == ONE ? synced_mem_resize_discard(it.mem, (size_t)2 * SIZE) : synced_mem_resize(it.mem, (size_t)2 * SIZE));
    end(&it);
}

static void pull_over_pull(enum way way)
{
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    pull(&it, it.one, way);
    gpu_fill(it.device, SIZE, 2, it.two);
    OK(USE(it.mem, .gpu_data = it.device, .stream = it.two));
    pull(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

static void pull_over_callers(enum way way)
{
    struct things it = begin();
    gpu_fill_host(it.host, SIZE, 1, it.one);
    OK(USE(it.mem, .cpu_data = it.host, .stream = it.one));
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.two), SIZE, 2, it.two);
    pull(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

/* Transfers to memory that another stream still reads, or that another transfer still writes. */
static void push_over_readers(enum way way)
{
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.two), SIZE, 1, it.two);
    gpu_copy(it.seen, synced_mem_gpu_data_on(it.mem, it.one), SIZE, it.one);
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 2);
    push(&it, it.two, way);
    end(&it);
}

static void push_over_push(enum way way)
{
    struct things it = begin();
    host_writes(synced_mem_overwrite_cpu_data(it.mem), 1);
    push(&it, it.one, way);
    host_writes(it.host, 2);
    OK(synced_mem_set_cpu_data(it.mem, it.host));
    push(&it, it.two, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

static void push_over_pull(enum way way)
{
    struct things it = begin();
    gpu_fill(synced_mem_overwrite_gpu_data_on(it.mem, it.one), SIZE, 1, it.one);
    pull(&it, it.two, way);
    host_writes(it.host, 2);
    OK(synced_mem_set_cpu_data(it.mem, it.host));
    push(&it, it.one, way);
    host_reads(synced_mem_cpu_data(it.mem), 2);
    end(&it);
}

static const struct script scripts[] = {{push_twice, WAYS},        {push_what_callers_bring, WAYS},
                                        {pull_twice, WAYS},        {pull_what_callers_bring, WAYS},
                                        {push_over_callers, WAYS}, {pull_over_push, WAYS},
                                        {pull_zeros, WAYS},        {discard_zeros, 2},
                                        {pull_over_pull, WAYS},    {pull_over_callers, WAYS},
                                        {push_over_readers, WAYS}, {push_over_push, WAYS},
                                        {push_over_pull, WAYS}};
const struct scripts transfer_scripts = {scripts, sizeof scripts / sizeof scripts[0]};
