/* The objects that share the bytes of a file: one, views of one, or as many objects. */
#ifndef PARTS_OF_FILE_H
#define PARTS_OF_FILE_H

#include "synced_mem.h"
#include "synced_mem/files.h"

#include <stddef.h>

enum shape { ONE_OBJECT, VIEWS, OBJECTS, SHAPES };

enum { PARTS_OF_FILE = 1000 }; /* views, or objects */

struct parts_of_file {
    enum shape shape;
    size_t part; /* bytes; the file has PARTS_OF_FILE of them */
    synced_mem *whole;
    synced_mem *mems[PARTS_OF_FILE]; /* that a call names: count of them */
    size_t count;
};

/* Makes the objects, of device 0 if there is one. */
void parts_make(struct parts_of_file *parts, enum shape shape, size_t part);
void parts_release(const struct parts_of_file *parts);
/* Puts them into the file, from its begin on. */
void parts_use_file(const struct parts_of_file *parts, synced_mem_file *file);

/* The largest part of a power of two bytes, at most so many, of which PARTS_OF_FILE fit. */
size_t part_for(size_t most, size_t room);
/* The text of a row: "1000 views". */
const char *shape_name(enum shape shape);

/* Opens the descriptor for objects. */
synced_mem_file *open_for_objects(int file);

#endif
