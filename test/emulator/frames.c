/*
 * The calls that led to a place, and where code is in its object, by the unwinder and the dynamic linker.
 */
#include "emu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
#include <unwind.h>

struct walk {
    const void **frames;
    unsigned count, most;
    bool began;
};

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data)
{
    struct walk *const walk = data;
    const void *const address = (const void *)_Unwind_GetIP(context);
    if (walk->began && address != NULL)
        walk->frames[walk->count++] = address;
    walk->began = true; /* behind the frame of emu_frames() */
    return walk->count < walk->most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

unsigned emu_frames(const void **frames, unsigned most)
{
    struct walk walk = {.frames = frames, .most = most};
    (void)_Unwind_Backtrace(visit, &walk);
    return walk.count;
}

struct emu_place emu_place_of(const void *address)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fbase == NULL)
        return (struct emu_place){"", (uintptr_t)address};
    return (struct emu_place){info.dli_fname, (uintptr_t)address - emu_moved_by(info.dli_fbase)};
}

void emu_print_frames(const void *const *frames, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        Dl_info info;
        const struct emu_place place = emu_place_of(frames[i]);
        if (dladdr(frames[i], &info) != 0 && info.dli_sname != NULL)
            dprintf(STDERR_FILENO, "%s(%s+0x%tx)[%p]\n", place.object, info.dli_sname,
                    (const char *)frames[i] - (const char *)info.dli_saddr, frames[i]);
        else
            dprintf(STDERR_FILENO, "%s(+0x%tx)[%p]\n", place.object, (ptrdiff_t)place.offset, frames[i]);
    }
}
