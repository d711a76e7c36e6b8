/* The steps of scenarios that copy between objects. */
#include "scenario_state.h"

/* Keeps objects that a failed step has made. */
synced_mem_status scenario_make_others(synced_mem_placement_kind placement, bool pageable)
{
    synced_mem_options options = default_options();
    options.name = "other";
    options.device = home();
    options.placement = placement;
    now.others_pattern = 0;
    for (int i = 0; i < 2; i++) {
        synced_mem_status status = SYNCED_MEM_OK;
        if (!now.others[i])
            status = synced_mem_create(&now.others[i], now.size, &options);
        if (status == SYNCED_MEM_OK && pageable)
            status = synced_mem_set_cpu_data(now.others[i], mine.hosts_of_others[i]);
        if (status != SYNCED_MEM_OK)
            return status;
    }
    if (pageable)
        pattern_write(mine.hosts_of_others[0], now.size, now.others_pattern = ++now.fresh);
    return SYNCED_MEM_OK;
}

synced_mem_status scenario_write_other(bool on_device)
{
    void *const data = on_device ? synced_mem_overwrite_gpu_data_on(now.others[0], mine.second)
                                 : synced_mem_overwrite_cpu_data(now.others[0]);
    if (!data)
        return synced_mem_last_error();
    now.others_pattern = ++now.fresh;
    if (!on_device)
        host_fill(data, now.size, now.others_pattern);
    else if (!gpu_try_fill(data, now.size, now.others_pattern, mine.second))
        now.given_up = true;
    return SYNCED_MEM_OK;
}

/* A failed transfer may lose the contents that it was to overwrite. The source keeps its contents. */
static synced_mem_status note_copied(synced_mem_status status, synced_mem_head_kind from)
{
    if (status == SYNCED_MEM_OK)
        note_written(now.others_pattern);
    if (status != SYNCED_MEM_OK && synced_mem_head(now.mem) == SYNCED_MEM_UNINITIALIZED)
        now.filled = 0;
    now.host = NULL;
    REQUIRE(synced_mem_head(now.others[0]) == from);
    return status;
}

synced_mem_status scenario_copy(bool to_host, bool both, synced_mem_stream stream)
{
    synced_mem *const to[] = {now.mem, now.others[1]};
    synced_mem *const from[] = {now.others[0], now.others[0]};
    const synced_mem_head_kind head = synced_mem_head(from[0]);
    if (both) {
        const synced_mem_status status =
            to_host ? synced_mem_cpu_copy_n(to, from, 2) : synced_mem_async_gpu_copy_n(to, from, 2, stream);
        now.unsure = status != SYNCED_MEM_OK;
        return note_copied(status, head);
    }
    const synced_mem_status status =
        to_host ? synced_mem_cpu_copy(to[0], from[0]) : synced_mem_async_gpu_copy(to[0], from[0], stream);
    now.unsure = status != SYNCED_MEM_OK && now.view; /* it is several copies then */
    return note_copied(status, head);
}

synced_mem_status scenario_clear(void)
{
    const synced_mem_status status = synced_mem_clear(now.mem);
    if (status == SYNCED_MEM_OK) {
        now.filled = 0;
        now.host = NULL;
    }
    return status;
}

synced_mem_status scenario_release_others(void)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (int i = 0; i < 2 && status == SYNCED_MEM_OK; i++) {
        status = synced_mem_release(now.others[i]);
        if (status == SYNCED_MEM_OK)
            now.others[i] = NULL;
    }
    return status;
}
