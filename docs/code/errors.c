/* Failed calls: the status, the message, and the unchanged object. */
#include "check.h"

#include <string.h>

/* [handler] */
static void print_error(synced_mem_status status, const char *message, void *user)
{
    fprintf(user, "%s: %s\n", synced_mem_status_name(status), message);
}
/* [end] */

int main(void)
{
    synced_mem *mem;
    CHECK(synced_mem_create(&mem, 1000, NULL) == SYNCED_MEM_OK);

    /* [status] */
    char *const data = synced_mem_overwrite_cpu_data(mem);
    CHECK(data);
    memset(data, 7, 1000);
    if (synced_mem_set_cpu_data(mem, NULL) != SYNCED_MEM_OK)
        printf("%s\n", synced_mem_last_error_message());
    CHECK(synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_ARGUMENT);
    CHECK(synced_mem_head(mem) == SYNCED_MEM_AT_CPU && data[999] == 7); /* unchanged */
    /* [end] */

    /* [install] */
    synced_mem_set_error_handler(print_error, stdout);
    static char other[1000];
    const synced_mem_memory memory = {.struct_size = sizeof memory, .cpu_data = other, .flags = 8};
    CHECK(synced_mem_use_memory(mem, &memory) != SYNCED_MEM_OK); /* print_error() prints the message */
    CHECK(synced_mem_cpu_data(mem) == data && data[0] == 7);     /* the object keeps its memory */
    synced_mem_set_error_handler(NULL, NULL);
    /* [end] */

    CHECK(synced_mem_release(mem) == SYNCED_MEM_OK);
    return 0;
}
