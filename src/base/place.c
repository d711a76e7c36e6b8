/* The table of call places, and their text. */
#include "base/place.h"

#include "base/hash.h"
#include "base/process.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

/* PLACES: slots of the table. NEIGHBOURS: slots that are searched for one place. */
enum { PLACES = 2048, NEIGHBOURS = 16, ADDRESSES = SM_PLACE_DEPTH + SM_PLACE_OWN };

static struct {
    struct sm_lock lock;
    struct sm_place places[PLACES]; /* by the hash of their addresses; the first address of a free slot is 0 */
} seen = {.lock = SM_LOCK_INITIALIZER};

/* ---- The stack ---- */

struct walk {
    uintptr_t from; /* frames up to and including the one at this address are the library's */
    bool reached;
    unsigned count;
    uintptr_t addresses[ADDRESSES];
};

static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *frame, void *data)
{
    struct walk *const walk = data;
    const uintptr_t address = _Unwind_GetIP(frame);
    if (walk->reached && address != 0)
        walk->addresses[walk->count++] = address;
    walk->reached = walk->reached || address == walk->from;
    return walk->count < ADDRESSES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* ---- Text ---- */

static const char *get_file_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Writes "symbol+0x1f", or "file+0x1f" relative to the load address. The symbol is that of the byte before the address,
 * since a call may be a function's last instruction. Returns false if the frame is the public function's own. */
static bool describe_frame(char out[SM_PLACE_FRAME], uintptr_t address, const char *function)
{
    Dl_info info = {.dli_fname = ""};
    (void)dladdr((void *)(address - 1), &info);
    const char *const what = info.dli_sname ? info.dli_sname : get_file_name(info.dli_fname);
    const uintptr_t start = (uintptr_t)(info.dli_sname ? info.dli_saddr : info.dli_fbase);
    (void)snprintf(out, SM_PLACE_FRAME, "%.*s+0x%zx", SM_PLACE_FRAME - 24, what, (size_t)(address - start));
    for (char *c = out; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '?';
    return !info.dli_sname || strcmp(info.dli_sname, function) != 0;
}

/* Depending on the compiler, the chain may begin with the public function's frame or with one inside that. Frames up to
 * the public function are the library's and are left out. */
static void describe_place(char out[SM_PLACE_TEXT], const uintptr_t addresses[ADDRESSES], const char *function)
{
    char frame[SM_PLACE_FRAME];
    unsigned shown = 0;
    size_t used = 0;
    out[0] = 0;
    for (unsigned i = 0; i < ADDRESSES && addresses[i] != 0 && shown < SM_PLACE_DEPTH; i++) {
        const bool own = !describe_frame(frame, addresses[i], function) && i < SM_PLACE_OWN;
        used = own ? 0 : used + (size_t)sprintf(out + used, "%s%s", shown > 0 ? " < " : "", frame);
        shown = own ? 0 : shown + 1;
        out[used] = 0;
    }
}

/* ---- Places, with the lock held ---- */

/* Returns the slot with these addresses, else a free slot for them. NULL: there is no room. */
static struct sm_place *find_slot(const uintptr_t addresses[ADDRESSES])
{
    uint64_t hash = 0;
    for (unsigned i = 0; i < ADDRESSES; i++)
        hash = sm_hash(hash ^ addresses[i]);
    hash >>= 32;
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        struct sm_place *const place = &seen.places[(hash + i) % PLACES];
        if (place->addresses[0] == 0 || memcmp(place->addresses, addresses, sizeof place->addresses) == 0)
            return place;
    }
    return NULL;
}

/* ---- Search and add ---- */

const struct sm_place *sm_place_of(const char *function, const void *return_address)
{
    struct walk walk = {.from = (uintptr_t)return_address};
    char text[SM_PLACE_TEXT];
    (void)_Unwind_Backtrace(visit_frame, &walk);
    sm_lock(&seen.lock);
    struct sm_place *place = walk.count > 0 ? find_slot(walk.addresses) : NULL;
    const bool found = !place || place->addresses[0] != 0;
    sm_unlock(&seen.lock);
    if (found)
        return place;
    describe_place(text, walk.addresses, function);
    sm_lock(&seen.lock);
    place = find_slot(walk.addresses);
    if (place && place->addresses[0] == 0) { /* of two threads that see a place first, only one adds it */
        memcpy(place->text, text, sizeof text);
        memcpy(place->addresses, walk.addresses, sizeof place->addresses);
    }
    sm_unlock(&seen.lock);
    return place;
}
