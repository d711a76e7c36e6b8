/*
 * The cut of a staged transfer: into chunks, each of which the device copies at once between its memory and a buffer,
 * and each chunk into pieces, which threads copy between the buffer and the host memory. Chunks and pieces are numbered
 * from 0; pieces through all chunks.
 *
 * Every chunk costs the device time beside its bytes, so chunks are large. But the device begins with a push only when
 * a first chunk is full. So that of a push is small, and each that follows has twice the bytes of the one before it, up
 * to the large ones. The sizes are powers of two, so each chunk begins with a piece.
 */
#ifndef SM_CUT_H
#define SM_CUT_H

#include <stdbool.h>
#include <stddef.h>

/* All but the counts are bytes. */
struct sm_cut {
    size_t size;      /* of the transfer */
    size_t large;     /* of a large chunk, but for the last */
    size_t first;     /* of the first chunk, if there are more */
    size_t doublings; /* how many chunks come before the large ones, if there are so many */
    size_t chunks;
    size_t buffer; /* of a buffer, in which each chunk has room */
    size_t piece;  /* of a piece, but for the last */
    size_t pieces; /* in all chunks */
};

/* Bytes of the transfer. */
struct sm_range {
    size_t offset, bytes;
};

/* Cuts up a transfer of size bytes, which is not 0. push: to the device. buffer: the bytes that a buffer may have, at
 * least 64 KiB. */
struct sm_cut sm_cut_up(size_t size, bool push, size_t buffer);

/* Returns the bytes of a chunk. */
struct sm_range sm_cut_chunk(const struct sm_cut *cut, size_t chunk);
/* Returns the number of pieces of a chunk. */
size_t sm_cut_pieces(const struct sm_cut *cut, size_t chunk);
/* Returns the chunk of a piece. *bytes: gets the piece's bytes. */
size_t sm_cut_piece(const struct sm_cut *cut, size_t piece, struct sm_range *bytes);

#endif
