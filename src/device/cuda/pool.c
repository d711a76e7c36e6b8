/* The seam on the CUDA runtime: settings, peers and statistics of the library's own pools. */
#include "device/cuda/runtime.h"

#include "base/process.h"
#include "base/status.h"

#include <stdatomic.h>

/* ---- Attributes ---- */

static synced_mem_status set_attribute(int device, cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return check_code(cudaMemPoolSetAttribute(pool, attribute, value), "cudaMemPoolSetAttribute", device, 0);
}

static synced_mem_status set_threshold(int device, cudaMemPool_t pool, void *bytes)
{
    return set_attribute(device, pool, cudaMemPoolAttrReleaseThreshold, bytes);
}

static synced_mem_status set_reuse(int device, cudaMemPool_t pool, void *policies)
{
    static const struct {
        enum cudaMemPoolAttr attribute;
        unsigned bit;
    } kinds[] = {{cudaMemPoolReuseFollowEventDependencies, SYNCED_MEM_GPU_POOL_REUSE_EVENTS},
                 {cudaMemPoolReuseAllowOpportunistic, SYNCED_MEM_GPU_POOL_REUSE_OPPORTUNISTIC},
                 {cudaMemPoolReuseAllowInternalDependencies, SYNCED_MEM_GPU_POOL_REUSE_INTERNAL}};
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == SYNCED_MEM_OK; i++) {
        int on = (*(const unsigned *)policies & kinds[i].bit) != 0;
        status = set_attribute(device, pool, kinds[i].attribute, &on);
    }
    return status;
}

/* Does not trim a pool that holds no more than keep: cudaMemPoolTrimTo() with SIZE_MAX frees everything (seen with CUDA
 * 13.0). */
static synced_mem_status trim_pool(int device, cudaMemPool_t pool, void *keep)
{
    const size_t bytes = *(const size_t *)keep;
    uint64_t reserved = 0;
    const synced_mem_status status =
        check_code(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved),
                   "cudaMemPoolGetAttribute", device, 0);
    if (status != SYNCED_MEM_OK || reserved <= bytes)
        return status;
    return check_code(cudaMemPoolTrimTo(pool, bytes), "cudaMemPoolTrimTo", device, 0);
}

static synced_mem_status reset_peaks(int device, cudaMemPool_t pool, void *unused)
{
    uint64_t zero = 0;
    (void)unused;
    const synced_mem_status status = set_attribute(device, pool, cudaMemPoolAttrReservedMemHigh, &zero);
    return status == SYNCED_MEM_OK ? set_attribute(device, pool, cudaMemPoolAttrUsedMemHigh, &zero) : status;
}

static synced_mem_status read_numbers(int device, cudaMemPool_t pool, void *numbers)
{
    struct sm_pool_numbers *const to = numbers;
    const struct {
        enum cudaMemPoolAttr attribute;
        uint64_t *value;
    } attributes[] = {{cudaMemPoolAttrReservedMemCurrent, &to->reserved},
                      {cudaMemPoolAttrReservedMemHigh, &to->reserved_high},
                      {cudaMemPoolAttrUsedMemCurrent, &to->used},
                      {cudaMemPoolAttrUsedMemHigh, &to->used_high}};
    synced_mem_status status = SYNCED_MEM_OK;
    to->known = true;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0] && status == SYNCED_MEM_OK; i++)
        status = check_code(cudaMemPoolGetAttribute(pool, attributes[i].attribute, attributes[i].value),
                            "cudaMemPoolGetAttribute", device, 0);
    return status;
}

/* Calls act() with the device's pool. No effect if there is none and make is false, or without pools. */
static synced_mem_status call_with_pool(int device, bool make, synced_mem_status (*act)(int, cudaMemPool_t, void *),
                                        void *argument)
{
    struct before before;
    cudaMemPool_t pool;
    SM_TRY(enter_device(device, &before));
    synced_mem_status status = sm_cuda_pool(device, make, &pool);
    if (status == SYNCED_MEM_OK && pool)
        status = act(device, pool, argument);
    return leave_device(device, &before, status);
}

synced_mem_status sm_device_pool_set_threshold(int device, uint64_t bytes)
{
    return call_with_pool(device, true, set_threshold, &bytes);
}

synced_mem_status sm_device_pool_set_reuse(int device, unsigned policies)
{
    return call_with_pool(device, true, set_reuse, &policies);
}

synced_mem_status sm_device_pool_trim(int device, size_t keep)
{
    return call_with_pool(device, false, trim_pool, &keep);
}

synced_mem_status sm_device_pool_reset_peaks(int device)
{
    return call_with_pool(device, false, reset_peaks, NULL);
}

synced_mem_status sm_device_pool_numbers(int device, struct sm_pool_numbers *numbers)
{
    *numbers = (struct sm_pool_numbers){.known = false};
    return call_with_pool(device, false, read_numbers, numbers);
}

/* ---- Peers ---- */

/* For devices without pools: a bit for each peer that the library has given access to the device's memory. Access that
 * the user has enabled stays the user's to disable. */
static _Atomic uint64_t enabled_peers[SM_MAX_DEVICES];

static synced_mem_status check_peer_possible(int device, int peer)
{
    int possible;
    const synced_mem_status status =
        check_code(cudaDeviceCanAccessPeer(&possible, peer, device), "cudaDeviceCanAccessPeer", device, 0);
    if (status != SYNCED_MEM_OK || possible)
        return status;
    return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "device %d can't access the memory of device %d", peer, device);
}

struct wish {
    int peer;
    bool allow;
};

static synced_mem_status set_pool_access(int device, cudaMemPool_t pool, const struct wish *wish)
{
    struct cudaMemLocation where = {.type = cudaMemLocationTypeDevice, .id = wish->peer};
    const struct cudaMemAccessDesc wanted = {
        .location = where, .flags = wish->allow ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone};
    enum cudaMemAccessFlags found = cudaMemAccessFlagsProtNone;
    synced_mem_status status = check_code(cudaMemPoolSetAccess(pool, &wanted, 1), "cudaMemPoolSetAccess", device, 0);
    if (status == SYNCED_MEM_OK)
        status = check_code(cudaMemPoolGetAccess(&found, pool, &where), "cudaMemPoolGetAccess", device, 0);
    if (status == SYNCED_MEM_OK && found != wanted.flags)
        status = sm_fail(SYNCED_MEM_ERR_CUDA, "device %d has access %d to the pool of device %d, although %d was set",
                         wish->peer, (int)found, device, (int)wanted.flags);
    return status;
}

/* Gives the peer access to the device's memory. The peer is current. */
static synced_mem_status enable_peer(int device, int peer)
{
    const cudaError_t code = cudaDeviceEnablePeerAccess(device, 0);
    const bool already = code == cudaErrorPeerAccessAlreadyEnabled;
    const synced_mem_status status = check_code(code, "cudaDeviceEnablePeerAccess", peer, 0);
    if (status == SYNCED_MEM_OK)
        atomic_fetch_or_explicit(&enabled_peers[device], (uint64_t)1 << peer, memory_order_relaxed);
    return already ? SYNCED_MEM_OK : status;
}

static synced_mem_status disable_peer(int device, int peer)
{
    const cudaError_t code = cudaDeviceDisablePeerAccess(device);
    const bool already = code == cudaErrorPeerAccessNotEnabled;
    const synced_mem_status status = check_code(code, "cudaDeviceDisablePeerAccess", peer, 0);
    if (sm_cuda_remains(status) && !already)
        return status;
    atomic_fetch_and_explicit(&enabled_peers[device], ~((uint64_t)1 << peer), memory_order_relaxed);
    return already ? SYNCED_MEM_OK : status;
}

static synced_mem_status set_device_access(int device, const struct wish *wish)
{
    struct before before;
    const uint64_t bit = (uint64_t)1 << wish->peer;
    if (!wish->allow && !(atomic_load_explicit(&enabled_peers[device], memory_order_relaxed) & bit))
        return SYNCED_MEM_OK;
    SM_TRY(enter_device(wish->peer, &before));
    return leave_device(wish->peer, &before,
                        wish->allow ? enable_peer(device, wish->peer) : disable_peer(device, wish->peer));
}

/* The peer's access to a pool does not cover the memory beside it. */
static synced_mem_status set_access(int device, cudaMemPool_t pool, const struct wish *wish)
{
    const struct wish undo = {.peer = wish->peer, .allow = false};
    if (!pool)
        return set_device_access(device, wish);
    if (!wish->allow || sm_cuda_has_plain_memory(device))
        SM_TRY(set_device_access(device, wish));
    const synced_mem_status status = set_pool_access(device, pool, wish);
    if (status != SYNCED_MEM_OK && wish->allow) {
        const struct sm_detail first = sm_detail_get();
        (void)set_device_access(device, &undo);
        sm_detail_set(&first);
    }
    return status;
}

/* make: creates a missing pool; without pools the access is to all memory of the device. */
static synced_mem_status set_peer_access(int device, const struct wish *wish, bool make)
{
    struct before before;
    cudaMemPool_t pool;
    SM_TRY(enter_device(device, &before));
    synced_mem_status status = check_peer_possible(device, wish->peer);
    if (status == SYNCED_MEM_OK)
        status = sm_cuda_pool(device, make, &pool);
    if (status == SYNCED_MEM_OK && (pool || make))
        status = set_access(device, pool, wish);
    return leave_device(device, &before, status);
}

/* Whether a peer may use the memory of a device's pool. */
enum permission {
    UNSET,
    TAKEN,   /* the library has allowed it by itself, or is about to */
    TOO_FAR, /* the peer can't reach the device */
    ALLOWED, /* by sm_device_pool_allow_peer() */
    FORBIDDEN
};
static atomic_uchar permissions[SM_MAX_DEVICES][SM_MAX_DEVICES];

/* Stores the caller's permission first, so that sm_device_pool_reach() in another thread sees it at its end. */
synced_mem_status sm_device_pool_allow_peer(int device, int peer, bool allow)
{
    const struct wish wish = {.peer = peer, .allow = allow};
    const unsigned char before =
        atomic_exchange(&permissions[device][peer], (unsigned char)(allow ? ALLOWED : FORBIDDEN));
    const synced_mem_status status = set_peer_access(device, &wish, true);
    if (status != SYNCED_MEM_OK)
        atomic_store(&permissions[device][peer], before);
    return status;
}

/* A refusal is no failure, and the next transfer tries again. If the caller has forbidden the access meanwhile, it is
 * taken back. */
void sm_device_pool_reach(int device, int peer)
{
    const struct wish wish = {.peer = peer, .allow = true};
    const struct wish forbidden = {.peer = peer, .allow = false};
    atomic_uchar *const permission = &permissions[device][peer];
    unsigned char expected = UNSET;
    if (!atomic_compare_exchange_strong(permission, &expected, TAKEN))
        return;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status status = set_peer_access(device, &wish, false);
    unsigned char taken = TAKEN;
    if (status != SYNCED_MEM_OK)
        (void)atomic_compare_exchange_strong(permission, &taken,
                                             status == SYNCED_MEM_ERR_INVALID_DEVICE ? TOO_FAR : UNSET);
    else if (atomic_load(permission) == FORBIDDEN)
        (void)set_peer_access(device, &forbidden, false);
    sm_detail_set(&first);
}

static synced_mem_status disable_peers(void)
{
    struct sm_outcome first = {.status = SYNCED_MEM_OK};
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        for (int peer = 0; peer < SM_MAX_DEVICES; peer++) {
            const struct wish wish = {.peer = peer, .allow = false};
            const synced_mem_status status = set_device_access(device, &wish);
            if (!sm_cuda_remains(first.status))
                sm_outcome_set(&first, status);
        }
    }
    return sm_outcome_end(&first);
}

synced_mem_status sm_device_shutdown(void)
{
    struct sm_outcome peers;
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        for (int peer = 0; peer < SM_MAX_DEVICES; peer++)
            atomic_store(&permissions[device][peer], UNSET);
    sm_outcome_set(&peers, disable_peers());
    SM_TRY(sm_cuda_unload_lists());
    const synced_mem_status pools = sm_cuda_destroy_pools();
    sm_cuda_forget_use();
    return sm_cuda_remains(pools) ? pools : sm_outcome_end(&peers);
}
