/* Calls on several objects. */
#include "object/several.h"

#include "base/process.h"
#include "base/status.h"
#include "object/renew.h"

#include <stdint.h>
#include <string.h>

static size_t count_ascending(struct synced_mem *const *list, size_t count)
{
    size_t ascending = 1;
    while (ascending < count && (uintptr_t)list[ascending - 1] < (uintptr_t)list[ascending])
        ascending++;
    return ascending;
}

/* Roots are sorted by one digit of their addresses after the other. The C library's sort compares each with log2(n)
 * others, which took a third of a call on 10,000 objects. */
enum { DIGITS = 256, FEW = 24 };

static void sort_few(struct synced_mem **list, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct synced_mem *const root = list[i];
        size_t at = i;
        for (; at > 0 && (uintptr_t)list[at - 1] > (uintptr_t)root; at--)
            list[at] = list[at - 1];
        list[at] = root;
    }
}

/* The digit of an address: the highest bits of its distance from the least address. */
struct digits {
    uintptr_t least;
    unsigned shift;
};

static size_t get_digit(const struct digits *digits, const struct synced_mem *root)
{
    return ((uintptr_t)root - digits->least) >> digits->shift;
}

static struct digits choose_digits(struct synced_mem *const *list, size_t count)
{
    uintptr_t least = (uintptr_t)list[0];
    uintptr_t most = least;
    for (size_t i = 1; i < count; i++) {
        const uintptr_t root = (uintptr_t)list[i];
        least = root < least ? root : least;
        most = root > most ? root : most;
    }
    struct digits digits = {.least = least};
    while ((most - least) >> digits.shift >= DIGITS)
        digits.shift++;
    return digits;
}

/* Sorts by one digit, and keeps the order of roots that have the same: objects that were created one after the other
 * ascend. ends: get where the roots of each digit end. */
static void sort_by_digit(struct synced_mem **list, struct synced_mem **spare, size_t count,
                          const struct digits *digits, size_t *ends)
{
    size_t counts[DIGITS] = {0};
    for (size_t i = 0; i < count; i++)
        counts[get_digit(digits, list[i])]++;
    ends[0] = 0;
    for (size_t digit = 1; digit < DIGITS; digit++)
        ends[digit] = ends[digit - 1] + counts[digit - 1];
    for (size_t i = 0; i < count; i++)
        spare[ends[get_digit(digits, list[i])]++] = list[i];
    memcpy(list, spare, count * sizeof *list);
}

/* Sorts a list, and then the roots of each digit. The recursion is at most as deep as an address has digits. */
static void sort_by_address(struct synced_mem **list, struct synced_mem **spare, size_t count)
{
    if (count <= FEW) {
        sort_few(list, count);
        return;
    }
    if (count_ascending(list, count) == count)
        return;
    const struct digits digits = choose_digits(list, count);
    size_t ends[DIGITS];
    sort_by_digit(list, spare, count, &digits, ends);
    for (size_t digit = 0, begin = 0; digit < DIGITS && digits.shift > 0; begin = ends[digit++])
        sort_by_address(list + begin, spare, ends[digit] - begin);
}

void sm_roots_sort(struct sm_roots *roots)
{
    const size_t listed = roots->count;
    roots->is_sorted = true;
    if (count_ascending(roots->list, listed) >= listed)
        return;
    sort_by_address(roots->list, roots->list + listed, listed);
    roots->count = 0;
    for (size_t i = 0; i < listed; i++)
        if (i == 0 || roots->list[i] != roots->list[roots->count - 1])
            roots->list[roots->count++] = roots->list[i];
}

/* Most roots that a call names several times follow one another: of views of one object, or of a source of many
 * copies. */
void sm_roots_list(struct sm_roots *roots, struct synced_mem *const *mems, size_t count)
{
    struct synced_mem *last = NULL;
    for (size_t i = 0; i < count; i++) {
        struct synced_mem *const root = sm_root(mems[i]);
        if (root != last)
            roots->list[roots->count++] = root;
        last = root;
    }
}

bool sm_roots_have_parts(const struct sm_roots *roots)
{
    size_t i = 0;
    while (i < roots->count && !sm_is_divided(roots->list[i]))
        i++;
    return i < roots->count;
}

/* Begins to load the lock of a root that comes soon. A locked instruction would wait for it. */
static void prefetch_lock(const struct sm_roots *roots, size_t i)
{
    if (i + SM_AHEAD < roots->count)
        __builtin_prefetch(&roots->list[i + SM_AHEAD]->lock, 1);
}

static void unlock_roots(const struct sm_roots *roots, size_t locked)
{
    for (size_t i = 0; i < locked; i++) {
        prefetch_lock(roots, i);
        sm_mutex_unlock(&roots->list[i]->lock);
    }
}

/* Takes the locks in the order of the list. If the roots are not sorted, it waits for none: it returns SM_AGAIN, with
 * none taken, if a call has one of them. That may be this call, as the root is listed twice. */
static synced_mem_status lock_roots(struct sm_round *round)
{
    const struct sm_roots *const roots = &round->roots;
    round->has_parts = false;
    for (size_t i = 0; i < roots->count; i++) {
        struct synced_mem *const root = roots->list[i];
        prefetch_lock(roots, i);
        synced_mem_status status = sm_check_usable(root);
        if (status == SYNCED_MEM_OK && !sm_mutex_try(&root->lock)) {
            if (roots->is_sorted)
                sm_mutex_wait(&root->lock);
            else
                status = SM_AGAIN;
        }
        if (status != SYNCED_MEM_OK) {
            round->failed = root;
            unlock_roots(roots, i);
            return status;
        }
        round->has_parts = round->has_parts || sm_is_divided(root);
    }
    return SYNCED_MEM_OK;
}

synced_mem_status sm_round_begin(struct sm_round *round)
{
    round->failed = NULL;
    sm_process_enter();
    synced_mem_status status = lock_roots(round);
    if (status == SM_AGAIN) {
        sm_roots_sort(&round->roots);
        round->failed = NULL;
        status = lock_roots(round);
    }
    if (status == SYNCED_MEM_OK)
        sm_share_ends(&round->ends);
    else
        sm_process_leave();
    return status;
}

void sm_round_end(struct sm_round *round)
{
    sm_share_no_ends();
    unlock_roots(&round->roots, round->roots.count);
    sm_process_leave();
}

synced_mem_status sm_round_wait(struct sm_round *round, enum sm_side side, synced_mem_status status)
{
    bool ended;
    if (status == SM_AGAIN && round->waits.count > 0) {
        round->failed = NULL; /* the work may be any object's */
        status = sm_waits_wait(&round->waits, &ended);
    } else if (status == SM_AGAIN) {
        status = sm_obtain_alone(round->alone, side, round->alone_stream);
    }
    if (round->waits.count > 0)
        sm_waits_end(&round->waits);
    return status;
}
