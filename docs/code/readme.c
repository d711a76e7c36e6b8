/* The example of the README. */
/* [whole] */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <synced_mem.h>

int main(void)
{
    synced_mem *mem;
    if (synced_mem_create(&mem, 1000, NULL) != SYNCED_MEM_OK)
        return 1;
    unsigned char *in = synced_mem_mutable_cpu_data(mem); /* zeros; the head is AT_CPU now */
    in[0] = 1;
    unsigned char *device = synced_mem_mutable_gpu_data(mem); /* copied to the device: AT_GPU */
    if (device)
        cudaMemsetAsync(device + 1, 2, 999, NULL); /* or any kernel */
    else
        memset(in + 1, 2, 999); /* no GPU: nothing has changed, so the host copy is still valid to write */
    const unsigned char *out = synced_mem_cpu_data(mem); /* waits for the kernel, copies back: SYNCED */
    printf("%d %d\n", out[0], out[999]);
    synced_mem_release(mem);
    return synced_mem_shutdown() != SYNCED_MEM_OK;
}
/* [end] */
