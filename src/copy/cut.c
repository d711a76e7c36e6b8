/* How a staged transfer is cut up. */
#include "copy/cut.h"

/* The size of a chunk that fills a buffer is a multiple of a step, or the largest buffer's. */
enum { CHUNK_STEP = 65536, SMALLEST_CHUNK = 262144, CHUNKS = 16, DOUBLINGS = 3, PIECES = 32, SMALLEST_PIECE = 16384 };

static size_t divide_up(size_t bytes, size_t by)
{
    return (bytes + by - 1) / by;
}

static size_t get_offset(const struct sm_cut *cut, size_t chunk)
{
    return chunk < cut->doublings ? (cut->first << chunk) - cut->first
                                  : (chunk - cut->doublings + 1) * cut->chunk - cut->first;
}

struct sm_range sm_cut_chunk(const struct sm_cut *cut, size_t chunk)
{
    const size_t offset = get_offset(cut, chunk);
    const size_t next = get_offset(cut, chunk + 1);
    return (struct sm_range){offset, (next < cut->size ? next : cut->size) - offset};
}

size_t sm_cut_pieces(const struct sm_cut *cut, size_t chunk)
{
    return divide_up(sm_cut_chunk(cut, chunk).bytes, cut->piece);
}

size_t sm_cut_piece(const struct sm_cut *cut, size_t piece, struct sm_range *bytes)
{
    const size_t each = divide_up(cut->chunk, cut->piece);
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

/* A larger chunk costs the device less for each byte; a smaller one leaves less to do when the last has arrived. So
 * chunks double while the transfer quadruples. */
static size_t choose_chunk_size(size_t size, size_t largest)
{
    const size_t whole = divide_up(size, CHUNK_STEP) * CHUNK_STEP;
    size_t chunk = SMALLEST_CHUNK;
    while (size / chunk / CHUNKS >= chunk / SMALLEST_CHUNK && chunk < largest)
        chunk *= 2;
    chunk = chunk < whole ? chunk : whole;
    return chunk < largest ? chunk : largest;
}

/* Halves the first chunk at most so often, while it has even bytes and stays as large as a step. */
static void choose_first_chunk(struct sm_cut *cut, size_t most)
{
    cut->first = cut->chunk;
    for (; cut->doublings < most && cut->first % 2 == 0 && cut->first / 2 >= CHUNK_STEP; cut->doublings++)
        cut->first /= 2;
}

static void count_chunks(struct sm_cut *cut)
{
    while (cut->chunks < cut->doublings && get_offset(cut, cut->chunks) < cut->size)
        cut->chunks++;
    const size_t offset = get_offset(cut, cut->chunks);
    if (offset < cut->size)
        cut->chunks += divide_up(cut->size - offset, cut->chunk);
}

static void count_pieces(struct sm_cut *cut)
{
    const size_t last = cut->chunks - 1;
    for (size_t chunk = 0; chunk < last && chunk < cut->doublings; chunk++)
        cut->pieces += sm_cut_pieces(cut, chunk);
    if (last > cut->doublings)
        cut->pieces += (last - cut->doublings) * divide_up(cut->chunk, cut->piece);
    cut->pieces += sm_cut_pieces(cut, last);
}

struct sm_cut sm_cut_up(size_t size, bool push, size_t buffer)
{
    struct sm_cut cut = {.size = size, .chunk = choose_chunk_size(size, buffer)};
    const size_t piece = divide_up(cut.chunk, PIECES);
    cut.piece = piece > SMALLEST_PIECE ? piece : SMALLEST_PIECE;
    choose_first_chunk(&cut, push ? DOUBLINGS : 0);
    count_chunks(&cut);
    count_pieces(&cut);
    return cut;
}
