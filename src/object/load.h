/* Loads: contents of records that are in a file alone are read to a side. With the object's lock. */
#ifndef SM_LOAD_H
#define SM_LOAD_H

#include "copy/file_job.h"
#include "object/object.h"
#include "stream/waits.h"

/* Finds what the host waits for before the record's contents can be read to the side: work on the memory there, and
 * writes of the bytes in the file. ERR_FORKED: the file is the parent process's. */
synced_mem_status sm_plan_load(const struct sm_record *record, enum sm_side side, struct sm_waits *waits);

/* Adds the contents to the reads, if there are bytes. The side has memory, which is idle but for the reads' stream. The
 * contents are arriving then. Errors: as sm_file_reads_add(). */
synced_mem_status sm_add_load(struct sm_record *record, enum sm_side side, struct sm_file_reads *reads);

#endif
