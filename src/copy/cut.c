/* The cut of a staged transfer into chunks and pieces. */
#include "copy/cut.h"

/* All sizes but the transfer's are powers of two, so each chunk begins with a piece. */
enum {
    SMALLEST_CHUNK = 65536,
    SMALLEST_FIRST_CHUNK = 131072,
    SMALLEST_LARGE_CHUNK = 262144,
    CHUNKS = 16,
    DOUBLINGS = 3,
    PIECES = 32,
    SMALLEST_PIECE = 16384,
    LARGEST_PIECE = SMALLEST_CHUNK
};

static size_t divide_up(size_t bytes, size_t by)
{
    return bytes / by + (bytes % by > 0);
}

static size_t get_offset(const struct sm_cut *cut, size_t chunk)
{
    return chunk < cut->doublings ? (cut->first << chunk) - cut->first
                                  : (chunk - cut->doublings + 1) * cut->large - cut->first;
}

struct sm_range sm_cut_chunk(const struct sm_cut *cut, size_t chunk)
{
    const size_t offset = get_offset(cut, chunk);
    const size_t left = cut->size - offset;
    const size_t bytes = chunk < cut->doublings ? cut->first << chunk : cut->large;
    return (struct sm_range){offset, left < bytes ? left : bytes};
}

size_t sm_cut_pieces(const struct sm_cut *cut, size_t chunk)
{
    return divide_up(sm_cut_chunk(cut, chunk).bytes, cut->piece);
}

static size_t find_chunk(const struct sm_cut *cut, size_t offset)
{
    size_t chunk = 0;
    while (chunk < cut->doublings && offset >= get_offset(cut, chunk + 1))
        chunk++;
    return chunk < cut->doublings ? chunk : chunk + (offset - get_offset(cut, chunk)) / cut->large;
}

size_t sm_cut_piece(const struct sm_cut *cut, size_t piece, struct sm_range *bytes)
{
    const size_t offset = piece * cut->piece;
    const size_t left = cut->size - offset;
    *bytes = (struct sm_range){offset, left < cut->piece ? left : cut->piece};
    return find_chunk(cut, offset);
}

/* A larger chunk costs the device less for each byte; a smaller one leaves less to do when the last has arrived, or
 * before the first has. So chunks double while the transfer quadruples. */
static size_t choose_large_chunk(size_t size, size_t buffer)
{
    size_t chunk = SMALLEST_LARGE_CHUNK;
    while (size / chunk / CHUNKS >= chunk / SMALLEST_LARGE_CHUNK)
        chunk *= 2;
    while (chunk > SMALLEST_CHUNK && (chunk > buffer || chunk / 2 >= size))
        chunk /= 2;
    return chunk;
}

/* Halves the first chunk, as long as it keeps the smallest size. */
static void choose_first_chunk(struct sm_cut *cut, size_t doublings)
{
    cut->first = cut->large;
    for (; cut->doublings < doublings && cut->first > SMALLEST_FIRST_CHUNK; cut->doublings++)
        cut->first /= 2;
}

static size_t choose_piece(size_t large)
{
    const size_t piece = large / PIECES;
    return piece < SMALLEST_PIECE ? SMALLEST_PIECE : piece > LARGEST_PIECE ? LARGEST_PIECE : piece;
}

/* The largest chunk is the last or the one before it. */
static size_t choose_buffer_size(const struct sm_cut *cut)
{
    const size_t last = sm_cut_chunk(cut, cut->chunks - 1).bytes;
    const size_t before = cut->chunks > 1 ? sm_cut_chunk(cut, cut->chunks - 2).bytes : 0;
    return divide_up(last > before ? last : before, SMALLEST_CHUNK) * SMALLEST_CHUNK;
}

struct sm_cut sm_cut_up(size_t size, bool push, size_t buffer)
{
    struct sm_cut cut = {.size = size, .large = choose_large_chunk(size, buffer)};
    cut.piece = choose_piece(cut.large);
    cut.pieces = divide_up(size, cut.piece);
    choose_first_chunk(&cut, push ? DOUBLINGS : 0);
    cut.chunks = find_chunk(&cut, size - 1) + 1;
    cut.buffer = choose_buffer_size(&cut);
    return cut;
}
