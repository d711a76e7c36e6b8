/*
 * The driver's functions that the emulated runtime has, each with the version of CUDA that introduced it. They share
 * device memory between processes. Tests on the real runtime use the list too.
 */
#ifndef DRIVER_FUNCTIONS_H
#define DRIVER_FUNCTIONS_H

#define DRIVER_FUNCTIONS(X)                                                                                            \
    X(cuDeviceGet, 2000)                                                                                               \
    X(cuDeviceGetAttribute, 2000)                                                                                      \
    X(cuDeviceGetUuid, 9020)                                                                                           \
    X(cuMemGetAllocationGranularity, 10020)                                                                            \
    X(cuMemCreate, 10020)                                                                                              \
    X(cuMemRelease, 10020)                                                                                             \
    X(cuMemGetAllocationPropertiesFromHandle, 10020)                                                                   \
    X(cuMemExportToShareableHandle, 10020)                                                                             \
    X(cuMemImportFromShareableHandle, 10020)                                                                           \
    X(cuMemAddressReserve, 10020)                                                                                      \
    X(cuMemAddressFree, 10020)                                                                                         \
    X(cuMemMap, 10020)                                                                                                 \
    X(cuMemUnmap, 10020)                                                                                               \
    X(cuMemSetAccess, 10020)

#endif
