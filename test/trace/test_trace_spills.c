/* Checks that a trace shows which host copies go, and which of them to the scratch file. */
#include "../api/host_budget_kit.h"
#include "trace_kit.h"

START_TEST(host_copies_that_go)
{
    synced_mem_file *const scratch = make_scratch();
    synced_mem *const pushed = make_evictable("pushed", HOLD_BYTES);
    synced_mem *const written = make_evictable("written", HOLD_BYTES);
    host_fill(given(synced_mem_overwrite_cpu_data(pushed)), HOLD_BYTES, 1);
    host_fill(given(synced_mem_overwrite_cpu_data(written)), HOLD_BYTES, 2);
    OK(synced_mem_async_gpu_push(pushed, NULL));
    start();
    set_host_budget(0, scratch);
    stop();
    HAS("\"name\":\"evict pushed#1\",\"cat\":\"eviction\",\"ph\":\"X\"");
    HAS("\"bytes\":1048576,\"reason\":\"host copy, clean\"");
    HAS("\"bytes\":1048576,\"reason\":\"host copy, spilled\"");
    set_host_budget(SYNCED_MEM_NO_BUDGET, NULL);
    RELEASE_EACH(pushed, written);
    end_scratch(scratch);
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("trace_spills");
    add_gpu_tests(add_case(made, "spills"), host_copies_that_go);
    return made;
}
