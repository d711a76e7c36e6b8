/* Plays the making of views, and wrong calls on them. */
#include "world.h"

/* An operation's first argument is the offset. The second is the size, the place of the object or view that is viewed,
 * and options. */
enum { OPTIONS = 4 };

uint32_t view_arguments(int of, size_t size, uint32_t options)
{
    return ((uint32_t)size * OBJECTS + (uint32_t)of) * OPTIONS + options % OPTIONS;
}

static struct object *object_of(const struct op *op)
{
    return &world.objects[op->b / OPTIONS % OBJECTS];
}

static size_t size_of(const struct op *op)
{
    return op->b / OPTIONS / OBJECTS;
}

static synced_mem_options options_of(const struct op *op)
{
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.name = op->b & 1 ? "some name" : NULL;
    options.user = op->b & 2 ? &world : NULL;
    return options;
}

static void view_made(const struct op *op, synced_mem *mem)
{
    struct object *const view = &world.objects[op->object];
    const struct object *const of = object_of(op);
    struct object *const root = of->root ? of->root : object_of(op);
    ref_viewed(view, mem, root, of->root_offset + op->a, size_of(op));
    view->named = op->b & 1;
    check_facts(view);
}

/* A view that is too large is refused. */
bool play_view(const struct op *op)
{
    struct object *const of = object_of(op);
    const bool can_be = op->object >= FIRST_VIEW && !world.objects[op->object].mem;
    const bool has_views = of >= &world.objects[PLAIN] && of->mem;
    if (op->code != OP_VIEW || !can_be || !has_views)
        return false;
    const bool fits = op->a <= of->size && size_of(op) <= of->size - op->a;
    const synced_mem_options options = options_of(op);
    synced_mem *mem = NULL;
    code_line("(void)synced_mem_view(&mem[%d], mem[%td], %u, %zu, NULL);", op->object, of - world.objects, op->a,
              size_of(op));
    call_begins(of, op->code, HOST);
    const bool ok = answered("view", synced_mem_view(&mem, of->mem, op->a, size_of(op), op->b & 3 ? &options : NULL),
                             fits ? OK_ONLY : 1u << SYNCED_MEM_ERR_INVALID_ARGUMENT);
    if (ok != (mem != NULL))
        fail("a failed call has made a view");
    world.alive += ok;
    call_ends(0, 0);
    if (ok)
        view_made(op, mem);
    check_facts(of);
    return true;
}

void mistake_of_view(const struct object *of, unsigned which)
{
    const unsigned refused = 1u << SYNCED_MEM_ERR_INVALID_ARGUMENT;
    synced_mem *mem = NULL;
    synced_mem_options options;
    synced_mem_options_init(&options);
    switch (which) {
    case 0:
        (void)answered("view", synced_mem_view(&mem, NULL, 0, 0, NULL), refused);
        break;
    case 1:
        (void)answered("view", synced_mem_view(NULL, of->mem, 0, of->size, NULL), refused);
        break;
    case 2:
        (void)answered("view", synced_mem_view(&mem, of->mem, SIZE_MAX, 2, NULL), refused);
        break;
    case 3:
        (void)answered("view", synced_mem_view(&mem, of->mem, 1, SIZE_MAX, NULL), refused);
        break;
    default:
        options.device = which % 2 ? 0 : SYNCED_MEM_DEVICE_CURRENT;
        options.alignment = which % 2 ? 0 : 128;
        (void)answered("view", synced_mem_view(&mem, of->mem, 0, of->size, &options), refused);
        break;
    }
    if (mem)
        fail("a failed call has made a view");
}
