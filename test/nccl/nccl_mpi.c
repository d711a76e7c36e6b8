/*
 * A stand-in for NCCL on the emulated CUDA runtime, whose ranks are those of MPI. A reduction is a kernel that reads
 * the part of the rank, MPI_Allreduce, and a kernel that writes the sum. The call waits on the host for the first
 * kernel and for the other ranks. NCCL waits on the device.
 */
#include "nccl_memory.h"

#include "cudart_emu.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct ncclComm {
    int rank;
};

struct transfer {
    const void *from;
    void *to;
    void *host;
    size_t size;
};

static void read_part(void *argument)
{
    const struct transfer *const transfer = argument;
    memcpy(transfer->host, emu_pointer(transfer->from), transfer->size);
}

/* The last kernel of a reduction. */
static void write_sum(void *argument)
{
    struct transfer *const transfer = argument;
    memcpy(emu_pointer(transfer->to), transfer->host, transfer->size);
    free(transfer->host);
    free(transfer);
}

static ncclResult_t sum(struct transfer *transfer, size_t count, ncclDataType_t type, cudaStream_t stream)
{
    const struct emu_range reads = {transfer->from, transfer->size, false};
    const struct emu_range writes = {transfer->to, transfer->size, true};
    if (emu_launch(stream, read_part, transfer, &reads, 1) != cudaSuccess ||
        cudaStreamSynchronize(stream) != cudaSuccess)
        return ncclUnhandledCudaError;
    if (MPI_Allreduce(MPI_IN_PLACE, transfer->host, (int)count, type == ncclFloat ? MPI_FLOAT : MPI_DOUBLE, MPI_SUM,
                      MPI_COMM_WORLD) != MPI_SUCCESS)
        return ncclRemoteError;
    return emu_launch(stream, write_sum, transfer, &writes, 1) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream)
{
    const size_t size = count * (type == ncclFloat ? sizeof(float) : sizeof(double));
    if (!communicator || operation != ncclSum)
        return ncclInvalidArgument;
    struct transfer *const transfer = malloc(sizeof *transfer);
    void *const host = malloc(size);
    if (!transfer || !host)
        abort();
    *transfer = (struct transfer){.from = from, .to = to, .host = host, .size = size};
    return sum(transfer, count, type, stream);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *communicator, int count, ncclUniqueId id, int rank)
{
    int own, all;
    (void)id;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    if (own != rank || all != count)
        return ncclInvalidArgument;
    *communicator = malloc(sizeof **communicator);
    return *communicator ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int count, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    (void)config;
    return ncclCommInitRank(communicator, count, id, rank);
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator)
{
    nccl_end_windows(communicator, 0);
    free(communicator);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator)
{
    nccl_end_windows(communicator, 1);
    free(communicator);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *error)
{
    (void)communicator;
    *error = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22705;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclUnhandledCudaError ? "unhandled cuda error" : "another error";
}

const char *ncclGetLastError(ncclComm_t communicator)
{
    (void)communicator;
    return "the stand-in over MPI";
}
