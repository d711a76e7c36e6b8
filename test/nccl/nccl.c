/*
 * A stand-in for NCCL on the emulated CUDA runtime. A reduction is a kernel on the stream of each rank that reads its
 * part, and a second kernel, after the first ones of all ranks, that writes the sum. So the emulated runtime checks
 * that the stream is ordered with all other uses of the memory. The sum is always added in the order of the ranks.
 *
 * The call waits on the host until all ranks have made it. NCCL waits on the device.
 */
#include "nccl_memory.h"

#include "cudart_emu.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8 };

/* The reduction that is the same call of all ranks. */
struct round {
    struct round *next;
    long number;
    size_t count;
    ncclDataType_t type;
    int arrived;
    void *parts[MOST_RANKS];
    cudaEvent_t read[MOST_RANKS]; /* recorded when the part is read */
};

/* The communicators of one id. They live until the process ends, because work on streams may use them. */
struct clique {
    struct clique *next;
    int id;
    int count, joined, ended;
    bool broken; /* a rank has aborted */
    struct round *rounds;
};

struct ncclComm {
    struct ncclComm *next;
    struct clique *clique;
    int rank;
    long calls;
};

/* A rank's share of a round, for the operations on its stream. */
struct share {
    struct share *next;
    struct clique *clique;
    struct round *round;
    int rank;
    const void *from;
    void *to;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct clique *cliques;
static struct ncclComm *communicators;
static struct share *shares;
static int ids;

static void *make(size_t size)
{
    void *const made = calloc(1, size);
    if (!made)
        abort();
    return made;
}

static size_t size_of(ncclDataType_t type)
{
    return type == ncclFloat ? sizeof(float) : sizeof(double);
}

/* ---- Operations on the stream ---- */

static void read_part(void *argument)
{
    const struct share *const share = argument;
    const struct round *const round = share->round;
    memcpy(round->parts[share->rank], emu_pointer(share->from), round->count * size_of(round->type));
}

static void write_sum(void *argument)
{
    const struct share *const share = argument;
    const struct round *const round = share->round;
    void *const to = emu_pointer(share->to);
    for (size_t i = 0; i < round->count; i++) {
        double wide = 0.0;
        float narrow = 0.0F;
        for (int rank = 0; rank < share->clique->count; rank++) {
            if (round->type == ncclFloat)
                narrow += ((const float *)round->parts[rank])[i];
            else
                wide += ((const double *)round->parts[rank])[i];
        }
        if (round->type == ncclFloat)
            ((float *)to)[i] = narrow;
        else
            ((double *)to)[i] = wide;
    }
}

/* ---- Calls ---- */

/* Waits until all ranks have queued the kernels that read their parts. Returns false if a rank has aborted. */
static bool wait_for_ranks(const struct share *share)
{
    struct clique *const clique = share->clique;
    pthread_mutex_lock(&mutex);
    share->round->arrived++;
    pthread_cond_broadcast(&changed);
    while (share->round->arrived < clique->count && !clique->broken)
        pthread_cond_wait(&changed, &mutex);
    const bool complete = share->round->arrived == clique->count;
    pthread_mutex_unlock(&mutex);
    return complete;
}

/* Finds or makes the round. The ranks must agree. */
static struct round *join_round(struct clique *clique, long number, size_t count, ncclDataType_t type)
{
    struct round *round = clique->rounds;
    while (round && round->number != number)
        round = round->next;
    if (!round) {
        round = make(sizeof *round);
        *round = (struct round){.next = clique->rounds, .number = number, .count = count, .type = type};
        for (int i = 0; i < clique->count; i++)
            round->parts[i] = make(count * size_of(type));
        clique->rounds = round;
    }
    if (round->count != count || round->type != type) {
        fprintf(stderr, "nccl: reduction %ld differs between the ranks: %zu and %zu elements\n", number, round->count,
                count);
        abort();
    }
    return round;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream)
{
    if (operation != ncclSum || (type != ncclFloat && type != ncclDouble))
        return ncclInvalidArgument;
    struct share *const share = make(sizeof *share);
    pthread_mutex_lock(&mutex);
    struct clique *const clique = communicator->clique;
    *share = (struct share){
        .next = shares,
        .clique = clique,
        .round = join_round(clique, communicator->calls++, count, type),
        .rank = communicator->rank,
        .from = from,
        .to = to,
    };
    shares = share;
    pthread_mutex_unlock(&mutex);

    const struct emu_range reads = {from, count * size_of(type), false};
    const struct emu_range writes = {to, count * size_of(type), true};
    cudaEvent_t *const read = &share->round->read[share->rank];
    if (emu_launch(stream, read_part, share, &reads, 1) != cudaSuccess ||
        cudaEventCreateWithFlags(read, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventRecord(*read, stream) != cudaSuccess)
        return ncclUnhandledCudaError;
    if (!wait_for_ranks(share))
        return ncclRemoteError;
    for (int i = 0; i < share->clique->count; i++) {
        if (cudaStreamWaitEvent(stream, share->round->read[i], 0) != cudaSuccess)
            return ncclUnhandledCudaError;
    }
    return emu_launch(stream, write_sum, share, &writes, 1) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    pthread_mutex_lock(&mutex);
    const int number = ++ids;
    pthread_mutex_unlock(&mutex);
    memcpy(id->internal, &number, sizeof number);
    return ncclSuccess;
}

static struct clique *find_clique(int id, int count)
{
    struct clique *clique = cliques;
    while (clique && clique->id != id)
        clique = clique->next;
    if (!clique) {
        clique = make(sizeof *clique);
        *clique = (struct clique){.next = cliques, .id = id, .count = count};
        cliques = clique;
    }
    return clique;
}

ncclResult_t ncclCommInitRank(ncclComm_t *communicator, int count, ncclUniqueId id, int rank)
{
    int number;
    memcpy(&number, id.internal, sizeof number);
    if (count < 1 || count > 8 || rank < 0 || rank >= count)
        return ncclInvalidArgument;
    struct ncclComm *const made = make(sizeof *made);
    pthread_mutex_lock(&mutex);
    struct clique *const clique = find_clique(number, count);
    *made = (struct ncclComm){.next = communicators, .clique = clique, .rank = rank};
    communicators = made;
    clique->joined++;
    pthread_cond_broadcast(&changed);
    while (clique->joined < clique->count)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    *communicator = made;
    return ncclSuccess;
}

/* Call it when no rank will queue a wait for the events any more. */
static void destroy_events(const struct ncclComm *communicator)
{
    for (struct round *round = communicator->clique->rounds; round; round = round->next) {
        cudaEvent_t *const read = &round->read[communicator->rank];
        if (*read)
            cudaEventDestroy(*read);
        *read = NULL;
    }
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int count, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    (void)config;
    return ncclCommInitRank(communicator, count, id, rank);
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator)
{
    struct clique *const clique = communicator->clique;
    nccl_end_windows(communicator, false);
    pthread_mutex_lock(&mutex);
    clique->ended++;
    pthread_cond_broadcast(&changed);
    while (clique->ended < clique->count && !clique->broken)
        pthread_cond_wait(&changed, &mutex);
    destroy_events(communicator);
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator)
{
    nccl_end_windows(communicator, true);
    pthread_mutex_lock(&mutex);
    communicator->clique->broken = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *error)
{
    pthread_mutex_lock(&mutex);
    *error = communicator->clique->broken ? ncclRemoteError : ncclSuccess;
    pthread_mutex_unlock(&mutex);
    return ncclSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22705;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess:
        return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    case ncclSystemError:
    case ncclInternalError:
    case ncclInvalidArgument:
    case ncclInvalidUsage:
    case ncclInProgress:
        break;
    }
    return "another error";
}

const char *ncclGetLastError(ncclComm_t communicator)
{
    (void)communicator; /* NCCL does not use it either */
    return "a rank of the stand-in";
}
