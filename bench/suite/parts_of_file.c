#include "parts_of_file.h"

#include "object.h"
#include "suite.h"
#include "synced_mem/views.h"

static synced_mem *make_for_file(size_t size)
{
    synced_mem *mem;
    if (suite.gpu)
        return make_object(size);
    must_work(synced_mem_create(&mem, size, NULL) == SYNCED_MEM_OK);
    return mem;
}

void parts_make(struct parts_of_file *parts, enum shape shape, size_t part)
{
    *parts = (struct parts_of_file){.shape = shape, .part = part};
    if (shape != OBJECTS)
        parts->whole = make_for_file(PARTS_OF_FILE * part);
    if (shape == ONE_OBJECT) {
        parts->mems[parts->count++] = parts->whole;
        return;
    }
    for (; parts->count < PARTS_OF_FILE; parts->count++)
        if (shape == VIEWS)
            must_work(synced_mem_view(&parts->mems[parts->count], parts->whole, parts->count * part, part, NULL) ==
                      SYNCED_MEM_OK);
        else
            parts->mems[parts->count] = make_for_file(part);
}

void parts_release(const struct parts_of_file *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        release_object(parts->mems[i]);
    if (parts->shape == VIEWS)
        release_object(parts->whole);
}

void parts_use_file(const struct parts_of_file *parts, synced_mem_file *file)
{
    if (parts->shape != OBJECTS) {
        must_work(synced_mem_use_file(parts->whole, file, 0) == SYNCED_MEM_OK);
        return;
    }
    for (size_t i = 0; i < parts->count; i++)
        must_work(synced_mem_use_file(parts->mems[i], file, i * parts->part) == SYNCED_MEM_OK);
}

size_t part_for(size_t most, size_t room)
{
    size_t part = most;
    while (part > room / PARTS_OF_FILE)
        part /= 2;
    return part;
}

const char *shape_name(enum shape shape)
{
    static const char *const names[] = {
        [ONE_OBJECT] = "one object", [VIEWS] = "1000 views", [OBJECTS] = "1000 objects"};
    return names[shape];
}

synced_mem_file *open_for_objects(int file)
{
    synced_mem_file *opened;
    must_work(synced_mem_file_open(&opened, file) == SYNCED_MEM_OK);
    return opened;
}
