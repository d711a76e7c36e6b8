/* Makes each call of the emulated runtime fail, one after the other. */
#ifndef FAILING_CALLS_H
#define FAILING_CALLS_H

#include "each_failure.h"

#include "cudart_emu.h"

static inline void begin_failing_call(struct failing *it)
{
    it->before = emu_failures();
    emu_fail(it->call, it->nth, (cudaError_t)it->code, false);
}

static inline bool end_failing_call(struct failing *it)
{
    const bool happened = emu_failures() > it->before;
    emu_fail_clear();
    return happened;
}

/* name: "*" for any call. */
static inline struct failing each_call(const char *name, cudaError_t code)
{
    return (struct failing){begin_failing_call, end_failing_call, .call = name, .code = (int)code};
}

#endif
