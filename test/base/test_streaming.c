/* Checks copies past the processor's caches: every byte of the range, and no other. Demotion changes none. */
#include "fixture.h"

#include "system/demote.h"
#include "system/streaming.h"

#include <string.h>

enum { ROOM = 2048, EDGE = 160, MOST = 700, STEPS = 37, LINE = 128 };

static unsigned char from[ROOM], to[ROOM], expected[ROOM];

static void fill(unsigned char *bytes, unsigned seed)
{
    for (int i = 0; i < ROOM; i++)
        bytes[i] = (unsigned char)(seed + (unsigned)i * 7 + (unsigned)i / 251);
}

static void copy_and_check(size_t to_at, size_t from_at, size_t bytes)
{
    fill(to, 100);
    memcpy(expected, to, ROOM);
    memcpy(expected + to_at, from + from_at, bytes);
    sm_copy_streaming(to + to_at, from + from_at, bytes);
    ck_assert_msg(memcmp(to, expected, ROOM) == 0, "%zu bytes from %zu to %zu", bytes, from_at, to_at);
}

START_TEST(every_alignment)
{
    fill(from, 1);
    for (size_t at = 0; at < LINE; at++)
        for (size_t bytes = 0; bytes < MOST; bytes += bytes < 2 * LINE ? 1 : STEPS)
            copy_and_check(EDGE + at, EDGE + at * 5 % LINE, bytes);
}
END_TEST

START_TEST(demotion_changes_no_byte)
{
    fill(to, 3);
    memcpy(expected, to, ROOM);
    for (size_t at = 0; at < LINE; at++)
        sm_demote(to + at, ROOM - 2 * at);
    sm_demote(to, 0);
    ck_assert_int_eq(memcmp(to, expected, ROOM), 0);
    ck_assert_int_eq(sm_can_demote(), sm_can_demote());
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("streaming");
    add_tests(add_case(made, "streaming"), every_alignment, demotion_changes_no_byte);
    return made;
}
