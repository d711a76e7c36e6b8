/* Checks how staged transfers are cut up. */
#include "fixture.h"

#include "copy/cut.h"

enum { KIB = 1024, MIB = 1024 * KIB };

static const size_t sizes[] = {
    1,         4095,          64 * KIB, 64 * KIB + 1, 100000,         128 * KIB, 192 * KIB,    192 * KIB + 1,
    256 * KIB, 256 * KIB + 1, MIB - 1,  4 * MIB,      7 * MIB + 4097, 16 * MIB,  64 * MIB + 1, 128 * MIB + 77};
static const size_t buffers[] = {64 * KIB, 64 * KIB + 1, 100000, 192 * KIB, 2 * MIB, 4 * MIB + 2, 64 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes, BUFFERS = sizeof buffers / sizeof *buffers };

/* Chunks lie one behind the other, fit into a buffer, and only the last may be smaller than the one before it. None but
 * the last is smaller than 64 KiB, as each costs the device time. */
static void check_chunks(const struct sm_cut *cut, size_t buffer)
{
    size_t end = 0;
    size_t before = 0;
    ck_assert_uint_le(cut->chunk, buffer);
    for (size_t chunk = 0; chunk < cut->chunks; chunk++) {
        const struct sm_range of = sm_cut_chunk(cut, chunk);
        const bool is_last = chunk + 1 == cut->chunks;
        ck_assert_uint_eq(of.offset, end);
        ck_assert_uint_gt(of.bytes, 0);
        ck_assert_uint_le(of.bytes, cut->chunk);
        ck_assert(is_last || of.bytes >= 64 * (size_t)KIB);
        ck_assert(chunk == 0 || of.bytes <= 2 * before);
        ck_assert(is_last || of.bytes == cut->chunk || chunk == 0 || of.bytes == 2 * before);
        before = of.bytes;
        end += of.bytes;
    }
    ck_assert_uint_eq(end, cut->size);
}

/* Pieces lie one behind the other, each in one chunk. */
static void check_pieces(const struct sm_cut *cut)
{
    size_t end = 0;
    size_t chunk = 0;
    size_t in_chunk = 0;
    for (size_t piece = 0; piece < cut->pieces; piece++) {
        struct sm_range bytes;
        const size_t found = sm_cut_piece(cut, piece, &bytes);
        if (found != chunk) {
            ck_assert_uint_eq(found, chunk + 1);
            ck_assert_uint_eq(in_chunk, sm_cut_pieces(cut, chunk));
            ck_assert_uint_eq(bytes.offset, sm_cut_chunk(cut, found).offset);
            in_chunk = 0;
        }
        chunk = found;
        in_chunk++;
        ck_assert_uint_eq(bytes.offset, end);
        ck_assert_uint_gt(bytes.bytes, 0);
        ck_assert_uint_le(bytes.bytes, cut->piece);
        end += bytes.bytes;
        ck_assert_uint_le(end, sm_cut_chunk(cut, chunk).offset + sm_cut_chunk(cut, chunk).bytes);
    }
    ck_assert_uint_eq(in_chunk, sm_cut_pieces(cut, cut->chunks - 1));
    ck_assert_uint_eq(end, cut->size);
}

START_TEST(every_byte_is_in_one_piece_of_one_chunk)
{
    for (size_t i = 0; i < 2 * BUFFERS; i++) {
        const size_t buffer = buffers[i / 2];
        const struct sm_cut cut = sm_cut_up(sizes[_i], i % 2, buffer);
        ck_assert_uint_eq(cut.size, sizes[_i]);
        check_chunks(&cut, buffer);
        check_pieces(&cut);
    }
}
END_TEST

/* The device begins a push with an eighth of a large chunk, and the last chunk of a round size is as small. A pull has
 * chunks of one size. */
START_TEST(chunks_double_up_to_a_buffer)
{
    const struct sm_cut cut = sm_cut_up(16 * MIB, true, 2 * MIB);
    const struct sm_cut pull = sm_cut_up(16 * MIB, false, 2 * MIB);
    const size_t first[] = {128 * KIB, 256 * KIB, 512 * KIB, MIB, MIB};
    ck_assert_uint_eq(cut.chunks, 19);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        ck_assert_uint_eq(sm_cut_chunk(&cut, i).bytes, first[i]);
    ck_assert_uint_eq(sm_cut_chunk(&cut, 18).bytes, 128 * (size_t)KIB);
    ck_assert_uint_eq(cut.piece, 32 * (size_t)KIB);
    ck_assert_uint_eq(pull.chunks, 16);
    ck_assert_uint_eq(sm_cut_chunk(&pull, 0).bytes, MIB);
    ck_assert_uint_eq(sm_cut_up((size_t)1024 * MIB, true, 4 * MIB).chunk, 4 * (size_t)MIB);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("cuts");
    TCase *const tests = add_case(made, "cut");
    tcase_add_loop_test(tests, every_byte_is_in_one_piece_of_one_chunk, 0, SIZES);
    tcase_add_test(tests, chunks_double_up_to_a_buffer);
    return made;
}
