/* Plays calls that set how the library works, which changes nothing of what any object holds. */
#include "model_world.h"

#include <stdint.h>

/* Of pageable memory every transfer is staged, in buffers as small as can be; or none is. */
static bool set_staging(const struct op *op)
{
    const bool all = op->b % 3 != 0;
    const synced_mem_staging staging = {.struct_size = sizeof staging,
                                        .threads = op->a % 4,
                                        .buffer_bytes = STAGING_BUFFER,
                                        .minimum_bytes = all ? 1 : SIZE_MAX};
    code_line("OK(synced_mem_set_staging(&(synced_mem_staging){sizeof(synced_mem_staging), %u, %zu, %zu}));",
              staging.threads, staging.buffer_bytes, staging.minimum_bytes);
    call_begins(NULL, op->code, HOST);
    (void)answered("set_staging", synced_mem_set_staging(&staging), OK_ONLY);
    call_ends(0, 0);
    world.staged = all;
    world.copy_threads = staging.threads;
    return true;
}

bool play_setting(const struct op *op)
{
    switch (op->code) {
    case OP_STAGING:
        return set_staging(op);
    default:
        return false;
    }
}
