/* The calling thread's last refusal. */
#include "base/refusal.h"

static _Thread_local struct sm_refusal_noted self;

synced_mem_status sm_refusal_note(synced_mem_status status, int device, size_t bytes)
{
    self.noted = status == SYNCED_MEM_ERR_OUT_OF_DEVICE_MEMORY || status == SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY;
    self.last = (struct sm_refusal){.device = device, .bytes = bytes};
    return status;
}

bool sm_refusal_take(struct sm_refusal *out)
{
    const bool noted = self.noted;
    *out = self.last;
    self.noted = false;
    return noted;
}

struct sm_refusal_noted sm_refusal_get(void)
{
    return self;
}

void sm_refusal_set(const struct sm_refusal_noted *refusal)
{
    self = *refusal;
}
