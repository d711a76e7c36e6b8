/*
 * A function that the unwinder of Debian's compiler asks of glibc, for programs with musl: which object has an address,
 * and where its unwind table is. test/run links this file into everything that it builds with musl-gcc.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <string.h>

/* As glibc's <dlfcn.h> has it on x86-64. */
struct dl_find_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *unwind_table;
    unsigned long long reserved[7];
};

struct search {
    uintptr_t address;
    struct dl_find_object *found;
};

static int visit(struct dl_phdr_info *object, size_t size, void *data)
{
    struct search *const search = data;
    (void)size;
    memset(search->found, 0, sizeof *search->found);
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *const part = &object->dlpi_phdr[i];
        const uintptr_t start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && search->address >= start && search->address - start < part->p_memsz) {
            search->found->map_start = (void *)start;
            search->found->map_end = (void *)(start + part->p_memsz);
        } else if (part->p_type == PT_GNU_EH_FRAME) {
            search->found->unwind_table = (void *)start;
        }
    }
    return search->found->map_start && search->found->unwind_table;
}

/* Returns 0, or -1 if no object has the address. */
int _dl_find_object(void *address, struct dl_find_object *found);
int _dl_find_object(void *address, struct dl_find_object *found)
{
    struct search search = {.address = (uintptr_t)address, .found = found};
    return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}
