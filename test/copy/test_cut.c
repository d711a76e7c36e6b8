/* Checks how staged transfers are cut up. */
#include "fixture.h"

#include "copy/cut.h"

enum { KIB = 1024, MIB = 1024 * KIB, STEP = 64 * KIB };

static const size_t sizes[] = {
    1,         4095,          64 * KIB, 64 * KIB + 1, 100000,         128 * KIB, 192 * KIB,    192 * KIB + 1,
    256 * KIB, 256 * KIB + 1, MIB - 1,  4 * MIB,      7 * MIB + 4097, 16 * MIB,  64 * MIB + 1, 128 * MIB + 77};
static const size_t buffers[] = {64 * KIB,      64 * KIB + 1,    100000,  192 * KIB,   256 * KIB,
                                 256 * KIB + 1, 256 * KIB + 100, 2 * MIB, 4 * MIB + 2, 64 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes, BUFFERS = sizeof buffers / sizeof *buffers };

/* Chunks lie one behind the other. Only the last may be smaller than the one before it, and smaller than a step, as
 * each costs the device time. A buffer has room for the largest. */
static void check_chunks(const struct sm_cut *cut, size_t buffer)
{
    size_t end = 0;
    size_t before = 0;
    size_t largest = 0;
    for (size_t chunk = 0; chunk < cut->chunks; chunk++) {
        const struct sm_range of = sm_cut_chunk(cut, chunk);
        const bool is_last = chunk + 1 == cut->chunks;
        ck_assert_uint_eq(of.offset, end);
        ck_assert_uint_gt(of.bytes, 0);
        ck_assert(is_last || of.bytes >= STEP);
        ck_assert(is_last || of.bytes == cut->large || chunk == 0 || of.bytes == 2 * before);
        ck_assert(chunk == 0 || of.bytes <= 2 * before);
        before = of.bytes;
        largest = of.bytes > largest ? of.bytes : largest;
        end += of.bytes;
    }
    ck_assert_uint_eq(end, cut->size);
    ck_assert_uint_ge(cut->buffer, largest);
    ck_assert_uint_lt(cut->buffer, largest + STEP);
    ck_assert_uint_le(cut->buffer, buffer);
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
        if (i % 2 && sizes[_i] > 2 * STEP && buffer >= 4 * (size_t)STEP)
            ck_assert_uint_lt(sm_cut_chunk(&cut, 0).bytes, cut.large);
    }
}
END_TEST

/* A cut that is expected to the byte. A push begins with an eighth of a large chunk, or with two steps, and one of a
 * round size ends with as few bytes. A pull has chunks of one size. */
static const struct expected {
    size_t size, buffer;
    bool push;
    size_t chunks;
    size_t first[5]; /* the first chunks, in KiB */
    size_t last;     /* the last chunk, in bytes */
    size_t piece;    /* in KiB */
} expected[] = {
    {1, 2 * MIB, true, 1, {0}, 1, 16},
    {64 * KIB, 2 * MIB, true, 1, {64}, 64 * KIB, 16},
    {128 * KIB, 2 * MIB, true, 1, {128}, 128 * KIB, 16},
    {256 * KIB, 2 * MIB, true, 2, {128, 128}, 128 * KIB, 16},
    {256 * KIB, 2 * MIB, false, 1, {256}, 256 * KIB, 16},
    {MIB, 2 * MIB, true, 5, {128, 256, 256, 256, 128}, 128 * KIB, 16},
    {MIB, 2 * MIB, false, 4, {256, 256, 256, 256}, 256 * KIB, 16},
    {2 * MIB, 2 * MIB, false, 8, {256, 256, 256, 256, 256}, 256 * KIB, 16},
    {4 * MIB, 2 * MIB, true, 10, {128, 256, 512, 512, 512}, 128 * KIB, 16},
    {16 * MIB, 2 * MIB, true, 19, {128, 256, 512, 1024, 1024}, 128 * KIB, 32},
    {16 * MIB, 2 * MIB, false, 16, {1024, 1024, 1024, 1024, 1024}, MIB, 32},
    {128 * KIB + 1, 2 * MIB, true, 2, {128}, 1, 16},
    {192 * KIB, 2 * MIB, true, 2, {128, 64}, 64 * KIB, 16},
    {192 * KIB + 1, 2 * MIB, true, 2, {128}, 64 * KIB + 1, 16},
    {192 * KIB, 2 * MIB, false, 1, {192}, 192 * KIB, 16},
    {16 * MIB, 192 * KIB + 5, true, 128, {128, 128, 128, 128, 128}, 128 * KIB, 16},
    {16 * MIB, 256 * KIB, true, 65, {128, 256, 256, 256, 256}, 128 * KIB, 16},
    {(size_t)1024 * MIB, 4 * MIB, true, 259, {512, 1024, 2048, 4096, 4096}, 512 * KIB, 64},
    {(size_t)1024 * MIB, 4 * MIB - 1, false, 512, {2048, 2048, 2048, 2048, 2048}, 2 * MIB, 64},
};
enum { EXPECTED = sizeof expected / sizeof *expected };

START_TEST(cuts_to_the_byte)
{
    const struct expected *const as = &expected[_i];
    const struct sm_cut cut = sm_cut_up(as->size, as->push, as->buffer);
    ck_assert_uint_eq(cut.chunks, as->chunks);
    for (size_t i = 0; i < 5 && as->first[i] > 0; i++)
        ck_assert_uint_eq(sm_cut_chunk(&cut, i).bytes, as->first[i] * KIB);
    ck_assert_uint_eq(sm_cut_chunk(&cut, cut.chunks - 1).bytes, as->last);
    ck_assert_uint_eq(cut.piece, as->piece * KIB);
}
END_TEST

/* Without copy threads a transfer of one byte must not take a large buffer. */
START_TEST(a_small_transfer_has_a_small_buffer)
{
    ck_assert_uint_eq(sm_cut_up(1, true, 2 * MIB).buffer, STEP);
    ck_assert_uint_eq(sm_cut_up(1, false, 2 * MIB).buffer, STEP);
    ck_assert_uint_eq(sm_cut_up(256 * KIB, true, 2 * MIB).buffer, 128 * (size_t)KIB);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("cuts");
    TCase *const tests = add_case(made, "cut");
    tcase_add_loop_test(tests, every_byte_is_in_one_piece_of_one_chunk, 0, SIZES);
    tcase_add_loop_test(tests, cuts_to_the_byte, 0, EXPECTED);
    tcase_add_test(tests, a_small_transfer_has_a_small_buffer);
    return made;
}
