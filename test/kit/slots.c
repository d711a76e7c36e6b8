/* Slots of memory, each handed out once. */
#include "slots.h"

static void *take(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    struct slots *const slots = user;
    (void)stream;
    if (size > slots->size || slots->used == SLOTS)
        return NULL;
    const unsigned i = slots->used++;
    slots->slot[i].size = size;
    slots->slot[i].alignment = alignment;
    slots->slot[i].device = device;
    return slots->memory + i * slots->size;
}

static void give(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    struct slots *const slots = user;
    const size_t i = (size_t)((char *)data - slots->memory) / slots->size;
    (void)stream;
    if (i >= slots->used || slots->slot[i].freed || slots->slot[i].size != size ||
        slots->slot[i].alignment != alignment || slots->slot[i].device != device) {
        slots->wrong = true;
        return;
    }
    slots->slot[i].freed = true;
    slots->freed++;
}

synced_mem_allocator slots_table(struct slots *slots)
{
    return (synced_mem_allocator){
        .struct_size = sizeof(synced_mem_allocator), .alloc = take, .free = give, .user = slots};
}
