/* The table of call places, and their text. */
#include "base/place.h"

#include "base/hash.h"
#include "base/process.h"
#include "system/file.h"
#include "system/names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* PLACES: slots of the table. NEIGHBOURS: slots that are searched for one place. */
enum { PLACES = 2048, NEIGHBOURS = 16, ADDRESSES = SM_PLACE_DEPTH + SM_PLACE_OWN };

static struct {
    struct sm_lock lock;
    struct sm_place places[PLACES]; /* by the hash of their addresses; the first address of a free slot is 0 */
} seen = {.lock = SM_LOCK_INITIALIZER};

/* ---- Text ---- */

/* Writes "symbol+0x1f", or "file+0x1f" relative to the load address. The symbol is that of the byte before the address,
 * since a call may be a function's last instruction. Returns false if the frame is the public function's own. */
static bool describe_frame(char out[SM_PLACE_FRAME], uintptr_t address, const char *function)
{
    const struct sm_name name = sm_name_of(address - 1);
    (void)snprintf(out, SM_PLACE_FRAME, "%.*s+0x%zx", SM_PLACE_FRAME - 24,
                   name.is_symbol ? name.text : sm_file_name(name.text), (size_t)(address - name.start));
    for (char *c = out; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '?';
    return !name.is_symbol || strcmp(name.text, function) != 0;
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
    uintptr_t addresses[ADDRESSES] = {0};
    char text[SM_PLACE_TEXT];
    const unsigned count = sm_backtrace((uintptr_t)return_address, addresses, ADDRESSES);
    sm_lock(&seen.lock);
    struct sm_place *place = count > 0 ? find_slot(addresses) : NULL;
    const bool found = !place || place->addresses[0] != 0;
    sm_unlock(&seen.lock);
    if (found)
        return place;
    describe_place(text, addresses, function);
    sm_lock(&seen.lock);
    place = find_slot(addresses);
    if (place && place->addresses[0] == 0) { /* of two threads that see a place first, only one adds it */
        memcpy(place->text, text, sizeof text);
        memcpy(place->addresses, addresses, sizeof place->addresses);
    }
    sm_unlock(&seen.lock);
    return place;
}
