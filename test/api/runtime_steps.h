/*
 * Calls of the runtime as steps (memory/steps_kit.h): the linker replaces them with a jump that first counts the step.
 * Each function then keeps its own type. The folder's meson.build lists the calls (runtime_step_wraps). A call of the
 * driver is found by its name, and becomes a step when it is found. For x86-64; elsewhere they are no steps.
 */
#ifndef RUNTIME_STEPS_H
#define RUNTIME_STEPS_H

#ifdef __x86_64__

#include "driver_functions.h"

#include <cuda_runtime_api.h>
#include <string.h>

void take_runtime_step(void);
void take_runtime_step(void)
{
    take_step();
}

#define JUMP(name, target)                                                                                             \
    __asm__(".pushsection .text\n.globl " name "\n.type " name ", @function\n" name ":\n"                              \
            "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\npush %rax\n"                              \
            "call take_runtime_step@PLT\n"                                                                             \
            "pop %rax\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n"                                     \
            "jmp " target "\n.size " name ", . - " name "\n.popsection\n");
#define RUNTIME_STEP(name) JUMP("__wrap_" #name, "__real_" #name "@PLT")

RUNTIME_STEP(cudaDeviceGetAttribute)
RUNTIME_STEP(cudaEventCreateWithFlags)
RUNTIME_STEP(cudaEventDestroy)
RUNTIME_STEP(cudaEventQuery)
RUNTIME_STEP(cudaEventRecord)
RUNTIME_STEP(cudaEventSynchronize)
RUNTIME_STEP(cudaGetDeviceCount)
RUNTIME_STEP(cudaHostRegister)
RUNTIME_STEP(cudaHostUnregister)
RUNTIME_STEP(cudaMemcpyAsync)
RUNTIME_STEP(cudaMemsetAsync)
RUNTIME_STEP(cudaPointerGetAttributes)
RUNTIME_STEP(cudaStreamCreateWithFlags)
RUNTIME_STEP(cudaStreamDestroy)
RUNTIME_STEP(cudaStreamSynchronize)
RUNTIME_STEP(cudaStreamWaitEvent)

/* For each function of the driver the real one, and the one that is found in its place. */
#define DRIVER_STEP(name, version)                                                                                     \
    extern void *real_##name;                                                                                          \
    void *real_##name;                                                                                                 \
    void step_##name(void);                                                                                            \
    JUMP("step_" #name, "*real_" #name "(%rip)")
DRIVER_FUNCTIONS(DRIVER_STEP)

cudaError_t __real_cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *result);
cudaError_t __wrap_cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *result);
cudaError_t __wrap_cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *result)
{
    void (*found)(void) = NULL;
    const cudaError_t code = __real_cudaGetDriverEntryPointByVersion(name, out, version, flags, result);
#define REPLACE_CALL(call, since)                                                                                      \
    if (code == cudaSuccess && strcmp(name, #call) == 0) {                                                             \
        real_##call = *out;                                                                                            \
        found = step_##call;                                                                                           \
    }
    DRIVER_FUNCTIONS(REPLACE_CALL)
#undef REPLACE_CALL
    if (found)
        memcpy(out, &found, sizeof found);
    return code;
}

#endif

#endif
