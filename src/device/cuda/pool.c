/* The seam on the CUDA runtime: settings, peers and statistics of the library's own pools. */
#include "device/cuda/runtime.h"

#include "base/process.h"
#include "base/status.h"

#include <stdatomic.h>

/* ---- Attributes ---- */

static synced_mem_status set(int device, cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return check(cudaMemPoolSetAttribute(pool, attribute, value), "cudaMemPoolSetAttribute", device, 0);
}

static synced_mem_status set_threshold(int device, cudaMemPool_t pool, void *bytes)
{
    return set(device, pool, cudaMemPoolAttrReleaseThreshold, bytes);
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
        status = set(device, pool, kinds[i].attribute, &on);
    }
    return status;
}

/* Does not trim a pool that holds no more than keep: cudaMemPoolTrimTo() with SIZE_MAX frees everything (seen with CUDA
 * 13.0). */
static synced_mem_status trim(int device, cudaMemPool_t pool, void *keep)
{
    const size_t bytes = *(const size_t *)keep;
    uint64_t reserved = 0;
    const synced_mem_status status = check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved),
                                           "cudaMemPoolGetAttribute", device, 0);
    if (status != SYNCED_MEM_OK || reserved <= bytes)
        return status;
    return check(cudaMemPoolTrimTo(pool, bytes), "cudaMemPoolTrimTo", device, 0);
}

static synced_mem_status reset_peaks(int device, cudaMemPool_t pool, void *unused)
{
    uint64_t zero = 0;
    (void)unused;
    const synced_mem_status status = set(device, pool, cudaMemPoolAttrReservedMemHigh, &zero);
    return status == SYNCED_MEM_OK ? set(device, pool, cudaMemPoolAttrUsedMemHigh, &zero) : status;
}

static synced_mem_status get_stats(int device, cudaMemPool_t pool, void *numbers)
{
    struct sm_pool_numbers *const to = numbers;
    const struct {
        enum cudaMemPoolAttr attribute;
        uint64_t *value;
    } asked[] = {{cudaMemPoolAttrReservedMemCurrent, &to->reserved},
                 {cudaMemPoolAttrReservedMemHigh, &to->reserved_high},
                 {cudaMemPoolAttrUsedMemCurrent, &to->used},
                 {cudaMemPoolAttrUsedMemHigh, &to->used_high}};
    synced_mem_status status = SYNCED_MEM_OK;
    to->known = true;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0] && status == SYNCED_MEM_OK; i++)
        status = check(cudaMemPoolGetAttribute(pool, asked[i].attribute, asked[i].value), "cudaMemPoolGetAttribute",
                       device, 0);
    return status;
}

/* Calls act() with the device's pool. No effect if there is none and make is false, or without pools. */
static synced_mem_status with_pool(int device, bool make, synced_mem_status (*act)(int, cudaMemPool_t, void *),
                                   void *argument)
{
    struct before before;
    cudaMemPool_t pool;
    SM_TRY(enter(device, &before));
    synced_mem_status status = sm_cuda_pool(device, make, &pool);
    if (status == SYNCED_MEM_OK && pool)
        status = act(device, pool, argument);
    return leave(device, &before, status);
}

synced_mem_status sm_device_pool_set_threshold(int device, uint64_t bytes)
{
    return with_pool(device, true, set_threshold, &bytes);
}

synced_mem_status sm_device_pool_set_reuse(int device, unsigned policies)
{
    return with_pool(device, true, set_reuse, &policies);
}

synced_mem_status sm_device_pool_trim(int device, size_t keep)
{
    return with_pool(device, false, trim, &keep);
}

synced_mem_status sm_device_pool_reset_peaks(int device)
{
    return with_pool(device, false, reset_peaks, NULL);
}

synced_mem_status sm_device_pool_numbers(int device, struct sm_pool_numbers *numbers)
{
    *numbers = (struct sm_pool_numbers){.known = false};
    return with_pool(device, false, get_stats, numbers);
}

/* ---- Peers ---- */

/* For devices without pools: a bit for each peer that the library has given access to the device's memory. Access that
 * the user has enabled stays the user's to disable. */
static _Atomic uint64_t let_in[SM_MAX_DEVICES];

static synced_mem_status check_possible(int device, int peer)
{
    int possible;
    const synced_mem_status status =
        check(cudaDeviceCanAccessPeer(&possible, peer, device), "cudaDeviceCanAccessPeer", device, 0);
    if (status != SYNCED_MEM_OK || possible)
        return status;
    return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "device %d can't reach the memory of device %d", peer, device);
}

struct wish {
    int peer;
    bool allow;
};

static synced_mem_status allow_in_pool(int device, cudaMemPool_t pool, const struct wish *wish)
{
    struct cudaMemLocation where = {.type = cudaMemLocationTypeDevice, .id = wish->peer};
    const struct cudaMemAccessDesc wanted = {
        .location = where, .flags = wish->allow ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone};
    enum cudaMemAccessFlags found = cudaMemAccessFlagsProtNone;
    synced_mem_status status = check(cudaMemPoolSetAccess(pool, &wanted, 1), "cudaMemPoolSetAccess", device, 0);
    if (status == SYNCED_MEM_OK)
        status = check(cudaMemPoolGetAccess(&found, pool, &where), "cudaMemPoolGetAccess", device, 0);
    if (status == SYNCED_MEM_OK && found != wanted.flags)
        status = sm_fail(SYNCED_MEM_ERR_CUDA, "device %d has access %d to the pool of device %d, not %d as was set",
                         wish->peer, (int)found, device, (int)wanted.flags);
    return status;
}

/* Gives the peer access to the device's memory. The peer is current. */
static synced_mem_status enable_peer(int device, int peer)
{
    const cudaError_t code = cudaDeviceEnablePeerAccess(device, 0);
    const bool already = code == cudaErrorPeerAccessAlreadyEnabled;
    const synced_mem_status status = check(code, "cudaDeviceEnablePeerAccess", peer, 0);
    if (status == SYNCED_MEM_OK)
        atomic_fetch_or_explicit(&let_in[device], (uint64_t)1 << peer, memory_order_relaxed);
    return already ? SYNCED_MEM_OK : status;
}

static synced_mem_status disable_peer(int device, int peer)
{
    const cudaError_t code = cudaDeviceDisablePeerAccess(device);
    const bool already = code == cudaErrorPeerAccessNotEnabled;
    const synced_mem_status status = check(code, "cudaDeviceDisablePeerAccess", peer, 0);
    if (sm_cuda_remains(status) && !already)
        return status;
    atomic_fetch_and_explicit(&let_in[device], ~((uint64_t)1 << peer), memory_order_relaxed);
    return already ? SYNCED_MEM_OK : status;
}

static synced_mem_status allow_device(int device, const struct wish *wish)
{
    struct before before;
    const uint64_t bit = (uint64_t)1 << wish->peer;
    if (!wish->allow && !(atomic_load_explicit(&let_in[device], memory_order_relaxed) & bit))
        return SYNCED_MEM_OK;
    SM_TRY(enter(wish->peer, &before));
    return leave(wish->peer, &before, wish->allow ? enable_peer(device, wish->peer) : disable_peer(device, wish->peer));
}

static synced_mem_status allow_to(int device, const struct wish *wish)
{
    struct before before;
    cudaMemPool_t pool;
    SM_TRY(enter(device, &before));
    synced_mem_status status = check_possible(device, wish->peer);
    if (status == SYNCED_MEM_OK)
        status = sm_cuda_pool(device, true, &pool);
    if (status == SYNCED_MEM_OK)
        status = pool ? allow_in_pool(device, pool, wish) : allow_device(device, wish);
    return leave(device, &before, status);
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

/* The caller's word is noted first, so that sm_device_pool_reach() in another thread sees it at its end. */
synced_mem_status sm_device_pool_allow_peer(int device, int peer, bool allow)
{
    const struct wish wish = {.peer = peer, .allow = allow};
    const unsigned char before =
        atomic_exchange(&permissions[device][peer], (unsigned char)(allow ? ALLOWED : FORBIDDEN));
    const synced_mem_status status = allow_to(device, &wish);
    if (status != SYNCED_MEM_OK)
        atomic_store(&permissions[device][peer], before);
    return status;
}

static synced_mem_status set_in_pool(int device, const struct wish *wish)
{
    struct before before;
    cudaMemPool_t pool;
    SM_TRY(enter(device, &before));
    synced_mem_status status = check_possible(device, wish->peer);
    if (status == SYNCED_MEM_OK)
        status = sm_cuda_pool(device, false, &pool);
    if (status == SYNCED_MEM_OK && pool)
        status = allow_in_pool(device, pool, wish);
    return leave(device, &before, status);
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
    const synced_mem_status status = set_in_pool(device, &wish);
    unsigned char taken = TAKEN;
    if (status != SYNCED_MEM_OK)
        (void)atomic_compare_exchange_strong(permission, &taken,
                                             status == SYNCED_MEM_ERR_INVALID_DEVICE ? TOO_FAR : UNSET);
    else if (atomic_load(permission) == FORBIDDEN)
        (void)set_in_pool(device, &forbidden);
    sm_detail_set(&first);
}

static synced_mem_status forget_peers(void)
{
    synced_mem_status first = SYNCED_MEM_OK;
    for (int device = 0; device < SM_MAX_DEVICES; device++) {
        for (int peer = 0; peer < SM_MAX_DEVICES; peer++) {
            const struct wish wish = {.peer = peer, .allow = false};
            const synced_mem_status status = allow_device(device, &wish);
            first = sm_cuda_remains(first) ? first : status;
        }
    }
    return first;
}

static void forget_permissions(void)
{
    for (int device = 0; device < SM_MAX_DEVICES; device++)
        for (int peer = 0; peer < SM_MAX_DEVICES; peer++)
            atomic_store(&permissions[device][peer], UNSET);
}

synced_mem_status sm_device_shutdown(void)
{
    forget_permissions();
    const synced_mem_status peers = forget_peers();
    const synced_mem_status pools = sm_cuda_destroy_pools();
    sm_cuda_forget_use();
    return sm_cuda_remains(pools) ? pools : peers;
}
