/*
 * The twins of the kernels in src/device/cuda/copy_kernel.cu. One sets a word, the probe. The other copies or fills the
 * entries of a list. It touches the bytes of the entries and the list, and no others. The entries are in no order, so
 * two of them must not touch the same bytes. A list in memory is read at the launch, for the ranges, and again when the
 * kernel runs: it must not change in between.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

/* The parameter of a launch, and its entries. The operation has it as its private block. A probe has no entries. */
struct list {
    struct sm_list_job job;
    unsigned *word; /* of a probe, or NULL */
    unsigned number;
    struct sm_list_entry entries[];
};

static bool fills(const struct sm_list_job *job)
{
    return job->value >= 0;
}

static size_t list_bytes(const struct sm_list_job *job)
{
    return job->count * sizeof(struct sm_list_entry);
}

static const struct sm_list_entry *entries_of(const struct sm_list_job *job)
{
    if (job->list == NULL)
        return job->few;
    return (const struct sm_list_entry *)(const void *)emu_bytes(job->list);
}

/* Lists the memory that the kernel touches. Returns the number of ranges. */
static size_t list_ranges(const struct list *list, struct emu_range *ranges)
{
    size_t count = 0;
    if (list->job.list != NULL)
        ranges[count++] = (struct emu_range){list->job.list, list_bytes(&list->job), false};
    if (list->word != NULL)
        ranges[count++] = (struct emu_range){list->word, sizeof *list->word, true};
    for (unsigned i = 0; i < list->job.count; i++) {
        const struct sm_list_entry *const entry = &list->entries[i];
        ranges[count++] = (struct emu_range){entry->to, entry->bytes, true};
        if (!fills(&list->job))
            ranges[count++] = (struct emu_range){entry->from, entry->bytes, false};
    }
    return count;
}

static cudaError_t check_order(const struct list *list)
{
    struct emu_end *const ends = emu_allocate((2 * list->job.count + 1) * sizeof *ends);
    size_t count = 0;
    for (unsigned i = 0; i < list->job.count; i++) {
        const struct sm_list_entry *const entry = &list->entries[i];
        const char *const to = entry->to;
        const char *const from = entry->from;
        ends[count++] = (struct emu_end){.begin = to, .end = to + entry->bytes, .copy = i, .written = true};
        if (!fills(&list->job))
            ends[count++] = (struct emu_end){.begin = from, .end = from + entry->bytes, .copy = i};
    }
    const cudaError_t error = emu_check_unordered(ends, count, "a kernel's list");
    free(ends);
    return error;
}

static struct list *copy_list(const struct sm_list_job *job)
{
    struct list *const list = emu_allocate(sizeof *list + list_bytes(job));
    list->job = *job;
    list->word = NULL;
    memcpy(list->entries, entries_of(job), list_bytes(job));
    return list;
}

static cudaError_t queue(struct emu_stream *stream, struct list *list, const struct CUlib_st *library)
{
    struct emu_range *const ranges = emu_allocate((2 * list->job.count + 2) * sizeof *ranges);
    const size_t count = list_ranges(list, ranges);
    cudaError_t error = emu_check_ranges(ranges, count);
    if (error == cudaSuccess)
        error = check_order(list);
    if (error == cudaSuccess) {
        struct emu_op *const op = emu_op_new(EMU_OP_LIST, stream);
        op->staging = (char *)list;
        op->size = sizeof *list + list_bytes(&list->job);
        op->library = library;
        emu_op_touches_ranges(op, ranges, count);
        emu_op_queue(op);
    }
    free(ranges);
    return error;
}

cudaError_t emu_list_queue(struct emu_stream *stream, const struct sm_list_job *job, const struct CUlib_st *library)
{
    const struct emu_range memory = {job->list, list_bytes(job), false};
    if (job->list == NULL && job->count > SM_FEW_ENTRIES)
        return emu_misuse("a kernel with %u entries has no list", job->count);
    if (job->list != NULL) {
        const cudaError_t error = emu_check_ranges(&memory, 1);
        if (error != cudaSuccess)
            return error;
    }
    struct list *const list = copy_list(job);
    const cudaError_t error = queue(stream, list, library);
    if (error != cudaSuccess)
        free(list);
    return error;
}

cudaError_t emu_probe_queue(struct emu_stream *stream, unsigned *word, unsigned number, const struct CUlib_st *library)
{
    struct list *const list = emu_allocate(sizeof *list);
    list->job.list = NULL;
    list->job.count = 0;
    list->job.value = -1;
    list->word = word;
    list->number = number;
    const cudaError_t error = queue(stream, list, library);
    if (error != cudaSuccess)
        free(list);
    return error;
}

void emu_list_run(struct emu_op *op)
{
    const struct list *const list = (const struct list *)(const void *)op->staging;
    const struct sm_list_job *const job = &list->job;
    if (job->list != NULL && memcmp(entries_of(job), list->entries, list_bytes(job)) != 0)
        (void)emu_misuse("the list of a kernel, %p, has changed since its launch", (const void *)job->list);
    if (list->word != NULL)
        __atomic_store_n((unsigned *)(void *)emu_bytes(list->word), list->number, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < job->count; i++) {
        const struct sm_list_entry *const entry = &list->entries[i];
        if (entry->bytes > 0 && fills(job))
            memset(emu_bytes(entry->to), job->value, entry->bytes);
        else if (entry->bytes > 0)
            emu_move(emu_bytes(entry->to), emu_bytes(entry->from), entry->bytes);
    }
}
