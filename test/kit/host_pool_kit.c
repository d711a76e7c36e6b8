#include "host_pool_kit.h"

#include "memory/pinned/prefault.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- Replacements of the runtime and the system ---- */

struct fake fake;

synced_mem_status __real_sm_device_host_register(int device, void *data, size_t size, bool read_only, size_t *locked);
synced_mem_status __wrap_sm_device_host_register(int device, void *data, size_t size, bool read_only, size_t *locked);
synced_mem_status __wrap_sm_device_host_register(int device, void *data, size_t size, bool read_only, size_t *locked)
{
    if (!fake.on)
        return __real_sm_device_host_register(device, data, size, read_only, locked);
    *locked = 0;
    if (fake.register_fails_at > 0 && --fake.register_fails_at == 0)
        return fake.register_answers;
    atomic_fetch_add(&fake.registered, 1);
    if (fake.meanwhile)
        fake.meanwhile();
    *locked = size;
    return SYNCED_MEM_OK;
}

synced_mem_status __real_sm_device_host_unregister(int device, void *data, size_t size, size_t *locked);
synced_mem_status __wrap_sm_device_host_unregister(int device, void *data, size_t size, size_t *locked);
synced_mem_status __wrap_sm_device_host_unregister(int device, void *data, size_t size, size_t *locked)
{
    if (!fake.on)
        return __real_sm_device_host_unregister(device, data, size, locked);
    if (fake.stuck && data == fake.stuck)
        return SYNCED_MEM_ERR_CUDA;
    if (fake.unregister_answers == SYNCED_MEM_OK) {
        atomic_fetch_add(&fake.unregistered, 1);
        *locked = 0;
    }
    return fake.unregister_answers;
}

void __real_sm_prefault(void *start, size_t bytes);
void __wrap_sm_prefault(void *start, size_t bytes);
void __wrap_sm_prefault(void *start, size_t bytes)
{
    if (!fake.untouched)
        __real_sm_prefault(start, bytes);
}

struct machine machine;

int __wrap_sm_numa_nodes(void);
int __wrap_sm_numa_nodes(void)
{
    return machine.nodes > 0 ? machine.nodes : __real_sm_numa_nodes();
}

/* Counts the request. Node 0 exists on all machines. */
void __real_sm_numa_prefer(void *start, size_t bytes, int node);
void __wrap_sm_numa_prefer(void *start, size_t bytes, int node);
void __wrap_sm_numa_prefer(void *start, size_t bytes, int node)
{
    machine.preferred += bytes;
    machine.preferred_node = node;
    __real_sm_numa_prefer(start, bytes, 0);
}

synced_mem_status __wrap_sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES]);
synced_mem_status __wrap_sm_device_pci_id(int device, char id[SM_PCI_ID_BYTES])
{
    machine.asked++;
    if (!fake.on)
        return __real_sm_device_pci_id(device, id);
    (void)snprintf(id, SM_PCI_ID_BYTES, "0000:%02X:00.0", 0xAB + device);
    return machine.refused ? SYNCED_MEM_ERR_CUDA : SYNCED_MEM_OK;
}

static FILE *open_node_file(const char *path)
{
    (void)snprintf(machine.path, sizeof machine.path, "%s", path);
    if (!machine.file)
        return NULL;
    FILE *const file = tmpfile();
    ck_assert_ptr_nonnull(file);
    (void)fputs(machine.file, file);
    rewind(file);
    return file;
}

#define WRAP_FOPEN(name)                                                                                               \
    FILE *__real_##name(const char *path, const char *mode);                                                           \
    FILE *__wrap_##name(const char *path, const char *mode);                                                           \
    FILE *__wrap_##name(const char *path, const char *mode)                                                            \
    {                                                                                                                  \
        return strstr(path, "numa_node") ? open_node_file(path) : __real_##name(path, mode);                           \
    }
WRAP_FOPEN(fopen)
WRAP_FOPEN(fopen64)

enum lack lacks;

#define WRAP_MMAP(name)                                                                                                \
    void *__real_##name(void *address, size_t size, int protection, int flags, int file, off_t offset);                \
    void *__wrap_##name(void *address, size_t size, int protection, int flags, int file, off_t offset);                \
    void *__wrap_##name(void *address, size_t size, int protection, int flags, int file, off_t offset)                 \
    {                                                                                                                  \
        const int more = fake.unreserved ? MAP_NORESERVE : 0;                                                          \
        return lacks == MAPPING ? MAP_FAILED : __real_##name(address, size, protection, flags | more, file, offset);   \
    }
WRAP_MMAP(mmap)
WRAP_MMAP(mmap64)

void *__real_calloc(size_t number, size_t size);
void *__wrap_calloc(size_t number, size_t size);
/* The pool allocates its records in chunks, except those of segments. */
void *__wrap_calloc(size_t number, size_t size)
{
    const bool by_chunk = number * size > 10000;
    return lacks == (by_chunk ? RECORDS : RECORD_OF_SLAB) ? NULL : __real_calloc(number, size);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*body)(void *), void *argument)
{
    return lacks == THREAD ? -1 : __real_pthread_create(thread, how, body, argument);
}

/* ---- The pool ---- */

synced_mem_host_pool_stats pool_now(void)
{
    synced_mem_host_pool_stats stats = {.struct_size = sizeof stats};
    OK(synced_mem_host_pool_get_stats(&stats));
    ck_assert_uint_eq(stats.held_bytes, stats_now().pinned_bytes);
    ck_assert_uint_ge(stats.held_bytes, stats.free_bytes + stats.requested_bytes);
    ck_assert_uint_ge(stats.peak_held_bytes, stats.held_bytes);
    ck_assert_uint_ge(stats.peak_requested_bytes, stats.requested_bytes);
    return stats;
}

struct sm_pinned alloc(size_t size)
{
    struct sm_pinned memory = {.data = NULL};
    OK(sm_host_pool_alloc(0, size, &memory));
    ck_assert_uint_eq((uintptr_t)memory.data % SM_DEVICE_ALIGNMENT, 0);
    ck_assert_uint_eq(memory.bytes, size);
    return memory;
}

void give(struct sm_pinned memory)
{
    sm_host_pool_free(memory.data, memory.bytes, memory.block);
}

void use_fake(void)
{
    fake.on = true;
    fake.untouched = true;
}

void check_nothing_held(void)
{
    OK(sm_host_pool_shutdown());
    const synced_mem_host_pool_stats stats = pool_now();
    ck_assert_uint_eq(stats.held_bytes, 0);
    ck_assert_uint_eq(stats.slabs, 0);
    ck_assert_uint_eq(stats.requested_bytes, 0);
    if (fake.on)
        ck_assert_uint_eq(atomic_load(&fake.registered), atomic_load(&fake.unregistered));
}

void pass_some_time(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    (void)nanosleep(&pause, NULL);
}
