/*
 * A queue between processes: a ring of shareable objects. A loader fills them, and a trainer copies each batch to memory
 * of its own. It runs twice: the trainer's process transfers the batches, and then the loader's.
 */
#include "check.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, RING = 3, OWN = 2, BATCHES = 20, TRAINER = 0, TIMEOUT_MS = 20000 };

static bool loader_pushes; /* the loader has a context on the GPU, and transfers the batches there */

static void load_batch(void *data, int number)
{
    memset(data, number, BYTES);
}

static void train(synced_mem *batch, int number)
{
    const char *const bytes = synced_mem_cpu_data(batch); /* a real one launches kernels */
    CHECK(bytes && bytes[0] == number && bytes[BYTES - 1] == number);
    if (number % 4 == 0)
        usleep(3000); /* it is slower than the loader at times */
}

/* [make] */
static void make_ring(synced_mem *ring[RING], int socket)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    options.device = loader_pushes ? 0 : SYNCED_MEM_DEVICE_CURRENT;
    for (int i = 0; i < RING; i++) {
        CHECK(synced_mem_create(&ring[i], BYTES, &options) == SYNCED_MEM_OK); /* in this process's turn to write */
        CHECK(synced_mem_take_slot(ring[i], TRAINER, NULL) == SYNCED_MEM_OK);
        CHECK(synced_mem_share(ring[i], socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    }
}
/* [end] */

/* [load] */
static void load(synced_mem *ring[RING])
{
    for (int i = 0; i < BATCHES; i++) {
        synced_mem *const batch = ring[i % RING];
        if (i >= RING) /* the first turn is that in which the object was made */
            CHECK(synced_mem_begin_consumed_turn(batch, SYNCED_MEM_SIDE_CPU, TIMEOUT_MS) == SYNCED_MEM_OK);
        void *const data = synced_mem_overwrite_cpu_data(batch);
        CHECK(data);
        load_batch(data, i + 1);
        if (loader_pushes)
            CHECK(synced_mem_async_gpu_push(batch, SYNCED_MEM_STREAM_LIBRARY) == SYNCED_MEM_OK);
        CHECK(synced_mem_end_turn(batch) == SYNCED_MEM_OK); /* waits for the push */
    }
}
/* [end] */

static void run_loader(int socket)
{
    synced_mem *ring[RING];
    loader_pushes = loader_pushes && synced_mem_device_count() > 0;
    make_ring(ring, socket);
    load(ring);
    for (int i = 0; i < RING; i++)
        CHECK(synced_mem_release(ring[i]) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
}

static void copy(synced_mem *own, synced_mem *batch, bool has_gpu)
{
    if (has_gpu)
        CHECK(synced_mem_async_gpu_copy(own, batch, SYNCED_MEM_STREAM_LIBRARY) == SYNCED_MEM_OK);
    else
        CHECK(synced_mem_cpu_copy(own, batch) == SYNCED_MEM_OK);
}

/* [train] */
static void use_batches(synced_mem *ring[RING], synced_mem *own[OWN], bool has_gpu)
{
    const synced_mem_side side = loader_pushes && has_gpu ? SYNCED_MEM_SIDE_GPU : SYNCED_MEM_SIDE_CPU;
    for (int i = 0; i < BATCHES; i++) {
        synced_mem *const batch = ring[i % RING];
        CHECK(synced_mem_begin_slot_turn(batch, side, TRAINER, TIMEOUT_MS) == SYNCED_MEM_OK);
        copy(own[i % OWN], batch, has_gpu); /* queues it; the GPU trains with the batch before */
        if (i > 0) {
            CHECK(synced_mem_end_turn(ring[(i - 1) % RING]) == SYNCED_MEM_OK); /* that batch is consumed */
            train(own[(i - 1) % OWN], i);
        }
    }
    CHECK(synced_mem_end_turn(ring[(BATCHES - 1) % RING]) == SYNCED_MEM_OK);
    train(own[(BATCHES - 1) % OWN], BATCHES);
}
/* [end] */

static void run_trainer(int socket)
{
    synced_mem *ring[RING];
    synced_mem *own[OWN];
    for (int i = 0; i < RING; i++)
        CHECK(synced_mem_receive(&ring[i], socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    for (int i = 0; i < OWN; i++)
        CHECK(synced_mem_create(&own[i], BYTES, NULL) == SYNCED_MEM_OK);
    use_batches(ring, own, synced_mem_device_count() > 0);
    for (int i = 0; i < RING; i++)
        CHECK(synced_mem_release(ring[i]) == SYNCED_MEM_OK);
    for (int i = 0; i < OWN; i++)
        CHECK(synced_mem_release(own[i]) == SYNCED_MEM_OK);
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
}

static pid_t start(void (*role)(int socket), int ends[2], int end)
{
    const pid_t child = fork(); /* before a process uses a GPU */
    CHECK(child >= 0);
    if (child > 0)
        return child;
    close(ends[1 - end]);
    role(ends[end]);
    exit(EXIT_SUCCESS);
}

static void run(void)
{
    int ends[2], how;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const pid_t loader = start(run_loader, ends, 0);
    const pid_t trainer = start(run_trainer, ends, 1);
    close(ends[0]);
    close(ends[1]);
    CHECK(waitpid(loader, &how, 0) == loader && how == 0);
    CHECK(waitpid(trainer, &how, 0) == trainer && how == 0);
}

int main(void)
{
    run();
    loader_pushes = true;
    run();
    return EXIT_SUCCESS;
}
