/* Scripts of objects in parts: several pieces are in use at once, each by another stream or transfer. */
#include "waits_scripts.h"

#include <string.h>

enum { HALF = SIZE / 2 };

/* An object and its two halves. */
struct halves {
    struct things it;
    synced_mem *half[2];
};

static struct halves begin_halves(void)
{
    struct halves halves = {.it = begin()};
    for (size_t i = 0; i < 2; i++)
        OK(synced_mem_view(&halves.half[i], halves.it.mem, i * HALF, HALF, NULL));
    return halves;
}

static void end_halves(struct halves *halves)
{
    for (int i = 0; i < 2; i++)
        OK(synced_mem_release(halves->half[i]));
    end(&halves->it);
}

/* Each stream writes a half of the pattern. */
static void write_halves(struct halves *halves, unsigned pattern)
{
    unsigned char all[SIZE];
    pattern_write(all, SIZE, pattern);
    memcpy(halves->it.host, all, SIZE);
    for (size_t i = 0; i < 2; i++) {
        const synced_mem_stream stream = i == 0 ? halves->it.one : halves->it.two;
        void *const data = synced_mem_overwrite_gpu_data_on(halves->half[i], stream);
        MUST(data);
        MUST(cudaMemcpyAsync(data, (char *)halves->it.host + i * HALF, HALF, cudaMemcpyHostToDevice, stream) ==
             cudaSuccess);
    }
}

static void read_halves(struct halves *halves)
{
    for (size_t i = 0; i < 2; i++) {
        const synced_mem_stream stream = i == 0 ? halves->it.one : halves->it.two;
        gpu_copy((char *)halves->it.seen + i * HALF, synced_mem_gpu_data_on(halves->half[i], stream), HALF, stream);
    }
}

/* The whole is read where both streams have written. */
static void read_whole_on(enum way way)
{
    struct halves halves = begin_halves();
    (void)way;
    write_halves(&halves, 1);
    gpu_copy(halves.it.seen, synced_mem_gpu_data_on(halves.it.mem, halves.it.one), SIZE, halves.it.one);
    end_halves(&halves);
}

static void read_whole(enum way way)
{
    struct halves halves = begin_halves();
    write_halves(&halves, 1);
    host_reads(way == ONE ? synced_mem_cpu_data(halves.it.mem) : synced_mem_mutable_cpu_data(halves.it.mem), 1);
    end_halves(&halves);
}

static void pull_whole(enum way way)
{
    struct halves halves = begin_halves();
    write_halves(&halves, 1);
    pull(&halves.it, halves.it.one, way);
    host_reads(synced_mem_cpu_data(halves.it.mem), 1);
    end_halves(&halves);
}

/* The whole is written where both streams still read. */
static void write_whole_on(enum way way)
{
    struct halves halves = begin_halves();
    (void)way;
    host_writes(synced_mem_overwrite_cpu_data(halves.it.mem), 1);
    read_halves(&halves);
    gpu_fill(synced_mem_overwrite_gpu_data_on(halves.it.mem, halves.it.one), SIZE, 2, halves.it.one);
    end_halves(&halves);
}

static void push_whole_over_readers(enum way way)
{
    struct halves halves = begin_halves();
    host_writes(synced_mem_overwrite_cpu_data(halves.it.mem), 1);
    read_halves(&halves);
    host_writes(synced_mem_overwrite_cpu_data(halves.it.mem), 2);
    push(&halves.it, halves.it.one, way);
    host_reads(synced_mem_cpu_data(halves.it.mem), 2);
    end_halves(&halves);
}

/* An access moves what the host has written to memory that both streams still read. */
static void move_whole_over_readers(enum way way)
{
    struct halves halves = begin_halves();
    host_writes(synced_mem_overwrite_cpu_data(halves.it.mem), 1);
    read_halves(&halves);
    host_writes(synced_mem_overwrite_cpu_data(halves.it.mem), 2);
    if (way == ONE)
        gpu_copy(halves.it.seen, synced_mem_gpu_data_on(halves.it.mem, halves.it.one), SIZE, halves.it.one);
    else
        gpu_copy(halves.it.seen, synced_mem_gpu_data(halves.it.mem), SIZE, NULL);
    end_halves(&halves);
}

/* A part's contents arrive by a transfer of the whole. */
static void read_part_of_push(enum way way)
{
    struct halves halves = begin_halves();
    host_writes(synced_mem_overwrite_cpu_data(halves.it.mem), 1);
    push(&halves.it, halves.it.one, way);
    gpu_copy(halves.it.seen, synced_mem_gpu_data_on(halves.half[1], halves.it.two), HALF, halves.it.two);
    end_halves(&halves);
}

/* One part is copied over the other, which a stream still reads. */
static void copy_part(enum way way)
{
    struct halves halves = begin_halves();
    synced_mem *const to[] = {halves.half[0]}, *const from[] = {halves.half[1]};
    write_halves(&halves, 1);
    OK(way == ONE ? synced_mem_async_gpu_copy(to[0], from[0], halves.it.two)
                  : synced_mem_async_gpu_copy_n(to, from, 1, halves.it.two));
    gpu_fill(synced_mem_overwrite_gpu_data_on(from[0], halves.it.one), HALF, 3, halves.it.one);
    MUST(synced_mem_cpu_data(halves.it.mem));
    end_halves(&halves);
}

/* The whole is given up while both streams still write its parts. */
static void release_whole(enum way way)
{
    struct halves halves = begin_halves();
    (void)way;
    write_halves(&halves, 1);
    OK(synced_mem_release(halves.it.mem));
    halves.it.mem = NULL;
    end_halves(&halves);
}

static const struct script scripts[] = {{read_whole_on, 1},
                                        {read_whole, 2},
                                        {pull_whole, WAYS},
                                        {write_whole_on, 1},
                                        {push_whole_over_readers, WAYS},
                                        {move_whole_over_readers, 2},
                                        {read_part_of_push, WAYS},
                                        {copy_part, 2},
                                        {release_whole, 1}};
const struct scripts part_scripts = {scripts, sizeof scripts / sizeof scripts[0]};
