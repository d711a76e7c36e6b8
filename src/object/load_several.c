/* Loads of several objects. */
#include "object/load_several.h"

#include "base/status.h"
#include "object/fetch.h"
#include "object/load.h"
#include "object/several.h"
#include "object/span.h"

#include <stdlib.h>

/* Finds what the host waits for before any of the contents can be read. */
static synced_mem_status plan_loads(const struct sm_load_call *call, struct sm_round *round)
{
    for (size_t i = 0; i < call->count; i++) {
        struct sm_record *const record = sm_own_record(call->mems[i]);
        round->failed = call->mems[i];
        sm_drop_lost(record);
        if (sm_is_in_file_alone(record))
            SM_TRY(sm_waits_go_on(&round->waits, sm_plan_load(record, call->side, &round->waits)));
    }
    return sm_waits_status(&round->waits);
}

static synced_mem_status queue_loads(const struct sm_load_call *call, struct sm_round *round)
{
    struct sm_file_reads reads = {.room = call->count, .by_kernel = true};
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < call->count && status == SYNCED_MEM_OK; i++) {
        struct sm_record *const record = sm_own_record(call->mems[i]);
        if (!sm_is_in_file_alone(record))
            continue;
        round->failed = call->mems[i];
        status = sm_queue_load(record, call->side, call->stream, &reads, &round->waits);
        if (status == SYNCED_MEM_OK)
            sm_set_head(record, sm_bit(call->side));
        if (status == SYNCED_MEM_OK && call->side == SM_CPU)
            sm_count_given(record, SM_CPU); /* the hot path may give it out: see evict_host.c */
    }
    sm_file_reads_begin(&reads);
    return status;
}

static synced_mem_status run_round(const struct sm_load_call *call, struct sm_round *round)
{
    SM_TRY(sm_round_begin(round));
    synced_mem_status status = plan_loads(call, round);
    if (status == SYNCED_MEM_OK)
        status = queue_loads(call, round);
    for (size_t i = 0; i < call->count; i++)
        sm_publish_object(call->mems[i]);
    sm_round_end(round);
    return status;
}

synced_mem_status sm_load_several(const struct sm_load_call *call, struct synced_mem **failed)
{
    struct sm_round round = {.roots.list = calloc(call->count, SM_ROOTS_ROOM * sizeof(struct synced_mem *))};
    if (!round.roots.list)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of %zu objects", call->count);
    sm_roots_list(&round.roots, call->mems, call->count);
    synced_mem_status status;
    do {
        status = run_round(call, &round);
        if (status != SM_AGAIN)
            break;
        status = sm_round_wait(&round, call->side, status);
    } while (status == SYNCED_MEM_OK);
    *failed = status == SYNCED_MEM_OK ? NULL : round.failed;
    free(round.roots.list);
    return status;
}
