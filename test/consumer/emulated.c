/* On the emulated runtime, which its user then calls as well. */
#include <cudart_emu.h>
#include <synced_mem.h>

int main(void)
{
    synced_mem *mem;
    emu_reset(1);
    if (synced_mem_create(&mem, 100, NULL) != SYNCED_MEM_OK || !synced_mem_gpu_data(mem))
        return 1;
    return emu_live(EMU_DEVICE_MEMORY) != 1 || synced_mem_release(mem) != SYNCED_MEM_OK;
}
