/* Names of addresses, by the unwinder and the dynamic linker. */
#include "system/names.h"

#include <dlfcn.h>
#include <unwind.h>

struct walk {
    uintptr_t behind;
    bool reached;
    unsigned count;
    unsigned most;
    uintptr_t *addresses;
};

static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *frame, void *data)
{
    struct walk *const walk = data;
    const uintptr_t address = _Unwind_GetIP(frame);
    if (walk->reached && address != 0)
        walk->addresses[walk->count++] = address;
    walk->reached = walk->reached || address == walk->behind;
    return walk->count < walk->most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

unsigned sm_backtrace(uintptr_t behind, uintptr_t *addresses, unsigned most)
{
    struct walk walk = {.behind = behind, .most = most, .addresses = addresses};
    (void)_Unwind_Backtrace(visit_frame, &walk);
    return walk.count;
}

struct sm_name sm_name_of(uintptr_t address)
{
    Dl_info info = {.dli_fname = ""};
    (void)dladdr((void *)address, &info);
    if (info.dli_sname)
        return (struct sm_name){.text = info.dli_sname, .start = (uintptr_t)info.dli_saddr, .is_symbol = true};
    return (struct sm_name){.text = info.dli_fname, .start = (uintptr_t)info.dli_fbase};
}
