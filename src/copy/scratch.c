/* The scratch file. */
#include "copy/scratch.h"

#include "base/process.h"

#include <stdlib.h>
#include <string.h>

/* Direct writes go in whole blocks, which are seldom larger. */
enum { LEAST_BLOCK = 4096 };
/* Sizes for each power of two of blocks, so that a range is larger than its bytes by an eighth at most. */
enum { STEPS_LOG = 3, STEPS = 1 << STEPS_LOG, CLASSES = STEPS * 64 };

/* Guarded by the lock of all. A file has one, as long as any of its ranges has contents. */
struct sm_scratch {
    struct sm_scratch *next;       /* of all */
    struct synced_mem_file *given; /* by the program; held */
    struct synced_mem_file *file;  /* the same, past the system's cache where that is possible; held */
    size_t holders;                /* ranges, and the library while it is the present one */
    uint64_t block;
    uint64_t end; /* of the last range */
    struct sm_scratch_range *free[CLASSES];
};

static struct sm_lock guard = SM_LOCK_INITIALIZER;
static struct sm_scratch *all;
static struct sm_scratch *present; /* NULL: none */
static uint64_t last_serial;       /* of the changes of present */

/* ---- Sizes ---- */

/* Returns the class of a range of so many blocks, and stores how many it has. */
static unsigned find_class(uint64_t blocks, uint64_t *rounded)
{
    unsigned shift = 0;
    while ((blocks >> shift) >= 2 * STEPS)
        shift++;
    const uint64_t step = UINT64_C(1) << shift;
    uint64_t steps = (blocks + step - 1) / step;
    if (steps == 2 * STEPS) { /* the first of the next power of two */
        steps = STEPS;
        shift++;
    }
    *rounded = steps << shift;
    return shift * STEPS + (unsigned)steps;
}

/* ---- The file ---- */

static void remove_from_all(const struct sm_scratch *scratch)
{
    struct sm_scratch **link = &all;
    while (*link != scratch)
        link = &(*link)->next;
    *link = scratch->next;
}

/* Returns what is to be freed, with no lock held; NULL: nothing. */
static struct sm_scratch *drop_holder(struct sm_scratch *scratch)
{
    if (--scratch->holders > 0)
        return NULL;
    remove_from_all(scratch);
    return scratch;
}

static void free_scratch(struct sm_scratch *scratch)
{
    if (!scratch)
        return;
    for (unsigned i = 0; i < CLASSES; i++) {
        while (scratch->free[i]) {
            struct sm_scratch_range *const range = scratch->free[i];
            scratch->free[i] = range->next;
            free(range);
        }
    }
    sm_file_drop(scratch->file);
    sm_file_drop(scratch->given);
    free(scratch);
}

static synced_mem_status check_file(const struct synced_mem_file *file)
{
    SM_TRY(sm_file_check_range(file, 0, 0));
    if (!file->facts.writes)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the scratch file's descriptor does not allow writes");
    if (file->facts.in_memory)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the scratch file is in memory itself: give one on a disk");
    return SYNCED_MEM_OK;
}

static synced_mem_status make_scratch(struct synced_mem_file *file, struct sm_scratch **out)
{
    SM_TRY(check_file(file));
    struct sm_scratch *const scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a scratch file");
    const synced_mem_status status = sm_file_open_direct(file, &scratch->file);
    if (status != SYNCED_MEM_OK) {
        free(scratch);
        return status;
    }
    const size_t alignment = scratch->file->facts.alignment;
    sm_file_hold(file);
    scratch->given = file;
    scratch->block = alignment > LEAST_BLOCK ? alignment : LEAST_BLOCK;
    *out = scratch;
    return SYNCED_MEM_OK;
}

/* Returns that of the file, which earlier contents may still use. */
static struct sm_scratch *find_scratch(const struct synced_mem_file *file)
{
    struct sm_scratch *each = all;
    while (each && each->given != file)
        each = each->next;
    return each;
}

synced_mem_status sm_scratch_set(struct synced_mem_file *file, struct sm_scratch_change *change)
{
    struct sm_scratch *made = NULL;
    if (file)
        SM_TRY(make_scratch(file, &made));
    sm_lock(&guard);
    struct sm_scratch *const known = file ? find_scratch(file) : NULL;
    if (made && !known) {
        made->next = all;
        all = made;
    }
    *change = (struct sm_scratch_change){.serial = ++last_serial, .before = present};
    present = known ? known : made;
    if (present)
        present->holders++;
    sm_unlock(&guard);
    if (known)
        free_scratch(made);
    return SYNCED_MEM_OK;
}

void sm_scratch_keep(struct sm_scratch_change *change)
{
    sm_lock(&guard);
    struct sm_scratch *const gone = change->before ? drop_holder(change->before) : NULL;
    sm_unlock(&guard);
    free_scratch(gone);
}

bool sm_scratch_undo(struct sm_scratch_change *change)
{
    sm_lock(&guard);
    const bool is_last = change->serial == last_serial;
    struct sm_scratch *const dropped = is_last ? present : change->before;
    if (is_last) {
        present = change->before;
        change->serial = ++last_serial;
    }
    struct sm_scratch *const gone = dropped ? drop_holder(dropped) : NULL;
    sm_unlock(&guard);
    free_scratch(gone);
    return is_last;
}

void sm_scratch_remove(void)
{
    struct sm_scratch_change change;
    (void)sm_scratch_set(NULL, &change);
    sm_scratch_keep(&change);
}

bool sm_scratch_is_set(void)
{
    sm_lock(&guard);
    const bool is_set = present != NULL;
    sm_unlock(&guard);
    return is_set;
}

/* ---- Ranges ---- */

/* Returns a range of the present scratch file: a free one, or fresh behind all others. */
static struct sm_scratch_range *take_range(uint64_t size, struct sm_scratch_range *fresh)
{
    struct sm_scratch *const scratch = present;
    uint64_t blocks;
    const unsigned size_class = find_class((size + scratch->block - 1) / scratch->block, &blocks);
    struct sm_scratch_range *range = scratch->free[size_class];
    if (range) {
        scratch->free[size_class] = range->next;
    } else {
        range = fresh;
        *range = (struct sm_scratch_range){.scratch = scratch,
                                           .offset = scratch->end,
                                           .size = blocks * scratch->block,
                                           .size_class = (unsigned short)size_class};
        scratch->end += range->size;
    }
    range->holders = 1;
    scratch->holders++;
    return range;
}

void sm_scratch_hold(struct sm_scratch_range *range)
{
    sm_lock(&guard);
    range->holders++;
    sm_unlock(&guard);
}

/* Returns the scratch file if nobody holds it any more. */
static struct sm_scratch *free_range(struct sm_scratch_range *range)
{
    struct sm_scratch *const scratch = range->scratch;
    range->next = scratch->free[range->size_class];
    scratch->free[range->size_class] = range;
    return drop_holder(scratch);
}

void sm_scratch_drop(struct sm_scratch_range *range)
{
    if (!range)
        return;
    sm_lock(&guard);
    struct sm_scratch *const gone = --range->holders == 0 ? free_range(range) : NULL;
    sm_unlock(&guard);
    free_scratch(gone);
}

/* The caller alone holds the range. */
static synced_mem_status allocate_range(struct sm_scratch_range *range)
{
    const int error =
        range->is_allocated ? 0 : sm_file_allocate(range->scratch->file->descriptor, range->offset, range->size);
    range->is_allocated = error == 0;
    if (error == 0)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_FILE, "the scratch file has no room for %llu bytes at offset %llu: %s",
                   (unsigned long long)range->size, (unsigned long long)range->offset, strerror(error));
}

synced_mem_status sm_scratch_take(uint64_t size, struct sm_scratch_range **out)
{
    struct sm_scratch_range *const fresh = calloc(1, sizeof *fresh);
    *out = NULL;
    if (!fresh)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a scratch file");
    sm_lock(&guard);
    const bool is_parents = present && present->given->generation != sm_process_generation();
    struct sm_scratch_range *const range = present && !is_parents ? take_range(size, fresh) : NULL;
    sm_unlock(&guard);
    if (range != fresh)
        free(fresh);
    if (is_parents) /* who would take the same ranges */
        return sm_fail(SYNCED_MEM_ERR_FORKED, "the scratch file is the parent process's");
    if (!range)
        return SYNCED_MEM_OK;
    const synced_mem_status status = allocate_range(range);
    if (status != SYNCED_MEM_OK)
        sm_scratch_drop(range);
    else
        *out = range;
    return status;
}

struct synced_mem_file *sm_scratch_file(const struct sm_scratch_range *range)
{
    return range->scratch->file;
}
