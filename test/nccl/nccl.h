/*
 * A stand-in for NCCL on the emulated CUDA runtime: the calls, types and values that the trainer and the guide use.
 * The ranks are threads of one process, each with a device of its own. Data travels through host memory.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <cuda_runtime_api.h>
#include <stddef.h>

typedef struct ncclComm *ncclComm_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE NCCL_VERSION(2, 27, 5)

typedef struct {
    size_t size;
    int maxCTAs;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                                        \
    {                                                                                                                  \
        sizeof(ncclConfig_t), -1                                                                                       \
    }

typedef struct ncclWindow *ncclWindow_t;
enum { NCCL_WIN_COLL_SYMMETRIC = 1 };

typedef enum { ncclSum = 0 } ncclRedOp_t;
typedef enum { ncclFloat = 7, ncclDouble = 8 } ncclDataType_t;

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclMemAlloc(void **data, size_t size);
ncclResult_t ncclMemFree(void *data);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *communicator, int count, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int count, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void *data, size_t size, ncclWindow_t *window, int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window);
ncclResult_t ncclCommDestroy(ncclComm_t communicator);
ncclResult_t ncclCommAbort(ncclComm_t communicator);
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *error);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t communicator);

#endif
