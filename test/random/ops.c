/* Operations as text, lists of them as a source, and random numbers. */
#include "random.h"

#include <stdio.h>
#include <string.h>

static const char *const names[OP_CODES] = {
#define NAME(code, name) [OP_##code] = #name,
    RANDOM_CALLS(NAME) RANDOM_ACTS(NAME)
#undef NAME
};

const char *op_name(int code)
{
    return names[code];
}

bool op_is_call(int code)
{
    return code < OP_CALLS;
}

void op_print(char *to, size_t size, const struct op *op)
{
    (void)snprintf(to, size, "%s o%d s%d t%d %u %u", names[op->code], op->object, op->stream, op->thread, op->a, op->b);
}

/* The places' names are letters, which makes sequences readable. */
static bool op_parse(const char *text, struct op *op)
{
    char name[40];
    unsigned object, stream, thread;
    if (sscanf(text, " %39s o%u s%u t%u %u %u", name, &object, &stream, &thread, &op->a, &op->b) != 6)
        return false;
    if (object >= OBJECTS || stream >= STREAMS || thread >= THREADS)
        return false;
    op->object = (unsigned char)object;
    op->stream = (unsigned char)stream;
    op->thread = (unsigned char)thread;
    for (int code = 0; code < OP_CODES; code++) {
        if (names[code] && strcmp(names[code], name) == 0) {
            op->code = (unsigned char)code;
            return true;
        }
    }
    return false;
}

/* Operations are separated by semicolons or line ends. */
int ops_parse(const char *text, struct op *ops, int capacity)
{
    int count = 0;
    while (text[strspn(text, " ;\n")] && count < capacity) {
        if (!op_parse(text + strspn(text, " ;\n"), &ops[count]))
            return -1;
        count++;
        text += strspn(text, " ;\n");
        text += strcspn(text, ";\n");
    }
    return count;
}

/* ---- A list as a source ---- */

static bool next_listed(struct source *source, struct op *op)
{
    struct listed *const listed = (struct listed *)source;
    if (listed->at == listed->count)
        return false;
    *op = listed->ops[listed->at++];
    return true;
}

struct source *source_list(struct listed *listed, const struct op *ops, int count)
{
    *listed = (struct listed){.source = {next_listed}, .ops = ops, .count = count};
    return &listed->source;
}

/* ---- Random numbers: splitmix64 ---- */

uint32_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

uint32_t random_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)(((uint64_t)random_next(state) * limit) >> 32);
}
