/*
 * Batches of copies: cudaMemcpyBatchAsync as of CUDA 13.0. Earlier headers declare it otherwise, or not at all.
 *
 *   order of the source    time at which a pageable source is read
 *   stream                 late; by seed at the call
 *   during the API call    at the call; over 64 KiB, on a stream with work: as above
 *   any                    as stream
 *
 * The copies are queued in an order that the seed chooses; with seed 0 the last one comes first. If a test makes the
 * call fail, it still queues some of them (with seed 0 half of them), as CUDA does not promise that a refused batch
 * queues none. All else is as in cudaMemcpyAsync.
 */
#include "emu.h"

#include <stdlib.h>

static int compare_ends(const void *a, const void *b)
{
    const struct emu_end *const one = a;
    const struct emu_end *const other = b;
    return (one->begin > other->begin) - (one->begin < other->begin);
}

static struct emu_end *further(struct emu_end *one, struct emu_end *other)
{
    return !one || other->end > one->end ? other : one;
}

static bool have_bytes_in_common(const struct emu_end *before, const struct emu_end *end)
{
    return before && before->copy != end->copy && before->end > end->begin;
}

/* The copies of a batch are not ordered among themselves. Of the ranges that begin earlier, the one that reaches
 * furthest is enough to compare with. */
cudaError_t emu_check_unordered(struct emu_end *ends, size_t count, const char *of)
{
    struct emu_end *furthest = NULL;
    struct emu_end *written = NULL;
    qsort(ends, count, sizeof *ends, compare_ends);
    for (struct emu_end *each = ends; each < ends + count; each++) {
        const struct emu_end *const before = each->written ? furthest : written;
        if (have_bytes_in_common(before, each))
            return emu_misuse("copies %zu and %zu of %s are in no order, and touch the same bytes", before->copy,
                              each->copy, of);
        furthest = further(furthest, each);
        if (each->written)
            written = further(written, each);
    }
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000

/* The largest copy "during the API call" whose source a real runtime was seen to read before the return. */
#define READ_AT_ONCE 65536

struct batch {
    void *const *targets;
    const void *const *sources;
    const size_t *sizes;
    size_t count;
    const struct cudaMemcpyAttributes *attributes;
    const size_t *firsts; /* the first copy of each of the attributes */
    size_t attribute_count;
};

static bool is_order(enum cudaMemcpySrcAccessOrder order)
{
    return order >= cudaMemcpySrcAccessOrderStream && order <= cudaMemcpySrcAccessOrderAny;
}

static cudaError_t check_attributes(const struct batch *batch)
{
    if (batch->attributes == NULL || batch->firsts == NULL || batch->attribute_count == 0 ||
        batch->attribute_count > batch->count || batch->firsts[0] != 0)
        return cudaErrorInvalidValue;
    for (size_t i = 0; i < batch->attribute_count; i++)
        if (!is_order(batch->attributes[i].srcAccessOrder) || batch->firsts[i] >= batch->count ||
            (i > 0 && batch->firsts[i] <= batch->firsts[i - 1]))
            return cudaErrorInvalidValue;
    return cudaSuccess;
}

static cudaError_t check_copies(const struct batch *batch)
{
    struct emu_end *const ends = calloc(2 * batch->count, sizeof *ends);
    if (ends == NULL)
        return cudaErrorMemoryAllocation;
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < batch->count && error == cudaSuccess; i++) {
        const char *const to = batch->targets[i];
        const char *const from = batch->sources[i];
        const size_t size = batch->sizes[i];
        ends[2 * i] = (struct emu_end){.begin = to, .end = to + size, .copy = i, .written = true};
        ends[2 * i + 1] = (struct emu_end){.begin = from, .end = from + size, .copy = i};
        error = size == 0 ? cudaErrorInvalidValue : emu_copy_check(batch->targets[i], from, size);
    }
    if (error == cudaSuccess)
        error = emu_check_unordered(ends, 2 * batch->count, "a batch");
    free(ends);
    return error;
}

static cudaError_t check_batch(const struct batch *batch)
{
    if (batch->targets == NULL || batch->sources == NULL || batch->sizes == NULL || batch->count == 0)
        return cudaErrorInvalidValue;
    const cudaError_t error = check_attributes(batch);
    return error == cudaSuccess ? check_copies(batch) : error;
}

/* A batch cannot be captured. The refusal does not end the capture. */
static cudaError_t stream_of_batch(cudaStream_t handle, struct emu_stream **stream)
{
    const cudaError_t error = emu_stream_to_queue(handle, stream);
    if (error != cudaSuccess)
        return error;
    if (emu_is_legacy(*stream))
        return cudaErrorInvalidValue;
    return (*stream)->capture != NULL ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

/* The order "during the API call" promises that the source is read before the return. A real runtime was seen to read
 * sources over 64 KiB later, on a stream with work. So the emulator promises nothing there either. */
static bool reads_now(const struct batch *batch, size_t which, size_t attribute, const struct emu_stream *stream)
{
    const bool during_call = batch->attributes[attribute].srcAccessOrder == cudaMemcpySrcAccessOrderDuringApiCall;
    return during_call && (batch->sizes[which] <= READ_AT_ONCE || stream->head == NULL);
}

static size_t attribute_of(const struct batch *batch, size_t which)
{
    size_t attribute = 0;
    while (attribute + 1 < batch->attribute_count && batch->firsts[attribute + 1] <= which)
        attribute++;
    return attribute;
}

static size_t *shuffled(size_t count)
{
    size_t *const order = emu_allocate(count * sizeof *order);
    for (size_t i = 0; i < count; i++)
        order[i] = count - 1 - i;
    for (size_t left = count; left > 1 && emu.seed != 0; left--) {
        const size_t other = (size_t)(emu_random() % left), kept = order[other];
        order[other] = order[left - 1];
        order[left - 1] = kept;
    }
    return order;
}

static cudaError_t queue_some(const struct batch *batch, struct emu_stream *stream, size_t count)
{
    cudaError_t error = cudaSuccess;
    size_t *const order = shuffled(batch->count);
    for (size_t i = 0; i < count && error == cudaSuccess; i++) {
        const size_t which = order[i];
        error = emu_copy(batch->targets[which], batch->sources[which], batch->sizes[which], stream,
                         reads_now(batch, which, attribute_of(batch, which), stream));
    }
    free(order);
    return error;
}

static cudaError_t copy_batch(const struct batch *batch, cudaStream_t handle, bool refused)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = stream_of_batch(handle, &stream);
    if (error == cudaSuccess)
        error = check_batch(batch);
    if (error != cudaSuccess)
        return error;
    const size_t some = emu.seed == 0 ? batch->count / 2 : (size_t)(emu_random() % batch->count);
    return queue_some(batch, stream, refused ? some : batch->count);
}

cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                                 struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                                 cudaStream_t stream)
{
    const struct batch batch = {dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs};
    cudaError_t error = EMU_ENTER(cudaMemcpyBatchAsync, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = copy_batch(&batch, stream, false);
    else if (emu_was_refused(error))
        (void)copy_batch(&batch, stream, true);
    return emu_leave(error);
}

#endif
