/*
 * Shared by the files of the self-test that test the driver's memory.
 */
#ifndef SELFTEST_MAPPINGS_H
#define SELFTEST_MAPPINGS_H

#include "selftest.h"

#include "driver_calls.h"

#define UNIT ((size_t)2 << 20) /* the granularity */
#define IS(call, expected) GIVES((cudaError_t)(call), (cudaError_t)(expected))
#define FINE(call) IS(call, CUDA_SUCCESS)
#define FD_TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

extern struct driver_calls cu;
extern unsigned mapping_reports;
extern char mapping_report[2048];
void take_mapping_report(const char *report, void *user);

/* Checks that the statement is reported once, with these words. */
#define REPORTED(statement, words)                                                                                     \
    do {                                                                                                               \
        mapping_reports = 0;                                                                                           \
        emu_set_misuse_handler(take_mapping_report, NULL);                                                             \
        statement;                                                                                                     \
        CHECK(mapping_reports == 1 && strstr(mapping_report, words) != NULL);                                          \
        emu_set_misuse_handler(NULL, NULL);                                                                            \
    } while (0)

size_t available(int device);
CUmemGenericAllocationHandle created(int device, size_t size, bool exportable);
CUdeviceptr reserved(size_t size);
unsigned char *pointer_to(CUdeviceptr address);
CUresult permit(CUdeviceptr start, size_t size, int device);
/* Maps all of the memory, with access from the device. */
unsigned char *mapped(CUmemGenericAllocationHandle handle, size_t size, int device);
void unmap(unsigned char *start, size_t size);

#endif
