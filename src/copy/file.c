/* Open files. */
#include "copy/file.h"

#include "base/process.h"
#include "base/status.h"
#include "system/file.h"

#include <stdlib.h>
#include <string.h>

static struct sm_lock files = SM_LOCK_INITIALIZER;

void sm_files_lock(void)
{
    sm_lock(&files);
}

void sm_files_unlock(void)
{
    sm_unlock(&files);
}

/* ---- Opening ---- */

static synced_mem_status check_facts(const struct sm_file_facts *facts, int descriptor)
{
    const char *const why = !facts->is_file  ? "is no file whose bytes have offsets: a pipe, a socket, a folder"
                            : !facts->reads  ? "does not allow reads"
                            : facts->appends ? "was opened with O_APPEND, which ignores offsets"
                                             : NULL;
    return why ? sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the descriptor %d %s", descriptor, why) : SYNCED_MEM_OK;
}

static synced_mem_status fail_to_open(int descriptor, int error)
{
    return sm_fail(SYNCED_MEM_ERR_FILE, "the file of descriptor %d can't be opened once more: %s", descriptor,
                   strerror(error));
}

static synced_mem_status open_descriptors(struct synced_mem_file *file, int descriptor)
{
    int error = sm_file_reopen(descriptor, &file->facts, false, &file->descriptor);
    if (error != 0)
        return fail_to_open(descriptor, error);
    if (file->facts.direct && file->facts.writes)
        error = sm_file_reopen(descriptor, &file->facts, true, &file->cached);
    if (error == 0)
        return SYNCED_MEM_OK;
    (void)sm_file_close(file->descriptor);
    return fail_to_open(descriptor, error);
}

static synced_mem_status make_file(const struct sm_file_facts *facts, struct synced_mem_file **out)
{
    struct synced_mem_file *const file = calloc(1, sizeof *file);
    if (!file)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a file");
    atomic_init(&file->references, 1);
    file->generation = sm_process_generation();
    file->facts = *facts;
    file->cached = -1;
    *out = file;
    return SYNCED_MEM_OK;
}

synced_mem_status sm_file_open(int descriptor, struct synced_mem_file **out)
{
    struct sm_file_facts facts;
    const int error = sm_file_examine(descriptor, &facts);
    if (error != 0)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "the descriptor %d: %s", descriptor, strerror(error));
    SM_TRY(check_facts(&facts, descriptor));
    struct synced_mem_file *file = NULL;
    SM_TRY(make_file(&facts, &file));
    const synced_mem_status status = open_descriptors(file, descriptor);
    if (status != SYNCED_MEM_OK) {
        free(file);
        return status;
    }
    *out = file;
    return SYNCED_MEM_OK;
}

/* Opens both descriptors. Returns false if the system does not open the file past its cache: nothing is open then. */
static bool open_direct_descriptors(struct synced_mem_file *direct, int descriptor)
{
    const struct sm_file_facts wanted = direct->facts;
    const bool is_open = sm_file_reopen(descriptor, &wanted, false, &direct->descriptor) == 0;
    const bool is_direct = is_open && sm_file_examine(direct->descriptor, &direct->facts) == 0 &&
                           direct->facts.direct && sm_file_reopen(descriptor, &wanted, true, &direct->cached) == 0;
    if (is_open && !is_direct)
        (void)sm_file_close(direct->descriptor);
    return is_direct;
}

synced_mem_status sm_file_open_direct(struct synced_mem_file *file, struct synced_mem_file **out)
{
    struct sm_file_facts facts = file->facts;
    struct synced_mem_file *direct = NULL;
    facts.direct = true;
    SM_TRY(make_file(&facts, &direct));
    if (!file->facts.direct && open_direct_descriptors(direct, file->descriptor)) {
        *out = direct;
        return SYNCED_MEM_OK;
    }
    free(direct);
    sm_file_hold(file);
    *out = file;
    return SYNCED_MEM_OK;
}

void sm_file_hold(struct synced_mem_file *file)
{
    atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
}

/* Removes a reference. Returns whether it was the last. */
static bool remove_reference(struct synced_mem_file *file)
{
    return atomic_fetch_sub_explicit(&file->references, 1, memory_order_acq_rel) == 1;
}

static void close_file(struct synced_mem_file *file)
{
    (void)sm_file_close(file->descriptor);
    if (file->cached >= 0)
        (void)sm_file_close(file->cached);
    free(file);
}

void sm_file_drop(struct synced_mem_file *file)
{
    if (file && remove_reference(file))
        close_file(file);
}

/* ---- Checks ---- */

synced_mem_status sm_file_check_range(const struct synced_mem_file *file, uint64_t offset, uint64_t size)
{
    if (file->generation != sm_process_generation())
        return sm_fail(SYNCED_MEM_ERR_FORKED, "the file was opened by the parent process: open it again");
    if (offset > SM_LARGEST_FILE || size > SM_LARGEST_FILE - offset)
        return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT, "no file has %llu bytes at offset %llu",
                       (unsigned long long)size, (unsigned long long)offset);
    return SYNCED_MEM_OK;
}

static bool is_being_written(const struct synced_mem_file *file)
{
    sm_files_lock();
    const bool is_written = file->oldest != NULL;
    sm_files_unlock();
    return is_written;
}

synced_mem_status sm_file_check_end(struct synced_mem_file *file, uint64_t offset, uint64_t size)
{
    uint64_t end = 0;
    if (!file->facts.has_end || is_being_written(file))
        return SYNCED_MEM_OK;
    const int error = sm_file_size(file->descriptor, &end);
    if (error != 0)
        return sm_fail(SYNCED_MEM_ERR_FILE, "the size of the file can't be read: %s", strerror(error));
    if (offset + size <= end)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_FILE, "the file of %llu bytes does not have %llu bytes at offset %llu",
                   (unsigned long long)end, (unsigned long long)size, (unsigned long long)offset);
}

/* ---- Reads ---- */

void sm_file_enter_read(struct synced_mem_file *file, struct sm_file_extent *read, struct sm_fence *fence)
{
    read->fence = fence;
    sm_files_lock();
    sm_extents_add(&file->reads, &read->extent);
    sm_files_unlock();
}

static void remove_extent(struct sm_extents *extents, struct sm_file_extent *extent)
{
    if (!extent->is_covered)
        sm_extents_remove(extents, &extent->extent);
}

void sm_file_end_read(struct synced_mem_file *file, struct sm_file_extent *read)
{
    sm_files_lock();
    remove_extent(&file->reads, read);
    sm_files_unlock();
    sm_file_drop(file);
}

/* ---- Writes ---- */

/* The device may go on with what was read. A job that fails is no reason for another one to fail. */
static bool add_fence(struct sm_extent *extent, void *user)
{
    const struct sm_file_extent *const of_job = (struct sm_file_extent *)(void *)extent;
    struct sm_waits *const waits = user;
    (void)sm_waits_add_for(waits, of_job->fence, SM_UNTIL_QUEUED | SM_MAY_FAIL);
    return !waits->full;
}

/* Returns whether the file has yet to grow before it has bytes up to this end. */
static bool ends_before(const struct synced_mem_file *file, uint64_t end)
{
    uint64_t size = 0;
    return file->facts.has_end && sm_file_size(file->descriptor, &size) == 0 && size < end;
}

synced_mem_status sm_file_find_writes(struct synced_mem_file *file, uint64_t offset, uint64_t size,
                                      struct sm_waits *waits)
{
    const size_t before = waits->count;
    if (size == 0 || !is_being_written(file))
        return SYNCED_MEM_OK;
    const uint64_t end = ends_before(file, offset + size) ? SM_LARGEST_FILE : offset + size;
    sm_files_lock();
    (void)sm_extents_visit(&file->writes, offset, end, add_fence, waits);
    sm_files_unlock();
    return waits->count > before ? SM_AGAIN : SYNCED_MEM_OK;
}

/* Earlier work in the file that a writing finds when it is entered. */
struct earlier {
    struct sm_waits *waits;
    const struct sm_extent *extent;        /* of the write that looks */
    struct sm_file_extent *reads, *writes; /* whose bytes a write of it has all */
    struct sm_file_extent **covered;       /* one of the two lists */
};

static bool note_earlier(struct sm_extent *extent, void *user)
{
    struct sm_file_extent *const one = (struct sm_file_extent *)(void *)extent;
    struct earlier *const earlier = user;
    if (extent->begin >= earlier->extent->begin && extent->end <= earlier->extent->end) {
        one->next = *earlier->covered;
        *earlier->covered = one;
    }
    return add_fence(extent, earlier->waits);
}

static bool visit_earlier(const struct sm_extents *extents, struct sm_file_extent **covered, struct earlier *earlier)
{
    earlier->covered = covered;
    return sm_extents_visit(extents, earlier->extent->begin, earlier->extent->end, note_earlier, earlier);
}

/* Returns false if waits has no room for all. */
static bool find_earlier_jobs(const struct synced_mem_file *file, const struct sm_file_extent *writes, size_t count,
                              struct earlier *earlier)
{
    bool all = true;
    for (size_t i = 0; i < count && all; i++) {
        earlier->extent = &writes[i].extent;
        all = visit_earlier(&file->reads, &earlier->reads, earlier) &&
              visit_earlier(&file->writes, &earlier->writes, earlier);
    }
    return all;
}

/* Takes extents out of the tree that are covered. So of many writes of the same bytes each finds the one before it. */
static void take_out_covered(struct sm_extents *extents, struct sm_file_extent *covered)
{
    for (; covered; covered = covered->next) {
        sm_extents_remove(extents, &covered->extent);
        covered->is_covered = true;
    }
}

static void enter_writing(struct synced_mem_file *file, struct sm_file_writing *writing)
{
    writing->number = ++file->begun;
    writing->older = file->newest;
    *(file->newest ? &file->newest->newer : &file->oldest) = writing;
    file->newest = writing;
}

bool sm_file_enter_writes(struct synced_mem_file *file, struct sm_file_writing *writing, struct sm_file_extent *writes,
                          size_t count, struct sm_waits *waits)
{
    struct earlier earlier = {.waits = waits};
    sm_files_lock();
    const bool enters = find_earlier_jobs(file, writes, count, &earlier);
    if (enters) {
        take_out_covered(&file->reads, earlier.reads);
        take_out_covered(&file->writes, earlier.writes);
        enter_writing(file, writing);
    }
    for (size_t i = 0; i < count && enters; i++) {
        writes[i].fence = writing->fence;
        sm_extents_add(&file->writes, &writes[i].extent);
    }
    sm_files_unlock();
    return enters;
}

void sm_file_end_writes(struct synced_mem_file *file, struct sm_file_writing *writing, struct sm_file_extent *writes,
                        size_t count, const struct sm_outcome *outcome)
{
    sm_files_lock();
    for (size_t i = 0; i < count; i++)
        remove_extent(&file->writes, &writes[i]);
    *(writing->older ? &writing->older->newer : &file->oldest) = writing->newer;
    *(writing->newer ? &writing->newer->older : &file->newest) = writing->older;
    if (file->failure.status == SYNCED_MEM_OK)
        file->failure = *outcome;
    sm_events_add(&file->ended); /* who waits goes on behind the lock, when the reference is gone */
    const bool was_last = remove_reference(file);
    sm_files_unlock();
    if (was_last)
        close_file(file);
}

static bool has_unended(const struct synced_mem_file *file, uint64_t last)
{
    return file->oldest && file->oldest->number <= last;
}

synced_mem_status sm_file_wait(struct synced_mem_file *file)
{
    SM_TRY(sm_file_check_range(file, 0, 0));
    sm_files_lock();
    const uint64_t last = file->begun;
    while (has_unended(file, last)) {
        const unsigned seen = sm_events_seen(&file->ended);
        sm_files_unlock();
        sm_events_wait(&file->ended, seen);
        sm_files_lock();
    }
    const struct sm_outcome failure = file->failure;
    file->failure.status = SYNCED_MEM_OK;
    sm_files_unlock();
    return sm_outcome_end(&failure);
}
