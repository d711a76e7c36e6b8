/* The steps of scenarios that divide the object into parts. */
#include "scenario_state.h"

/* Makes a view of the middle third, so that the object has three parts. */
synced_mem_status scenario_divide(void)
{
    return synced_mem_view(&now.view, now.mem, now.size / 3, now.size / 3, NULL);
}

synced_mem_status scenario_unite(void)
{
    const synced_mem_status status = synced_mem_release(now.view);
    if (status == SYNCED_MEM_OK)
        now.view = NULL;
    return status;
}

/* The second stream gets the view's pointer to read. */
synced_mem_status scenario_read_view_on(void)
{
    return status_of(synced_mem_gpu_data_on(now.view, mine.second));
}
