/* The example of the README. */
/* [whole] */
#include <stdio.h>
#include <synced_mem.h>

/* Stands for a function in a .cu file. This program compiles without CUDA. */
static void run_kernels(void *device)
{
    (void)device; /* scale<<<4, 256>>>(device, 1000); */
}

int main(void)
{
    synced_mem *mem;
    if (synced_mem_create(&mem, 1000, NULL) != SYNCED_MEM_OK)
        return 1;
    unsigned char *in = synced_mem_mutable_cpu_data(mem); /* filled with zeros; the head is AT_CPU */
    if (!in)
        return 1;
    in[0] = 1;
    in[999] = 2;

    void *device = synced_mem_mutable_gpu_data(mem); /* transfers to the device: AT_GPU */
    if (device)
        run_kernels(device);
    else /* an error such as "no GPU"; nothing has changed: the host copy is still valid */
        fprintf(stderr, "on the host: %s\n", synced_mem_last_error_message());

    const unsigned char *out = synced_mem_cpu_data(mem); /* waits for the kernels, transfers to the host: SYNCED */
    if (!out)
        return 1;
    printf("%d %d\n", out[0], out[999]);
    synced_mem_release(mem);
    return synced_mem_shutdown() != SYNCED_MEM_OK;
}
/* [end] */
