/* Checks call places and scopes in traces. */
#include "trace_kit.h"

#include "base/caller.h"

#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns whether the extended regular expression matches the text. */
static bool matches(const char *pattern)
{
    regex_t compiled;
    ck_assert_int_eq(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    const bool found = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return found;
}

#define MATCHES(pattern) ck_assert_msg(matches(pattern), "'%s' is not in:\n%.2000s", (pattern), text)

/* ---- A framework: one function for all accesses, and its callers ---- */

/* The dynamic linker knows these functions, and each has a frame of its own. */
#define A_FRAME __attribute__((noinline, visibility("default")))
#define RETURNS __asm__ volatile("" ::: "memory")

void *fw_get(synced_mem *mem, bool on_device);
void fw_forward(synced_mem *mem);
void fw_backward(synced_mem *mem);

A_FRAME void *fw_get(synced_mem *mem, bool on_device)
{
    void *const data = on_device ? synced_mem_mutable_gpu_data_on(mem, NULL) : synced_mem_mutable_cpu_data(mem);
    ck_assert(data || !gpu_expected());
    RETURNS;
    return data;
}

A_FRAME void fw_forward(synced_mem *mem)
{
    (void)fw_get(mem, gpu_expected());
    RETURNS;
}

A_FRAME void fw_backward(synced_mem *mem)
{
    (void)fw_get(mem, false);
    RETURNS;
}

/* A name in UTF-8 beyond ASCII, as compilers of other languages make them. */
void fw_strange(synced_mem *mem) __asm__("fw_stra\303\237e");

A_FRAME void fw_strange(synced_mem *mem)
{
    (void)fw_get(mem, false);
    RETURNS;
}

#define AT(caller) "\"at\":\"fw_get\\+0x[0-9a-f]+ < " caller "\\+0x[0-9a-f]+ < "

START_TEST(places)
{
    synced_mem *const mem = make_named("blob", SIZE);
    start();
    fw_backward(mem);
    fw_forward(mem);
    fw_backward(mem);
    OK(synced_mem_release_data(mem));
    fw_strange(mem);
    stop();
    MATCHES("\"after\":\"AT_CPU\"," AT("fw_stra\\?\\?e"));
    MATCHES("\"before\":\"UNINITIALIZED\",\"after\":\"AT_CPU\"," AT("fw_backward"));
    MATCHES("\"cat\":\"allocation\"[^\n]*" AT("fw_backward"));
    if (gpu_expected()) {
        MATCHES("\"name\":\"h2d blob#1\"[^\n]*" AT("fw_forward"));
        MATCHES("\"name\":\"d2h blob#1\"[^\n]*" AT("fw_backward"));
    }
    OK(synced_mem_release(mem));
}
END_TEST

START_TEST(places_in_the_summary)
{
    synced_mem *const mem = make_named("blob", SIZE);
    start();
    synced_mem_scope_begin("net");
    for (int i = 0; i < 2; i++) {
        synced_mem_scope_begin("down");
        fw_backward(mem);
        synced_mem_scope_end();
        synced_mem_scope_begin("up \"1\"");
        fw_forward(mem);
        synced_mem_scope_end();
    }
    synced_mem_scope_end();
    summary();
    HAS("    to the device by synced_mem_mutable_gpu_data_on in 'net/up \"1\"', stale by synced_mem_mutable_cpu_data "
        "in "
        "'net/down'\n");
    MATCHES("\n        at fw_get\\+0x[0-9a-f]+ < fw_forward\\+0x");
    MATCHES("\n        stale at fw_get\\+0x[0-9a-f]+ < fw_backward\\+0x");
    stop();
    MATCHES("\"h2d_scope\":\"net/up \\\\u00221\\\\u0022\",\"h2d_at\":\"fw_get\\+0x[0-9a-f]+ < fw_forward\\+0x");
    MATCHES("\"d2h_scope\":\"net/down\",\"d2h_at\":\"fw_get\\+0x[0-9a-f]+ < fw_backward\\+0x");
    MATCHES("\"host_stale_scope\":\"net/up[^\n]*\"host_stale_at\":\"fw_get\\+0x[0-9a-f]+ < fw_forward\\+0x");
    MATCHES("\"device_stale_scope\":\"net/down[^\n]*\"device_stale_at\":\"fw_get\\+0x[0-9a-f]+ < fw_backward\\+0x");
    OK(synced_mem_release(mem));
}
END_TEST

/* Work of copy threads has the call place and the scopes of the call that began it. */
START_TEST(staged_transfers)
{
    synced_mem *const mem = make_at_cpu(MUCH, 1);
    start();
    synced_mem_scope_begin("layer3");
    fw_forward(mem);
    synced_mem_scope_end();
    stop();
    MATCHES("\"name\":\"h2d part #1\"[^\n]*\"scope\":\"layer3\"," AT("fw_forward"));
    MATCHES("\"name\":\"fill buffer #1\"[^\n]*\"scope\":\"layer3\"," AT("fw_forward"));
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Deep and many call places ---- */

void fw_deep(synced_mem *mem, unsigned way, unsigned depth);

/* Calls itself from four places, so that each level multiplies the call places by four. */
A_FRAME void fw_deep(synced_mem *mem, unsigned way, unsigned depth)
{
    if (depth == 0) {
        OK(synced_mem_resize_discard(mem, way % 2 ? SIZE : SIZE / 2));
        (void)synced_mem_mutable_cpu_data(mem);
        RETURNS;
        return;
    }
    switch (way % 4) {
    case 0:
        fw_deep(mem, way / 4, depth - 1);
        __asm__ volatile("nop" ::: "memory");
        break;
    case 1:
        fw_deep(mem, way / 4, depth - 1);
        __asm__ volatile("nop; nop" ::: "memory");
        break;
    case 2:
        fw_deep(mem, way / 4, depth - 1);
        __asm__ volatile("nop; nop; nop" ::: "memory");
        break;
    default:
        fw_deep(mem, way / 4, depth - 1);
        __asm__ volatile("nop; nop; nop; nop" ::: "memory");
        break;
    }
}

START_TEST(deep_places)
{
    synced_mem *const mem = make(SIZE);
    start();
    fw_deep(mem, 0, 20);
    stop();
    MATCHES("\"at\":\"(fw_deep\\+0x[0-9a-f]+ < ){7}fw_deep\\+0x[0-9a-f]+\"");
    ck_assert(!matches("\"at\":\"(fw_deep\\+0x[0-9a-f]+ < ){8}"));
    OK(synced_mem_release(mem));
}
END_TEST

static void go_ways(synced_mem *mem, unsigned step)
{
    for (unsigned way = 0; way < 1u << 12; way += step)
        fw_deep(mem, way << 8, 12); /* the trace leaves out the four outermost calls */
}

/* Call places that do not fit into the table are not shown. */
START_TEST(many_places)
{
    synced_mem *const mem = make(SIZE);
    if (fixture_schedule() > 0) {
        OK(synced_mem_release(mem));
        return;
    }
    OK(synced_mem_trace_start("/dev/null"));
    go_ways(mem, 1);
    OK(synced_mem_trace_stop());
    start();
    go_ways(mem, 64);
    stop();
    MATCHES("\"at\":\"fw_deep\\+0x");
    MATCHES("\"after\":\"AT_CPU\"}");
    OK(synced_mem_release(mem));
}
END_TEST

/* ---- Scopes ---- */

static synced_mem *used;

/* Changes the object's head, in the current scope. */
static void change(void)
{
    OK(synced_mem_resize_discard(used, SIZE));
    (void)synced_mem_mutable_cpu_data(used);
}

static void check_scope(const char *scope)
{
    char now[SM_SCOPE_TEXT];
    sm_scope_text(now);
    ck_assert_str_eq(now, scope);
}

static void *in_another_thread(void *unused)
{
    check_scope("");
    synced_mem_scope_end();
    synced_mem_scope_begin("another");
    change();
    return unused;
}

START_TEST(scopes)
{
    pthread_t thread;
    used = make(SIZE);
    synced_mem_scope_begin("before");
    start();
    change();
    synced_mem_scope_begin("in \"it\"\n");
    ck_assert_int_eq(pthread_create(&thread, NULL, in_another_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    change();
    synced_mem_scope_end();
    synced_mem_scope_end();
    change();
    stop();
    HAS("\"after\":\"AT_CPU\",\"scope\":\"before\",");
    HAS("\"after\":\"AT_CPU\",\"scope\":\"another\",");
    HAS("\"after\":\"AT_CPU\",\"scope\":\"before/in \\u0022it\\u0022?\",");
    HAS("\"after\":\"AT_CPU\",\"at\":");
    OK(synced_mem_release(used));
}
END_TEST

START_TEST(names_of_scopes)
{
    static const char longest[] = "12345678901234567890123456789012345678901234567";
    char name[] = "copied";
    check_scope("");
    synced_mem_scope_end();
    check_scope("");
    synced_mem_scope_begin(name);
    name[0] = 'C';
    check_scope("copied");
    synced_mem_scope_begin(NULL);
    check_scope("copied");
    synced_mem_scope_begin("");
    synced_mem_scope_begin("b\x7f");
    check_scope("copied/b?");
    synced_mem_scope_end();
    synced_mem_scope_end();
    synced_mem_scope_end();
    check_scope("copied");
    synced_mem_scope_begin("12345678901234567890123456789012345678901234567 and more");
    check_scope("copied/12345678901234567890123456789012345678901234567");
    synced_mem_scope_begin("87654321");
    check_scope("copied/12345678901234567890123456789012345678901234567/87654321");
    synced_mem_scope_end();
    synced_mem_scope_begin("777777777777777");
    check_scope("12345678901234567890123456789012345678901234567/777777777777777");
    synced_mem_scope_end();
    synced_mem_scope_begin("8888888888888888");
    check_scope("8888888888888888");
    synced_mem_scope_begin(longest);
    check_scope(longest);
    for (int i = 0; i < 5; i++)
        synced_mem_scope_end();
    check_scope("");
}
END_TEST

START_TEST(scopes_in_scopes)
{
    for (int i = 0; i < 100; i++)
        synced_mem_scope_begin(i < 9 ? "" : i < 16 ? "level" : "deeper");
    check_scope("level/level/level/level/level/level/level");
    for (int i = 0; i < 84; i++)
        synced_mem_scope_end();
    check_scope("level/level/level/level/level/level/level");
    synced_mem_scope_end();
    check_scope("level/level/level/level/level/level");
    for (int i = 0; i < 100; i++)
        synced_mem_scope_end();
    synced_mem_scope_begin("again");
    check_scope("again");
    synced_mem_scope_end();
}
END_TEST

static void check_in_child(const void *unused)
{
    (void)unused;
    leaves_memory = true;
    check_scope("parent");
    synced_mem_scope_end();
    check_scope("");
}

START_TEST(scopes_of_a_child)
{
    synced_mem_scope_begin("parent");
    ck_assert(in_a_child(check_in_child, NULL));
    check_scope("parent");
    synced_mem_scope_end();
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("trace who");
    TCase *const cases = add_case(all, "trace who");
    add_tests(cases, places, deep_places, many_places, scopes, names_of_scopes, scopes_in_scopes, scopes_of_a_child);
    add_gpu_tests(cases, places_in_the_summary, staged_transfers);
    return all;
}
