/* Checks that a trace shows holds and evictions, with what the simulator of evictions needs. */
#include "../api/hold_kit.h"
#include "trace_kit.h"

START_TEST(holds_and_evictions)
{
    synced_mem *const first = make_evictable("first", HOLD_BYTES);
    synced_mem *const second = make_evictable("second", HOLD_BYTES);
    start();
    set_budget(HOLD_BYTES);
    OK(hold_one(first, SYNCED_MEM_READ, NULL));
    OK(unhold_one(first));
    OK(hold_one(second, SYNCED_MEM_OVERWRITE, NULL));
    given(synced_mem_overwrite_gpu_data(second));
    OK(unhold_one(second));
    OK(hold_one(first, SYNCED_MEM_MUTABLE, NULL));
    OK(unhold_one(first));
    stop();
    HAS("\"name\":\"hold first#1\",\"cat\":\"hold\",\"ph\":\"i\"");
    HAS("\"number\":1,\"bytes\":1048576,\"mode\":\"read\"");
    HAS("\"number\":1,\"bytes\":1048576,\"mode\":\"write\"");
    HAS("\"name\":\"evict second#2\",\"cat\":\"eviction\",\"ph\":\"X\"");
    HAS("\"bytes\":1048576,\"reason\":\"pulled first\"");
    ck_assert_uint_eq(count_of("\"cat\":\"hold\""), 3);
    ck_assert_uint_eq(count_of("\"cat\":\"eviction\""), 2);
    RELEASE_EACH(first, second);
}
END_TEST

/* Objects that come and go are among those of most turns, though nothing is moved back. */
START_TEST(evictions_are_turns)
{
    synced_mem *mems[2];
    start();
    make_many(mems, 2, 0);
    set_budget(HOLD_BYTES);
    for (unsigned i = 0; i < 6; i++) {
        OK(hold_one(mems[i % 2], SYNCED_MEM_READ, NULL));
        OK(unhold_one(mems[i % 2]));
    }
    stop();
    HAS("\"rank\":1,\"object\":\"many#1\",\"turns\":5,\"h2d_transfers\":3");
    HAS("\"rank\":2,\"object\":\"many#2\",\"turns\":4,\"h2d_transfers\":3");
    release_all(mems, 2);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("trace_holds");
    add_gpu_tests(add_case(made, "holds"), holds_and_evictions, evictions_are_turns);
    return made;
}
