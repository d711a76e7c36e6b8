/* Writes of contents to files. */
#ifndef SM_WRITE_FILE_H
#define SM_WRITE_FILE_H

#include "copy/file.h"
#include "object/object.h"

/* A call that writes the contents of count objects to a file, each at its offset. */
struct sm_write_call {
    struct synced_mem *const *mems;
    const uint64_t *offsets;
    size_t count;
    struct synced_mem_file *file;
    synced_mem_stream handle; /* in whose order contents are read from a device; SYNCED_MEM_NO_STREAM: after all work */
    bool stores; /* puts the objects into the file, once all is written; leaves out what is in its place already */
};

/* Begins the writes, with one job for all. Reads contents that are in files alone to the host. *failed: the object that
 * a failure is about; NULL: any of them. After a failure nothing is written. Blocks only for work that is queueing, to
 * obtain memory for such contents, and for earlier writes of their bytes. */
synced_mem_status sm_write_files(const struct sm_write_call *call, struct synced_mem **failed);

#endif
