/* Changes of an object's size, and the memory that the object keeps. */
#include "check.h"

#include <string.h>

int main(void)
{
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, 100, NULL) == SYNCED_MEM_OK);

    /* [keep] */
    memset(synced_mem_overwrite_cpu_data(mem), 1, 100);
    CHECK(synced_mem_resize(mem, 50) == SYNCED_MEM_OK);  /* keeps the first 50 bytes and the memory */
    CHECK(synced_mem_resize(mem, 100) == SYNCED_MEM_OK); /* new bytes read as zero */
    const char *const data = synced_mem_cpu_data(mem);
    CHECK(data[49] == 1 && data[50] == 0);
    /* [end] */

    /* [discard] */
    CHECK(synced_mem_resize_discard(mem, 80) == SYNCED_MEM_OK); /* discards the contents, keeps the memory */
    CHECK(synced_mem_head(mem) == SYNCED_MEM_UNINITIALIZED);
    CHECK(synced_mem_cpu_capacity(mem) >= 100);
    /* [end] */

    /* [give_back] */
    CHECK(synced_mem_release_data(mem) == SYNCED_MEM_OK);
    CHECK(synced_mem_cpu_capacity(mem) == 0 && synced_mem_size(mem) == 80);
    /* [end] */

    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    return 0;
}
