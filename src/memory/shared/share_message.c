/* Descriptors over a Unix socket. */
#include "memory/shared/share_message.h"

#include "base/status.h"
#include "memory/shared/closer.h"
#include "memory/shared/memfd.h"
#include "system/file.h"
#include "system/socket.h"

#include <stdbool.h>
#include <stdint.h>

enum { VERSION = 1, LEAST_FILES = 2, MOST_FILES = SM_SOCKET_MOST_FILES };

static const uint64_t MAGIC = 0x45524148535f4d53; /* "SM_SHARE" */

struct message {
    uint64_t magic;
    uint32_t version;
    uint32_t files;
};

void sm_share_files_close(struct sm_share_files *files)
{
    sm_fd_close(&files->control);
    sm_fd_close(&files->host);
    sm_fd_close(&files->device);
}

void sm_share_files_give_up(struct sm_share_files *files)
{
    sm_closer_add(files->control);
    sm_closer_add(files->host);
    sm_closer_add(files->device);
    *files = SM_NO_FILES;
}

/* ---- The socket ---- */

synced_mem_status sm_share_check_socket(int socket)
{
    if (sm_socket_is_usable(socket))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                   "descriptor %d is not a connected Unix socket of type SOCK_STREAM or "
                   "SOCK_SEQPACKET",
                   socket);
}

synced_mem_status sm_share_check_user(int socket, unsigned policy)
{
    long user;
    if (policy == SYNCED_MEM_SHAREABLE_ANY_USER || sm_socket_is_of_same_user(socket, &user))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER,
                   "the object is for processes of one user, and the user at the other end of the "
                   "socket is another one (%ld), or unknown in this user namespace",
                   user);
}

/* Waits until the socket is ready, or for no reason. */
static synced_mem_status await_socket(int socket, bool to_send, sm_deadline deadline)
{
    const uint64_t left = sm_deadline_left(deadline);
    if (left == 0)
        return sm_fail(SYNCED_MEM_ERR_TIMEOUT, "the other process has not %s the object in time",
                       to_send ? "taken" : "sent");
    sm_socket_wait(socket, to_send, left);
    return SYNCED_MEM_OK;
}

/* Waits if the socket was not ready. Otherwise returns the failure, if it is one. */
static synced_mem_status end_call(int socket, bool to_send, struct sm_socket_result result, sm_deadline deadline)
{
    switch (result.state) {
    case SM_SOCKET_DONE:
        return SYNCED_MEM_OK;
    case SM_SOCKET_AGAIN:
        return await_socket(socket, to_send, deadline);
    case SM_SOCKET_CLOSED:
        return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has closed the socket");
    case SM_SOCKET_LOST:
        return sm_fail(SYNCED_MEM_ERR_FILE, "a descriptor from the other process was lost: this process can't have "
                                            "more");
    case SM_SOCKET_FAILED:
        break;
    }
    return sm_fail_system("the socket fails", result.error);
}

/* ---- Sending ---- */

static size_t list_files(const struct sm_share_files *files, int list[MOST_FILES])
{
    list[0] = files->control;
    list[1] = files->host;
    list[2] = files->device;
    return files->device < 0 ? LEAST_FILES : MOST_FILES;
}

synced_mem_status sm_share_send(int socket, const struct sm_share_files *files, sm_deadline deadline)
{
    int list[MOST_FILES];
    const size_t count = list_files(files, list);
    const struct message message = {.magic = MAGIC, .version = VERSION, .files = (uint32_t)count};
    for (size_t sent = 0; sent < sizeof message;) {
        const struct sm_socket_result went =
            sm_socket_send(socket, (const char *)&message + sent, sizeof message - sent, list, sent == 0 ? count : 0);
        SM_TRY(end_call(socket, true, went, deadline));
        sent += went.bytes;
    }
    return SYNCED_MEM_OK;
}

/* ---- Receiving ---- */

/* A message that is being received. */
struct incoming {
    struct message message;
    size_t bytes; /* of it that are there */
    int list[MOST_FILES];
    unsigned files; /* that came, also those that were closed because they were too many */
};

static void take_descriptor(void *receiver, int fd, bool is_file)
{
    struct incoming *const incoming = receiver;
    if (is_file && incoming->files < MOST_FILES)
        incoming->list[incoming->files] = fd;
    else
        sm_closer_add(fd);
    incoming->files += is_file;
}

static synced_mem_status receive_bytes(int socket, struct incoming *incoming, sm_deadline deadline)
{
    while (incoming->bytes < sizeof incoming->message) {
        const struct sm_socket_result came =
            sm_socket_receive(socket, (char *)&incoming->message + incoming->bytes,
                              sizeof incoming->message - incoming->bytes, take_descriptor, incoming);
        SM_TRY(end_call(socket, false, came, deadline));
        incoming->bytes += came.bytes;
    }
    return SYNCED_MEM_OK;
}

static synced_mem_status check_message(const struct incoming *incoming)
{
    const struct message *const message = &incoming->message;
    if (message->magic != MAGIC)
        return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has sent something else than an object");
    if (message->version != VERSION)
        return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has sent an object in version %u, not %d",
                       (unsigned)message->version, VERSION);
    if (incoming->files == message->files && incoming->files >= LEAST_FILES && incoming->files <= MOST_FILES)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has sent %u descriptors and named %u", incoming->files,
                   (unsigned)message->files);
}

static synced_mem_status move_file_up(int *fd)
{
    const int old = *fd;
    if (old < 0 || old > SM_STDERR)
        return SYNCED_MEM_OK;
    SM_TRY(sm_fd_copy_up(old, fd));
    sm_closer_add(old);
    return SYNCED_MEM_OK;
}

static synced_mem_status move_files_up(struct sm_share_files *files)
{
    SM_TRY(move_file_up(&files->control));
    SM_TRY(move_file_up(&files->host));
    return move_file_up(&files->device);
}

synced_mem_status sm_share_receive(int socket, struct sm_share_files *files, sm_deadline deadline)
{
    struct incoming incoming = {.list = {-1, -1, -1}};
    *files = SM_NO_FILES;
    if (!sm_closer_has_room())
        return sm_fail(SYNCED_MEM_ERR_FILE,
                       "descriptors that came from other processes are still being closed, as a call "
                       "on them does not return");
    synced_mem_status status = receive_bytes(socket, &incoming, deadline);
    if (status == SYNCED_MEM_OK)
        status = check_message(&incoming);
    *files = (struct sm_share_files){.control = incoming.list[0], .host = incoming.list[1], .device = incoming.list[2]};
    if (status == SYNCED_MEM_OK)
        status = move_files_up(files);
    if (status != SYNCED_MEM_OK)
        sm_share_files_give_up(files);
    return status;
}
