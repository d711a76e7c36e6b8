/* The cut of a staged transfer into chunks and pieces. */
#include "copy/cut.h"

/* A large chunk is a multiple of a step. */
enum { STEP = 65536, SMALLEST_CHUNK = 262144, CHUNKS = 16, DOUBLINGS = 3, PIECES = 32, SMALLEST_PIECE = 16384 };

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

size_t sm_cut_piece(const struct sm_cut *cut, size_t piece, struct sm_range *bytes)
{
    const size_t each = divide_up(cut->large, cut->piece);
    size_t chunk = 0;
    for (; chunk < cut->doublings && piece >= sm_cut_pieces(cut, chunk); chunk++)
        piece -= sm_cut_pieces(cut, chunk);
    if (chunk == cut->doublings) {
        chunk += piece / each;
        piece %= each;
    }
    const struct sm_range of = sm_cut_chunk(cut, chunk);
    const size_t begin = piece * cut->piece;
    *bytes = (struct sm_range){of.offset + begin, of.bytes - begin < cut->piece ? of.bytes - begin : cut->piece};
    return chunk;
}

/* A larger chunk costs the device less for each byte; a smaller one leaves less to do when the last has arrived, or
 * before the first has. So chunks double while the transfer quadruples. */
static size_t choose_large_chunk(size_t size, size_t buffer)
{
    const size_t most = buffer / STEP * STEP;
    const size_t whole = divide_up(size, STEP) * STEP;
    size_t chunk = SMALLEST_CHUNK;
    while (size / chunk / CHUNKS >= chunk / SMALLEST_CHUNK)
        chunk *= 2;
    chunk = chunk < whole ? chunk : whole;
    return chunk < most ? chunk : most;
}

/* Halves the first chunk as often as it keeps a step. So the chunks before the large ones have fewer bytes together
 * than the transfer. */
static void choose_first_chunk(struct sm_cut *cut, size_t doublings)
{
    cut->first = cut->large;
    for (; cut->doublings < doublings && cut->first / 2 >= STEP; cut->doublings++)
        cut->first /= 2;
}

/* The largest chunk is the first large one, or the one before it. */
static size_t choose_buffer_size(const struct sm_cut *cut)
{
    const size_t large = divide_up(sm_cut_chunk(cut, cut->doublings).bytes, STEP) * STEP;
    const size_t before = cut->doublings > 0 ? cut->large / 2 : 0;
    return large > before ? large : before;
}

static size_t count_pieces(const struct sm_cut *cut)
{
    const size_t last = cut->chunks - 1;
    size_t pieces = (last - cut->doublings) * divide_up(cut->large, cut->piece) + sm_cut_pieces(cut, last);
    for (size_t chunk = 0; chunk < cut->doublings; chunk++)
        pieces += sm_cut_pieces(cut, chunk);
    return pieces;
}

struct sm_cut sm_cut_up(size_t size, bool push, size_t buffer)
{
    struct sm_cut cut = {.size = size, .large = choose_large_chunk(size, buffer)};
    const size_t piece = divide_up(cut.large, PIECES);
    cut.piece = piece > SMALLEST_PIECE ? piece : SMALLEST_PIECE;
    choose_first_chunk(&cut, push ? DOUBLINGS : 0);
    cut.chunks = cut.doublings + divide_up(size - (cut.large - cut.first), cut.large);
    cut.buffer = choose_buffer_size(&cut);
    cut.pieces = count_pieces(&cut);
    return cut;
}
