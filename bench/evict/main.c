/* Reads a trace of the library, and prints how often the objects that it holds would have to be brought back to the
 * device, under the library's policy and others', with so much memory. */
#include "simulate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1 << 16, PARTS = 10 };

/* The contents of a trace. */
struct trace {
    struct use *uses;
    size_t count, room;
    uint64_t *bytes; /* of each object, by its number */
    uint32_t members, members_room;
};

/* ---- Reading ---- */

/* Makes room for one more. Returns the array, which may have moved; NULL: there is no memory. */
static void *make_room(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    const size_t more = *room > 0 ? 2 * *room : 1024;
    void *const larger = realloc(array, more * size);
    if (larger)
        *room = more;
    return larger;
}

static bool add_member(struct trace *trace, uint32_t member, uint64_t bytes)
{
    while (member >= trace->members) {
        size_t room = trace->members_room;
        uint64_t *const larger = make_room(trace->bytes, trace->members, &room, sizeof *trace->bytes);
        if (!larger)
            return false;
        trace->bytes = larger;
        trace->members_room = (uint32_t)room;
        trace->bytes[trace->members++] = 0;
    }
    if (bytes > trace->bytes[member])
        trace->bytes[member] = bytes;
    return true;
}

static bool add_use(struct trace *trace, uint32_t member, uint64_t bytes, bool writes)
{
    struct use *const larger = make_room(trace->uses, trace->count, &trace->room, sizeof *trace->uses);
    if (!larger || !add_member(trace, member, bytes))
        return false;
    trace->uses = larger;
    trace->uses[trace->count++] = (struct use){.member = member, .writes = writes};
    return true;
}

/* Returns the number behind the key, or false if the line does not have it. */
static bool find_number(const char *line, const char *key, uint64_t *number)
{
    const char *const at = strstr(line, key);
    char *end = NULL;
    errno = 0;
    if (at)
        *number = strtoull(at + strlen(key), &end, 10);
    return at && end != at + strlen(key) && errno == 0;
}

/* The trace has each event in a line of its own. Objects are numbered from 1 on. */
static bool read_line_of_trace(struct trace *trace, const char *line)
{
    uint64_t object;
    uint64_t bytes;
    if (!strstr(line, "\"cat\":\"hold\"") || !find_number(line, "\"number\":", &object) ||
        !find_number(line, "\"bytes\":", &bytes) || object == 0 || object > UINT32_MAX / 2)
        return true;
    return add_use(trace, (uint32_t)object - 1, bytes, strstr(line, "\"mode\":\"read\"") == NULL);
}

static bool read_trace(struct trace *trace, FILE *file)
{
    static char line[LINE_BYTES];
    bool has_memory = true;
    while (has_memory && fgets(line, sizeof line, file))
        has_memory = read_line_of_trace(trace, line);
    return has_memory;
}

/* ---- Printing ---- */

static bool print_row(const struct order *order, uint64_t capacity)
{
    struct outcome outcomes[ALGORITHMS];
    for (int each = 0; each < ALGORITHMS; each++)
        if (!simulate(order, capacity, (enum algorithm)each, &outcomes[each]))
            return false;
    printf("%14llu", (unsigned long long)capacity);
    for (int each = 0; each < ALGORITHMS; each++)
        printf("%10llu", (unsigned long long)outcomes[each].misses);
    printf("%10.2f%16llu%16llu\n", (double)outcomes[POLICY].misses / (double)outcomes[BELADY].misses,
           (unsigned long long)outcomes[POLICY].missed_bytes, (unsigned long long)outcomes[POLICY].written_bytes);
    return true;
}

/* Without a capacity: one row for each tenth of all bytes. */
static bool print_table(const struct order *order, uint64_t capacity)
{
    uint64_t all = 0;
    uint64_t holds = order->count;
    for (uint32_t i = 0; i < order->members; i++)
        all += order->bytes[i];
    printf("%llu holds of %u objects with %llu bytes; misses, and the bytes that the policy reads and writes:\n\n",
           (unsigned long long)holds, order->members, (unsigned long long)all);
    printf("%14s", "bytes");
    for (int each = 0; each < ALGORITHMS; each++)
        printf("%10s", algorithm_names[each]);
    printf("%10s%16s%16s\n", "/ Belady", "in", "out");
    if (capacity > 0)
        return print_row(order, capacity);
    bool has_memory = true;
    for (uint64_t part = 1; part <= PARTS && has_memory; part++)
        has_memory = print_row(order, all / PARTS * part + all % PARTS * part / PARTS);
    return has_memory;
}

static int fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "evict: %s: %s\n", what, why);
    return 2;
}

int main(int argc, char **argv)
{
    struct trace trace = {.count = 0};
    if (argc < 2 || argc > 3 || strcmp(argv[1], "--help") == 0) {
        (void)fprintf(argc == 2 ? stdout : stderr, "usage: evict TRACE [BYTES]\n"
                                                   "TRACE: a file of synced_mem_trace_start() of a program that "
                                                   "holds objects\nBYTES: the memory; without: each tenth of what "
                                                   "the objects have\n");
        return argc == 2 ? 0 : 2;
    }
    FILE *const file = fopen(argv[1], "r");
    if (!file)
        return fail(argv[1], strerror(errno));
    char *end = NULL;
    const uint64_t capacity = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
    bool has_memory = read_trace(&trace, file);
    const bool was_read = !ferror(file);
    (void)fclose(file);
    if (argc == 3 && (end == argv[2] || *end != '\0' || capacity == 0))
        return fail(argv[2], "is not a number of bytes");
    if (!was_read)
        return fail(argv[1], "can't be read");
    if (has_memory && trace.count == 0)
        return fail(argv[1], "has no holds");
    const struct order order = {
        .uses = trace.uses, .count = trace.count, .bytes = trace.bytes, .members = trace.members};
    has_memory = has_memory && print_table(&order, capacity);
    free(trace.uses);
    free(trace.bytes);
    return has_memory ? 0 : fail(argv[1], "there is no memory for so many holds");
}
