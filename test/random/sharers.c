/* Other objects that use the memory of an object, or a part of it. They page-lock it or not, in any order. They never
 * access its contents. */
#include "world.h"

#include <stdlib.h>

enum { SHARERS = 5, EDGES = 4 };

static struct sharer {
    synced_mem *mem; /* NULL: there is none */
    const struct block *block;
} sharers[SHARERS];

static void ignore(void *data, void *user, synced_mem_stream stream)
{
    (void)data, (void)user, (void)stream;
}

static void release_sharer(struct sharer *sharer)
{
    synced_mem *const mem = sharer->mem;
    sharer->mem = NULL;
    if (synced_mem_release(mem) != SYNCED_MEM_OK)
        fail("an object without work could not be released");
}

void sharers_release(const struct block *block)
{
    for (int i = 0; i < SHARERS; i++)
        if (sharers[i].mem && sharers[i].block == block)
            release_sharer(&sharers[i]);
}

int sharers_count(void)
{
    int count = 0;
    for (int i = 0; i < SHARERS; i++)
        count += sharers[i].mem != NULL;
    return count;
}

static void play_release(const struct op *op, struct sharer *sharer)
{
    code_line("OK(synced_mem_release(sharer[%u]));", op->a % SHARERS);
    call_begins(NULL, op->code, HOST);
    release_sharer(sharer);
    call_ends(0, 0);
}

/* The library refuses to page-lock memory of which another object has page-locked a part. */
static void hand_in(const struct op *op, struct sharer *sharer, struct block *block, size_t begin, size_t end)
{
    const bool lock = op->b / 16 % 4 != 0;
    const bool adopt = op->b / 64 % 2 != 0;
    code_line("OK(synced_mem_create(&sharer[%u], %zu, NULL));", op->a % SHARERS, end - begin);
    code_line("(void)USE(sharer[%u], .cpu_data = cpu + %zu%s%s); /* the memory of mem[%d] */", op->a % SHARERS, begin,
              adopt ? ", .callback = callback" : "", lock ? ", .flags = SYNCED_MEM_MEMORY_PAGE_LOCK" : "", op->object);
    call_begins(NULL, op->code, HOST);
    (void)answered("create", synced_mem_create(&sharer->mem, end - begin, NULL), OK_ONLY);
    sharer->block = block;
    const bool ok = answered("use_memory",
                             USE(sharer->mem, .cpu_data = block->data + begin, .callback = adopt ? ignore : NULL,
                                 .flags = lock ? SYNCED_MEM_MEMORY_PAGE_LOCK : 0),
                             lock ? OK_ONLY | 1u << SYNCED_MEM_ERR_CUDA : OK_ONLY);
    block->shared = true;
    block->locked |= ok && lock;
    if (!ok)
        release_sharer(sharer);
    call_ends(0, 0);
}

bool play_share(const struct op *op)
{
    if (op->code != OP_SHARE || !machine.gpu || getenv("SYNCED_MEM_DEBUG")) /* the memory may be protected then */
        return false;
    const struct object *const object = &world.objects[op->object];
    struct sharer *const sharer = &sharers[op->a % SHARERS];
    if (sharer->mem) {
        play_release(op, sharer);
        return true;
    }
    struct block *const block = object->mem && !object->root ? object->copy[CPU].block : NULL;
    if (!block || block->kind != PAGEABLE_BLOCK || block->read_only)
        return false;
    const size_t edges[EDGES] = {0, object->size / 2, object->size, block->size};
    const size_t begin = edges[op->b % (EDGES - 1)];
    const size_t end = edges[op->b % (EDGES - 1) + 1 + op->b / 4 % (EDGES - 1 - op->b % (EDGES - 1))];
    if (begin == end)
        return false;
    hand_in(op, sharer, block, begin, end);
    return true;
}
