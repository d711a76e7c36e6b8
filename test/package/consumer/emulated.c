/* A user of the library on the emulated runtime, with calls of that runtime. */
#include <cuda_runtime.h>
#include <cudart_emu.h>
#include <driver_types.h>
#include <library_types.h>
#include <synced_mem.h>

int main(void)
{
    struct cudaDeviceProp properties;
    synced_mem *mem;
    size_t size;
    emu_reset(1);
    if (synced_mem_create(&mem, 100, NULL) != SYNCED_MEM_OK || !synced_mem_gpu_data(mem))
        return 1;
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess || properties.warpSize != 32)
        return 1;
    if (!emu_extent(synced_mem_gpu_data(mem), NULL, &size) || size < 100)
        return 1;
    if (synced_mem_release(mem) != SYNCED_MEM_OK || synced_mem_shutdown() != SYNCED_MEM_OK)
        return 1;
    return emu_live(EMU_DEVICE_MEMORY) != 0; /* a thread of the library had memory too, until the shutdown */
}
