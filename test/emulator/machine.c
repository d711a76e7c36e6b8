/*
 * The state of the emulator, the beginning and the end of a call, and the settings of the machine.
 */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DEVICES 4
#define DEFAULT_MEMORY ((size_t)1 << 30)

struct emu_state emu = {.lock = PTHREAD_MUTEX_INITIALIZER, .ran = PTHREAD_COND_INITIALIZER};

const char *const emu_call_names[EMU_CALL_COUNT] = {
#define CALL_NAME(name) #name,
#define DRIVER_CALL_NAME(name, version) #name,
    EMU_CALLS(CALL_NAME) DRIVER_FUNCTIONS(DRIVER_CALL_NAME)
#undef CALL_NAME
#undef DRIVER_CALL_NAME
};

static _Thread_local struct emu_thread self;
static _Thread_local const void *called_from;

void *emu_allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        fputs("cudart_emu: no memory for the emulation itself\n", stderr);
        abort();
    }
    return memory;
}

/* ---- The lock ---- */

void emu_lock(void)
{
    emu_hide();
    pthread_mutex_lock(&emu.lock);
}

void emu_unlock(void)
{
    pthread_mutex_unlock(&emu.lock);
    emu_show();
}

static void after_fork_in_child(void)
{
    /* No thread of this process can be waiting, whatever the parent's threads did. */
    pthread_cond_init(&emu.ran, NULL);
    emu_host_functions_forked();
    emu.forked = emu.driver_used;
    emu_unlock();
}

/* Returns the calling thread's state. State that dates from before a reset is cleared, as for a new thread. */
struct emu_thread *emu_self(void)
{
    if (self.epoch != emu.epoch) {
        struct emu_op *function = self.function;
        const bool locked = self.locked;
        memset(&self, 0, sizeof self);
        self.epoch = emu.epoch;
        self.number = ++emu.last_thread;
        self.function = function;
        self.locked = locked;
    }
    return &self;
}

/* ---- Chance ---- */

uint64_t emu_random(void)
{
    emu.random += 0x9e3779b97f4a7c15u;
    uint64_t mixed = emu.random;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

/* Returns false with seed 0, as work then runs as late and as regularly as the rules allow. */
bool emu_chance(unsigned of_sixteen)
{
    return emu.seed != 0 && (emu_random() & 15) < of_sixteen;
}

/* ---- Entering and leaving ---- */

bool emu_in_function(void)
{
    return self.function != NULL;
}

bool emu_is_forked(void)
{
    return emu.forked || emu.machine == EMU_FORKED;
}

bool emu_device_exists(int device)
{
    return device >= 0 && device < emu.device_count;
}

static cudaError_t machine_error(enum emu_need need)
{
    if (emu.machine == EMU_UNLOADING)
        return cudaErrorCudartUnloading;
    if (need == EMU_NEEDS_NOTHING)
        return cudaSuccess;
    if (emu_is_forked())
        return cudaErrorInitializationError;
    switch (emu.machine) {
    case EMU_NO_DRIVER:
        return cudaErrorInsufficientDriver;
    case EMU_OLD_DRIVER:
        return cudaErrorCallRequiresNewerDriver;
    case EMU_NO_DEVICE:
        return cudaErrorNoDevice;
    case EMU_PRESENT:
    case EMU_UNLOADING:
    case EMU_FORKED:
        break;
    }
    emu.driver_used = true;
    return emu.device_count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t emu_context(int device)
{
    emu.devices[device].context = true;
    return emu.devices[device].sticky;
}

void emu_called_from(const void *site)
{
    called_from = site;
}

cudaError_t emu_enter_uncounted(const char *name, enum emu_need need, const void *site)
{
    if (called_from != NULL)
        site = called_from;
    called_from = NULL;
    if (self.function != NULL) {
        self.locked = false;
        return cudaErrorNotPermitted;
    }
    emu_lock();
    struct emu_thread *thread = emu_self();
    thread->locked = true;
    thread->origin = (struct emu_origin){name, site};
    const cudaError_t error = machine_error(need);
    return error == cudaSuccess && need == EMU_NEEDS_CONTEXT ? emu_context(thread->device) : error;
}

/* Only a call that reaches the device can break it. */
static cudaError_t inject(enum emu_call call, cudaError_t error)
{
    cudaError_t code = cudaSuccess;
    bool sticky = false;
    self.refused = emu_injected(call, &code, &sticky);
    if (!self.refused)
        return error;
    if (sticky && emu_device_exists(self.device))
        emu.devices[self.device].sticky = code;
    return code;
}

cudaError_t emu_enter(enum emu_call call, enum emu_need need, const void *site)
{
    cudaError_t error = emu_enter_uncounted(emu_call_names[call], need, site);
    if (!self.locked)
        return error;
    emu.calls[call]++;
    error = inject(call, error);
    return error == cudaSuccess ? emu_call_permitted(call) : error;
}

bool emu_was_refused(cudaError_t error)
{
    const bool can_run = error != cudaErrorNotSupported && error != cudaErrorCallRequiresNewerDriver;
    return self.locked && self.refused && can_run && emu_context(self.device) == cudaSuccess;
}

static void progress_and_unlock(void)
{
    if (self.locked) {
        emu_progress();
        self.locked = false;
        emu_unlock();
    }
}

CUresult emu_leave_driver(cudaError_t error)
{
    progress_and_unlock();
    return (CUresult)error;
}

cudaError_t emu_leave(cudaError_t error)
{
    progress_and_unlock();
    if (error != cudaSuccess && error != cudaErrorNotReady)
        self.last_error = error;
    return error;
}

/* ---- Starting over ---- */

static void reset_device(struct emu_device *device, int number)
{
    device->context = false;
    device->gpu = number;
    device->sticky = device->break_code = cudaSuccess;
    device->occupied = false;
    device->limit = DEFAULT_MEMORY;
    device->used = 0;
    device->attribute_count = 0;
    device->default_pool = device->current_pool = NULL;
    emu_order_saw_device(number);
    emu_order_stream_gone(&device->legacy);
    device->legacy = (struct emu_stream){.device = number, .blocking = true, .id = (uint64_t)number + 1};
    for (int peer = 0; peer < EMU_MAX_DEVICES; peer++) {
        device->peer_possible[peer] = peer != number;
        device->peer_enabled[peer] = false;
    }
}

static void reset_random(uint64_t seed)
{
    emu.seed = emu.random = seed;
    emu.eagerness = seed == 0 ? 0 : (unsigned)(emu_random() % 15) + 1;
    emu.starve = seed != 0 && emu_random() % 3 == 0;
}

static void reset_locked(uint64_t seed)
{
    emu_host_functions_reset();
    emu_schedule_reset();
    emu_memory_reset();
    emu_race_reset();
    emu_pools_reset();
    emu_reservations_reset();
    emu_memories_reset();
    emu_arenas_reset();
    emu_slots_reset(&emu.streams, sizeof(struct CUstream_st), 1u << 16);
    emu_slots_reset(&emu.events, sizeof(struct CUevent_st), 1u << 20);
    emu_slots_reset(&emu.pool_handles, sizeof(struct CUmemPoolHandle_st), 1u << 12);
    emu_slots_reset(&emu.graph_handles, sizeof(struct CUgraph_st), 1u << 16);
    emu_slots_reset(&emu.exec_handles, sizeof(struct CUgraphExec_st), 1u << 16);
    emu_slots_reset(&emu.libraries, sizeof(struct CUlib_st), 1u << 12);
    emu_slots_reset(&emu.memory_handles, sizeof(struct emu_memory_handle), 1u << 16);
    emu_failures_reset();
    for (int device = 0; device < EMU_MAX_DEVICES; device++)
        reset_device(&emu.devices[device], device);
    reset_random(seed);
    emu.epoch++;
    emu.machine = EMU_PRESENT;
    emu.driver_version = CUDART_VERSION;
    emu.driver_used = emu.forked = false;
    emu.device_count = DEFAULT_DEVICES;
    emu.pinned_limit = SIZE_MAX;
    emu.pinned_used = 0;
    /* The legacy streams have the first ids. */
    emu.last_stream_id = EMU_MAX_DEVICES;
    emu.misuse_handler = NULL;
    emu.past_protection = getenv("SYNCED_MEM_DEBUG") != NULL;
    memset(emu.live, 0, sizeof emu.live);
    memset(emu.live_bytes, 0, sizeof emu.live_bytes);
    memset(emu.calls, 0, sizeof emu.calls);
}

void emu_reset(uint64_t seed)
{
    emu_lock();
    reset_locked(seed);
    emu_unlock();
}

__attribute__((constructor)) static void start(void)
{
    const char *seed = getenv("SYNCED_MEM_EMU_SEED");
    const char *leaks = getenv("SYNCED_MEM_EMU_LEAKS");
    pthread_atfork(emu_lock, emu_unlock, after_fork_in_child);
    emu.report_leaks = leaks != NULL && strcmp(leaks, "1") == 0;
    emu_reset(seed == NULL ? 0 : strtoull(seed, NULL, 0));
    emu_catch_faults();
}

/* Runs later than functions registered with atexit(), and than destructors of libraries that use this one. */
__attribute__((destructor)) static void end(void)
{
    emu_check_leaks();
}

/* ---- Settings of the machine ---- */

void emu_set_machine(enum emu_machine machine)
{
    emu_lock();
    emu.machine = machine;
    emu_unlock();
}

void emu_set_device_count(int count)
{
    emu_lock();
    emu.device_count = count < 0 ? 0 : count > EMU_MAX_DEVICES ? EMU_MAX_DEVICES : count;
    emu_unlock();
}

void emu_set_driver_version(int version)
{
    emu_lock();
    emu.driver_version = version;
    emu_unlock();
}

void emu_set_gpu(int device, int gpu)
{
    emu_lock();
    if (device >= 0 && device < EMU_MAX_DEVICES)
        emu.devices[device].gpu = gpu;
    emu_unlock();
}

void emu_set_device_memory(int device, size_t bytes)
{
    emu_lock();
    if (device >= 0 && device < EMU_MAX_DEVICES)
        emu.devices[device].limit = bytes;
    emu_unlock();
}

void emu_set_pinned_memory(size_t bytes)
{
    emu_lock();
    emu.pinned_limit = bytes;
    emu_unlock();
}

void emu_set_peer_access(int device, int peer, bool possible)
{
    emu_lock();
    if (device >= 0 && device < EMU_MAX_DEVICES && peer >= 0 && peer < EMU_MAX_DEVICES)
        emu.devices[device].peer_possible[peer] = possible;
    emu_unlock();
}

void emu_set_attribute(int device, enum cudaDeviceAttr attribute, int value)
{
    emu_lock();
    if (device >= 0 && device < EMU_MAX_DEVICES)
        emu_attribute_set(device, (int)attribute, value);
    emu_unlock();
}

void emu_set_pools_supported(int device, bool supported)
{
    emu_set_attribute(device, cudaDevAttrMemoryPoolsSupported, supported);
}

bool emu_has_context(int device)
{
    emu_lock();
    const bool has = emu_device_exists(device) && emu.devices[device].context;
    emu_unlock();
    return has;
}

void emu_break_device(int device, cudaError_t code)
{
    emu_lock();
    if (device >= 0 && device < EMU_MAX_DEVICES)
        emu.devices[device].break_code = code;
    emu_unlock();
}

void emu_occupy_device(int device, bool occupied)
{
    emu_lock();
    if (device >= 0 && device < EMU_MAX_DEVICES)
        emu.devices[device].occupied = occupied;
    (void)pthread_cond_broadcast(&emu.ran);
    emu_unlock();
}

/* ---- The calling thread's last error; these two calls cannot fail by themselves ---- */

/* The error of a broken device stays for good. */
static bool is_sticky(const struct emu_thread *thread, cudaError_t error)
{
    return emu_device_exists(thread->device) && emu.devices[thread->device].sticky == error;
}

static cudaError_t last_error(bool clear)
{
    /* A host function's thread has a last error of its own, and must not wait for the lock. */
    if (self.function != NULL)
        return self.last_error;
    emu_lock();
    struct emu_thread *thread = emu_self();
    /* Without a driver even these two calls try to start the runtime, and fail. */
    const cudaError_t error = emu.machine == EMU_NO_DRIVER ? cudaErrorInsufficientDriver : thread->last_error;
    if (clear && error != cudaSuccess && !is_sticky(thread, error))
        thread->last_error = cudaSuccess;
    emu_unlock();
    return error;
}

cudaError_t cudaGetLastError(void)
{
    return last_error(true);
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error(false);
}
