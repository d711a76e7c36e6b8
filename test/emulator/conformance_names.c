/*
 * Names and descriptions of the runtime's codes, and results without a driver. These facts can be asserted on the real
 * runtime even without a GPU.
 */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

static const struct {
    cudaError_t code;
    const char *name, *text;
} codes[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidHostPointer, "cudaErrorInvalidHostPointer", "invalid host pointer"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorStubLibrary, "cudaErrorStubLibrary", "CUDA driver is a stub library"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorCallRequiresNewerDriver, "cudaErrorCallRequiresNewerDriver",
     "API call is not supported in the installed CUDA driver"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorIncompatibleDriverContext, "cudaErrorIncompatibleDriverContext", "incompatible driver context"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorStartupFailure, "cudaErrorStartupFailure", "startup failure in cuda runtime"},
    {cudaErrorInvalidKernelImage, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorNvlinkUncorrectable, "cudaErrorNvlinkUncorrectable",
     "uncorrectable NVLink error detected during the execution"},
    {cudaErrorContained, "cudaErrorContained", "Invalid access of peer GPU memory over nvlink or a hardware error"},
    {cudaErrorOperatingSystem, "cudaErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {cudaErrorSetOnActiveProcess, "cudaErrorSetOnActiveProcess", "cannot set while device is active in this process"},
    {cudaErrorContextIsDestroyed, "cudaErrorContextIsDestroyed", "context is destroyed"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorTooManyPeers, "cudaErrorTooManyPeers", "peer mapping resources exhausted"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorHardwareStackError, "cudaErrorHardwareStackError", "hardware stack error"},
    {cudaErrorIllegalInstruction, "cudaErrorIllegalInstruction", "an illegal instruction was encountered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorInvalidAddressSpace, "cudaErrorInvalidAddressSpace",
     "operation not supported on global/shared address space"},
    {cudaErrorInvalidPc, "cudaErrorInvalidPc", "invalid program counter"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorSystemNotReady, "cudaErrorSystemNotReady", "system not yet initialized"},
    {cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch",
     "system has unsupported display driver / cuda driver combination"},
    {cudaErrorCompatNotSupportedOnDevice, "cudaErrorCompatNotSupportedOnDevice",
     "forward compatibility was attempted on non supported HW"},
    {cudaErrorMpsConnectionFailed, "cudaErrorMpsConnectionFailed",
     "MPS client failed to connect to the MPS control daemon or the MPS server"},
    {cudaErrorMpsClientTerminated, "cudaErrorMpsClientTerminated", "the MPS client has been terminated by the server"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorTimeout, "cudaErrorTimeout", "wait operation timed out"},
    {cudaErrorExternalDevice, "cudaErrorExternalDevice",
     "an async error has occured in external entity outside of CUDA"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
    {(cudaError_t)12345, "unrecognized error code", "unrecognized error code"},
};

static void names(void)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char fact[200];

        snprintf(fact, sizeof fact, "name and text of %d", (int)codes[i].code);
        expect_true(fact, strcmp(cudaGetErrorName(codes[i].code), codes[i].name) == 0 &&
                              strcmp(cudaGetErrorString(codes[i].code), codes[i].text) == 0);
    }
}

/* Without a driver every call that can fail does, even cudaGetLastError(). Each call tries to start the runtime, and
 * fails again. The queries of versions still succeed. */
static void no_driver(void)
{
    struct cudaMemPoolProps props;
    struct cudaPointerAttributes attributes;
    struct cudaDeviceProp properties;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaMemPool_t pool;
    int value = -7;
    void *data = &value;

#if WITH_EMULATOR
    emu_set_machine(EMU_NO_DRIVER);
#endif
    memset(&props, 0, sizeof props);
    if (cudaDriverGetVersion(&value) != cudaSuccess || value != 0) {
        skip("no driver", "there is one");
        return;
    }
    expect_value("no driver: driver version", 0, value);
    expect_value("no driver: RuntimeGetVersion", cudaSuccess, cudaRuntimeGetVersion(&value));
    expect_value("no driver: runtime version", CUDART_VERSION, value);

    const cudaError_t none = cudaErrorInsufficientDriver;
    value = -7;
    expect_value("no driver: GetDeviceCount", none, cudaGetDeviceCount(&value));
    expect_value("no driver: the count is left alone", -7, value);
    expect_value("no driver: GetDevice", none, cudaGetDevice(&value));
    expect_value("no driver: SetDevice -1", none, cudaSetDevice(-1));
    expect_value("no driver: GetDeviceProperties", none, cudaGetDeviceProperties(&properties, 0));
    expect_value("no driver: DeviceGetAttribute", none, cudaDeviceGetAttribute(&value, cudaDevAttrIntegrated, 0));
    expect_value("no driver: Malloc", none, cudaMalloc(&data, 1));
    expect_value("no driver: Malloc 0", none, cudaMalloc(&data, 0));
    expect_value("no driver: Free NULL", none, cudaFree(NULL));
    expect_value("no driver: FreeHost NULL", none, cudaFreeHost(NULL));
    expect_value("no driver: FreeAsync NULL", none, cudaFreeAsync(NULL, NULL));
    expect_value("no driver: MallocHost", none, cudaMallocHost(&data, 1));
    expect_value("no driver: HostRegister", none, cudaHostRegister(&value, sizeof value, 0));
    expect_value("no driver: PointerGetAttributes", none, cudaPointerGetAttributes(&attributes, &value));
    expect_value("no driver: Memcpy 0 bytes", none, cudaMemcpy(&value, &value, 0, cudaMemcpyDefault));
    expect_value("no driver: StreamCreate", none, cudaStreamCreate(&stream));
    expect_value("no driver: StreamSynchronize", none, cudaStreamSynchronize(NULL));
    expect_value("no driver: EventCreate", none, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    expect_value("no driver: MemPoolCreate", none, cudaMemPoolCreate(&pool, &props));
    expect_value("no driver: DeviceSynchronize", none, cudaDeviceSynchronize());
    expect_value("no driver: GetLastError", none, cudaGetLastError());
    expect_value("no driver: GetLastError again", none, cudaGetLastError());
    expect_value("no driver: PeekAtLastError", none, cudaPeekAtLastError());
}

#if WITH_EMULATOR

/* Other machines on which nothing works. No real ones were available. */
static void other_machines(void)
{
    static const struct {
        const char *fact;
        enum emu_machine machine;
        cudaError_t code;
    } machines[] = {
        {"no device: GetDeviceCount", EMU_NO_DEVICE, cudaErrorNoDevice},
        {"old driver: GetDeviceCount", EMU_OLD_DRIVER, cudaErrorCallRequiresNewerDriver},
        {"unloading: GetDeviceCount", EMU_UNLOADING, cudaErrorCudartUnloading},
        {"forked: GetDeviceCount", EMU_FORKED, cudaErrorInitializationError},
    };
    int count;

    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        emu_reset(0);
        emu_set_machine(machines[i].machine);
        expect_value(machines[i].fact, machines[i].code, cudaGetDeviceCount(&count));
    }
}

#endif

const struct section name_sections[] = {
    {"names", names, 0, 0},
    {"no driver", no_driver, 0, 0},
#if WITH_EMULATOR
    {"other machines", other_machines, 0, 0},
#endif
    {NULL, NULL, 0, 0},
};
