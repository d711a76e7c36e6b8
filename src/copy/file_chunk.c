/* Chunks: a thread reads or writes one of a file at once. */
#include "copy/file_chunk.h"

#include "base/stats.h"
#include "copy/scatter.h"
#include "copy/transfer.h"

#include <stdlib.h>
#include <string.h>

/* ---- Blocks ---- */

static uint64_t round_down(uint64_t offset, size_t alignment)
{
    return offset - offset % alignment;
}

static uint64_t round_up(uint64_t offset, size_t alignment)
{
    return round_down(offset + alignment - 1, alignment);
}

static bool is_aligned(const void *data, size_t alignment)
{
    return (uintptr_t)data % alignment == 0;
}

/* ---- The buffer ---- */

/* Waits until the device is done with the buffer. If that cannot be known, the buffer is stray. */
static synced_mem_status wait_for_buffer(struct sm_file_buffer *buffer)
{
    synced_mem_status status = buffer->fence ? sm_fence_wait(buffer->fence) : SYNCED_MEM_OK;
    if (status != SYNCED_MEM_OK && sm_fence_is_open(buffer->fence)) {
        status = sm_device_stream_sync(buffer->on->device, buffer->on->handle);
        buffer->stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    }
    sm_fence_drop(buffer->fence);
    buffer->fence = NULL;
    return buffer->of_earlier ? SYNCED_MEM_OK : status;
}

void sm_file_buffer_leave_job(struct sm_file_buffer *buffer)
{
    buffer->of_earlier = true;
}

bool sm_file_buffer_is_in_use(const struct sm_file_buffer *buffer)
{
    return buffer->fence && sm_fence_poll(buffer->fence);
}

static void free_buffer(struct sm_file_buffer *buffer)
{
    if (buffer->bytes > 0 && buffer->stray)
        sm_count_up(SM_COUNT_quarantined, 1);
    else if (buffer->pinned.data)
        sm_host_pool_free(buffer->pinned.data, buffer->bytes, buffer->pinned.block);
    else
        free(buffer->pageable);
    *buffer = (struct sm_file_buffer){.bytes = 0};
}

synced_mem_status sm_file_buffer_end(struct sm_file_buffer *buffer)
{
    const synced_mem_status status = wait_for_buffer(buffer);
    free_buffer(buffer);
    return status;
}

/* Gets the memory for chunks of a job, with room for the blocks at both ends of one, and for the alignment of both. The
 * memory is page-locked if it is for transfers and the system has enough; then it serves the same device. */
static synced_mem_status prepare_buffer(struct sm_file_buffer *buffer, const struct sm_file_chunk *chunk,
                                        const struct sm_stream *internal)
{
    const size_t bytes = chunk->most + 4 * chunk->file->facts.alignment;
    SM_TRY(wait_for_buffer(buffer));
    buffer->of_earlier = false;
    if (buffer->bytes >= bytes && !buffer->stray &&
        (!internal || (buffer->pinned.data && buffer->device == internal->device)))
        return SYNCED_MEM_OK;
    free_buffer(buffer);
    buffer->device = internal ? internal->device : -1;
    if (internal && sm_host_pool_alloc(internal->device, bytes, &buffer->pinned) != SYNCED_MEM_OK)
        buffer->pinned.data = NULL;
    if (!buffer->pinned.data)
        buffer->pageable = calloc(1, bytes);
    if (!buffer->pinned.data && !buffer->pageable)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory for a part of %zu bytes", bytes);
    buffer->bytes = bytes;
    return SYNCED_MEM_OK;
}

/* Returns the address in the buffer that has the offset's place within a block. */
static char *place_in_buffer(const struct sm_file_buffer *buffer, uint64_t offset, size_t alignment)
{
    char *const memory = buffer->pinned.data ? buffer->pinned.data : buffer->pageable;
    const uintptr_t begin = ((uintptr_t)memory + alignment - 1) / alignment * alignment;
    return memory + (begin - (uintptr_t)memory) + offset % alignment;
}

/* Notes a transfer that was queued. Without page-locked memory the runtime may still read or write it, so the thread
 * waits. */
static synced_mem_status note_transfer(struct sm_file_buffer *buffer, struct sm_stream *internal)
{
    buffer->on = internal;
    if (buffer->pinned.data)
        return sm_transfer_record(internal, &buffer->fence, &buffer->stray);
    const synced_mem_status status = sm_device_stream_sync(internal->device, internal->handle);
    buffer->stray = status != SYNCED_MEM_OK && status != SYNCED_MEM_ERR_DEVICE_LOST;
    return status;
}

/* ---- Reading ---- */

static synced_mem_status read_bytes(const struct sm_file_chunk *chunk, void *data, uint64_t begin, uint64_t end,
                                    size_t needed)
{
    size_t done;
    const uint64_t since = sm_trace_begin();
    const int error = sm_file_read_at(chunk->file->descriptor, data, (size_t)(end - begin), begin, &done);
    sm_trace_chunk(since, chunk->who, done, begin, false);
    if (error == 0 && done >= needed) {
        sm_count_up(SM_COUNT_file_reads, 1);
        sm_count_up(SM_COUNT_file_read_bytes, needed);
        return SYNCED_MEM_OK;
    }
    if (error != 0)
        return sm_fail(SYNCED_MEM_ERR_FILE, "%zu bytes at offset %llu of the file can't be read: %s (error %d)", needed,
                       (unsigned long long)begin, strerror(error), error);
    return sm_fail(SYNCED_MEM_ERR_FILE, "%zu bytes at offset %llu of the file can't be read: it ends after %zu of them",
                   needed, (unsigned long long)begin, done);
}

/* The bytes of a part that are in the chunk. */
struct piece {
    char *memory;
    uint64_t offset;
    size_t size;
};

static struct piece get_piece(const struct sm_file_chunk *chunk, const struct sm_file_part *part)
{
    const uint64_t begin = part->offset > chunk->begin ? part->offset : chunk->begin;
    const uint64_t part_end = part->offset + part->size;
    const uint64_t end = part_end < chunk->end ? part_end : chunk->end;
    return (struct piece){
        .memory = part->memory + (begin - part->offset), .offset = begin, .size = (size_t)(end - begin)};
}

/* Queues a transfer between the buffer and the device. */
static synced_mem_status queue_piece(const struct sm_file_chunk *chunk, const struct piece *piece, char *data, bool up,
                                     const struct sm_stream *internal)
{
    const struct sm_trace_moved moved = {.direction = up ? SM_H2D : SM_D2H,
                                         .bytes = piece->size,
                                         .from = up ? SYNCED_MEM_SOURCE_PINNED : SYNCED_MEM_SOURCE_DEVICE,
                                         .to = up ? SYNCED_MEM_SOURCE_DEVICE : SYNCED_MEM_SOURCE_PINNED,
                                         .who = chunk->who};
    const struct sm_trace_copy traced = sm_trace_copy_begin(sm_stream_traced(internal));
    const synced_mem_status status =
        up ? sm_device_copy_h2d(internal->device, piece->memory, data, piece->size, internal->handle)
           : sm_device_copy_d2h(internal->device, data, piece->memory, piece->size, internal->handle);
    sm_trace_copy_end(&traced, &moved, sm_stream_traced(internal), status);
    return status;
}

/* Returns where the piece's bytes are in the data of the chunk. */
static char *find_piece(const struct sm_file_chunk *chunk, const struct piece *piece, char *data)
{
    return data + (piece->offset - chunk->begin);
}

/* Queues the copies together. The copies of a call have no times in a trace, so there each goes alone. */
static synced_mem_status queue_pieces(const struct sm_file_chunk *chunk, char *data,
                                      const struct sm_file_buffer *buffer)
{
    struct sm_scatter together = {.stream = chunk->internal, .room = chunk->count, .by_kernel = chunk->by_kernel};
    const bool is_one_call = chunk->count > 1 && buffer->pinned.data && !sm_trace_on() && sm_scatter_begin(&together);
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < chunk->count && status == SYNCED_MEM_OK; i++) {
        const struct piece piece = get_piece(chunk, &chunk->parts[i]);
        char *const from = find_piece(chunk, &piece, data);
        if (is_one_call)
            sm_scatter_add(&together, piece.memory, from, piece.size, chunk->parts[i].own);
        else
            status = queue_piece(chunk, &piece, from, true, chunk->internal);
    }
    return is_one_call ? sm_scatter_end(&together) : status;
}

/* Distributes the bytes that were read to data. */
static synced_mem_status scatter(const struct sm_file_chunk *chunk, char *data, struct sm_file_buffer *buffer)
{
    if (!chunk->internal) {
        for (size_t i = 0; i < chunk->count; i++) {
            const struct piece piece = get_piece(chunk, &chunk->parts[i]);
            memcpy(piece.memory, find_piece(chunk, &piece, data), piece.size);
        }
        return SYNCED_MEM_OK;
    }
    const synced_mem_status status = queue_pieces(chunk, data, buffer);
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status noted = note_transfer(buffer, chunk->internal);
    if (status != SYNCED_MEM_OK)
        sm_detail_set(&first);
    return status != SYNCED_MEM_OK ? status : noted;
}

synced_mem_status sm_file_chunk_read(const struct sm_file_chunk *chunk, struct sm_file_buffer *buffer)
{
    const size_t alignment = chunk->file->facts.alignment;
    const uint64_t begin = round_down(chunk->begin, alignment);
    const uint64_t end = round_up(chunk->end, alignment);
    const size_t before = (size_t)(chunk->begin - begin);
    const struct piece piece = get_piece(chunk, chunk->parts);
    if (!chunk->internal && chunk->count == 1 && begin == chunk->begin && end == chunk->end &&
        is_aligned(piece.memory, alignment))
        return read_bytes(chunk, piece.memory, begin, end, piece.size);
    SM_TRY(prepare_buffer(buffer, chunk, chunk->internal));
    char *const data = place_in_buffer(buffer, chunk->begin, alignment);
    SM_TRY(read_bytes(chunk, data - before, begin, end, (size_t)(chunk->end - begin)));
    return scatter(chunk, data, buffer);
}

/* ---- Writing ---- */

static synced_mem_status write_bytes(const struct sm_file_chunk *chunk, int descriptor, const char *data,
                                     uint64_t begin, uint64_t end)
{
    if (begin >= end)
        return SYNCED_MEM_OK;
    const uint64_t since = sm_trace_begin();
    const int error = sm_file_write_at(descriptor, data, (size_t)(end - begin), begin);
    sm_trace_chunk(since, chunk->who, (size_t)(end - begin), begin, true);
    if (error == 0) {
        sm_count_up(SM_COUNT_file_writes, 1);
        sm_count_up(SM_COUNT_file_write_bytes, end - begin);
        return SYNCED_MEM_OK;
    }
    return sm_fail(SYNCED_MEM_ERR_FILE, "%llu bytes at offset %llu of the file can't be written: %s (error %d)",
                   (unsigned long long)(end - begin), (unsigned long long)begin, strerror(error), error);
}

/* Writes whole blocks past the system's cache, and the edges through it. */
static synced_mem_status write_blocks(const struct sm_file_chunk *chunk, const char *data)
{
    const struct synced_mem_file *const file = chunk->file;
    const uint64_t up = round_up(chunk->begin, file->facts.alignment);
    const uint64_t first = up < chunk->end ? up : chunk->end;
    const uint64_t down = round_down(chunk->end, file->facts.alignment);
    const uint64_t last = down > first ? down : first;
    if (!file->facts.direct)
        return write_bytes(chunk, file->descriptor, data, chunk->begin, chunk->end);
    SM_TRY(write_bytes(chunk, file->cached, data, chunk->begin, first));
    SM_TRY(write_bytes(chunk, file->descriptor, data + (first - chunk->begin), first, last));
    return write_bytes(chunk, file->cached, data + (last - chunk->begin), last, chunk->end);
}

/* Brings the bytes of all parts to the buffer, and waits until they are there. After a failure some may be on the way.
 */
static synced_mem_status gather(const struct sm_file_chunk *chunk, struct sm_stream *internal, char *data,
                                struct sm_file_buffer *buffer)
{
    synced_mem_status status = SYNCED_MEM_OK;
    for (size_t i = 0; i < chunk->count && status == SYNCED_MEM_OK; i++) {
        const struct piece piece = get_piece(chunk, &chunk->parts[i]);
        char *const to = find_piece(chunk, &piece, data);
        if (internal)
            status = queue_piece(chunk, &piece, to, false, internal);
        else
            memcpy(to, piece.memory, piece.size);
    }
    if (!internal)
        return SYNCED_MEM_OK;
    const struct sm_detail first = sm_detail_get();
    const synced_mem_status noted = note_transfer(buffer, internal);
    const synced_mem_status waited = noted == SYNCED_MEM_OK ? wait_for_buffer(buffer) : noted;
    if (status != SYNCED_MEM_OK)
        sm_detail_set(&first);
    return status != SYNCED_MEM_OK ? status : waited;
}

synced_mem_status sm_file_chunk_write(const struct sm_file_chunk *chunk, struct sm_file_buffer *buffer)
{
    struct sm_stream *const internal = chunk->parts->internal;
    const size_t alignment = chunk->file->facts.alignment;
    const struct piece piece = get_piece(chunk, chunk->parts);
    if (!internal && chunk->count == 1 && (uintptr_t)piece.memory % alignment == chunk->begin % alignment)
        return write_blocks(chunk, piece.memory);
    SM_TRY(prepare_buffer(buffer, chunk, internal));
    char *const data = place_in_buffer(buffer, chunk->begin, alignment);
    SM_TRY(gather(chunk, internal, data, buffer));
    return write_blocks(chunk, data);
}
