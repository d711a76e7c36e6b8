/*
 * Descriptors over a Unix socket: one message of a fixed size, with the descriptors of a shareable object's files. The
 * other end may be hostile. Nothing beyond the message is read from the socket.
 */
#ifndef SM_SHARE_MESSAGE_H
#define SM_SHARE_MESSAGE_H

#include "base/deadline.h"
#include "synced_mem.h"

/* The files of a shareable object; -1: none. */
struct sm_share_files {
    int control; /* the control page */
    int host;    /* the memory of the host copy */
    int device;  /* the memory of the device copy, a file of the driver's */
};

#define SM_NO_FILES ((struct sm_share_files){.control = -1, .host = -1, .device = -1})

/* Closes all of them. They are this process's own. */
void sm_share_files_close(struct sm_share_files *files);
/* Does the same with files that came from another process, in a thread: see closer.h. */
void sm_share_files_give_up(struct sm_share_files *files);

/* Checks that the socket is a connected Unix socket with a stream of bytes or packets. ERR_INVALID_ARGUMENT. */
synced_mem_status sm_share_check_socket(int socket);

/* Checks that an object with this policy may go to, or come from, the user at the other end. In a user namespace all
 * users without a number there have one number. SAME_USER refuses it there. ERR_PEER. */
synced_mem_status sm_share_check_user(int socket, unsigned policy);

/* Sends the message. Blocks until the socket has taken it. The files stay the caller's. ERR_TIMEOUT, ERR_PEER,
 * ERR_FILE, ERR_OUT_OF_HOST_MEMORY. */
synced_mem_status sm_share_send(int socket, const struct sm_share_files *files, sm_deadline deadline);

/* Receives the message. Blocks until it is there as a whole. The caller closes the files; after a failure there are
 * none. control and host are there, device may be. No call is made on them that might block. ERR_TIMEOUT, ERR_PEER;
 * ERR_FILE: the system has no descriptor left, or too many of earlier messages can't be closed. */
synced_mem_status sm_share_receive(int socket, struct sm_share_files *files, sm_deadline deadline);

#endif
