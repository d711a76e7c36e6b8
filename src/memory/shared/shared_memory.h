/*
 * The shared memory of one shareable object in this process: its files, the mapped control page and host memory, and
 * the participant. It is counted: the object and each of its copies hold it.
 */
#ifndef SM_SHARED_MEMORY_H
#define SM_SHARED_MEMORY_H

#include "memory/shared/share_message.h"
#include "memory/shared/turns.h"

struct sm_shared_memory {
    struct sm_share_facts facts; /* a copy of the page's constants; the page's are not read again */
    struct sm_share_files files;
    bool is_received; /* the files came from another process */
    struct sm_participant participant;
    void *host;        /* facts.host_bytes, mapped */
    atomic_int device; /* the number of the device with facts.uuid in this process; -1: not known */
    atomic_uint holders;
};

/* Makes the memory of a new object, whose maker has the turn to write. It has no device memory. The caller holds *out;
 * on failure it is NULL. Does not block. ERR_OUT_OF_HOST_MEMORY, ERR_FILE. */
synced_mem_status sm_shared_make(size_t size, size_t alignment, unsigned policy, struct sm_shared_memory **out);

/* Receives the memory of an object from the other end of a socket. The caller holds *out; on failure it is NULL. Blocks
 * until the deadline. ERR_INVALID_ARGUMENT: the socket is of no use. ERR_TIMEOUT, ERR_PEER, ERR_INVALID_STATE,
 * ERR_OUT_OF_HOST_MEMORY, ERR_FILE. */
synced_mem_status sm_shared_receive(int socket, sm_deadline deadline, struct sm_shared_memory **out);

/* Sends it to the other end. Blocks until the deadline. Errors: as above. */
synced_mem_status sm_shared_send(const struct sm_shared_memory *memory, int socket, sm_deadline deadline);

/* Adds device memory, before the memory is sent for the first time. Takes over the driver's file. */
void sm_shared_add_device(struct sm_shared_memory *memory, int file, size_t bytes,
                          const unsigned char uuid[SM_UUID_BYTES]);

void sm_shared_hold(struct sm_shared_memory *memory);
/* The last holder unmaps and closes everything. */
void sm_shared_drop(struct sm_shared_memory *memory);

#endif
