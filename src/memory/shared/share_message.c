/* Descriptors over a Unix socket. */
#include "memory/shared/share_message.h"

#include "base/status.h"
#include "memory/shared/closer.h"
#include "memory/shared/memfd.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { VERSION = 1, LEAST_FILES = 2, MOST_FILES = 3, MOST_SENT = 253 /* the system's SCM_MAX_FD */ };
enum { USUAL_OVERFLOW_UID = 65534 };

#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

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

static int get_socket_option(int socket, int option)
{
    int value = -1;
    socklen_t size = sizeof value;
    return getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

static bool is_connected(int socket)
{
    struct sockaddr_un peer;
    socklen_t size = sizeof peer;
    return getpeername(socket, (struct sockaddr *)&peer, &size) == 0;
}

synced_mem_status sm_share_check_socket(int socket)
{
    const int type = get_socket_option(socket, SO_TYPE);
    const bool of_unix = get_socket_option(socket, SO_DOMAIN) == AF_UNIX;
    if (of_unix && (type == SOCK_STREAM || type == SOCK_SEQPACKET) && is_connected(socket))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_INVALID_ARGUMENT,
                   "descriptor %d is not a connected Unix socket of type SOCK_STREAM or "
                   "SOCK_SEQPACKET",
                   socket);
}

/* Reads the first numbers of a file. Returns how many there are, up to three. */
static int read_numbers(const char *path, unsigned numbers[3])
{
    FILE *const file = fopen(path, "re");
    const int count = file ? fscanf(file, "%u %u %u", &numbers[0], &numbers[1], &numbers[2]) : 0;
    if (file)
        (void)fclose(file);
    return count;
}

/* Returns whether the number stands for all users who have none in this process's user namespace. Outside of user
 * namespaces the map has one line: all numbers stand for themselves. */
static bool is_of_unknown_users(uid_t uid)
{
    unsigned overflow[3], map[3];
    const bool read = read_numbers("/proc/sys/kernel/overflowuid", overflow) == 1;
    const bool mapped = read_numbers("/proc/self/uid_map", map) == 3;
    const bool all = mapped && map[0] == 0 && map[1] == 0 && map[2] == UINT32_MAX;
    return !all && uid == (read ? (uid_t)overflow[0] : USUAL_OVERFLOW_UID);
}

synced_mem_status sm_share_check_user(int socket, unsigned policy)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;
    if (policy == SYNCED_MEM_SHAREABLE_ANY_USER)
        return SYNCED_MEM_OK;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid() &&
        !is_of_unknown_users(peer.uid))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER,
                   "the object is for processes of one user, and the user at the other end of the "
                   "socket is another one (%ld), or unknown in this user namespace",
                   (long)peer.uid);
}

static synced_mem_status fail_closed(void)
{
    return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has closed the socket");
}

/* Returns the failure of a call on the socket. */
static synced_mem_status fail_socket(int error)
{
    if (error == EPIPE || error == ECONNRESET || error == ENOTCONN)
        return fail_closed();
    return sm_fail_system("the socket fails", error);
}

static bool is_to_be_tried_again(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* Waits until the socket is ready, or for no reason. */
static synced_mem_status await_socket(int socket, short events, sm_deadline deadline)
{
    const uint64_t left = sm_deadline_left(deadline);
    const struct timespec most = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
    struct pollfd poll = {.fd = socket, .events = events};
    if (left == 0)
        return sm_fail(SYNCED_MEM_ERR_TIMEOUT, "the other process has not %s the object in time",
                       events == POLLIN ? "sent" : "taken");
    (void)ppoll(&poll, 1, deadline == UINT64_MAX ? NULL : &most, NULL);
    return SYNCED_MEM_OK;
}

/* ---- Sending ---- */

static size_t list_files(const struct sm_share_files *files, int list[MOST_FILES])
{
    list[0] = files->control;
    list[1] = files->host;
    list[2] = files->device;
    return files->device < 0 ? LEAST_FILES : MOST_FILES;
}

/* Sends the part of the message from sent on. The descriptors go with the first byte. Returns how much went, or -1. */
static ssize_t send_once(int socket, struct message *message, size_t sent, const struct sm_share_files *files)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MOST_FILES * sizeof(int))] = {0};
    int list[MOST_FILES];
    const size_t bytes = list_files(files, list) * sizeof *list;
    struct iovec part = {.iov_base = (char *)message + sent, .iov_len = sizeof *message - sent};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (sent == 0) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(rights), list, bytes);
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

synced_mem_status sm_share_send(int socket, const struct sm_share_files *files, sm_deadline deadline)
{
    int list[MOST_FILES];
    struct message message = {.magic = MAGIC, .version = VERSION, .files = (uint32_t)list_files(files, list)};
    for (size_t sent = 0; sent < sizeof message;) {
        const ssize_t went = send_once(socket, &message, sent, files);
        if (went >= 0)
            sent += (size_t)went;
        else if (!is_to_be_tried_again(errno))
            return fail_socket(errno);
        else
            SM_TRY(await_socket(socket, POLLOUT, deadline));
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

static void keep_or_close(struct incoming *incoming, int fd)
{
    if (incoming->files < MOST_FILES)
        incoming->list[incoming->files] = fd;
    else
        sm_closer_add(fd);
    incoming->files++;
}

static void take_descriptors(struct incoming *incoming, const struct cmsghdr *part)
{
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
        if (part->cmsg_type == SCM_RIGHTS)
            keep_or_close(incoming, fd);
        else
            sm_closer_add(fd);
    }
}

/* The program may have set options by which the system adds more than descriptors of files. */
static void take_control(struct incoming *incoming, struct msghdr *header)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part))
        if (part->cmsg_level == SOL_SOCKET && (part->cmsg_type == SCM_RIGHTS || part->cmsg_type == SCM_PIDFD))
            take_descriptors(incoming, part);
}

/* Receives what is there. Returns how many bytes came, 0 at the end, or -1. *lost: descriptors were lost. */
static ssize_t receive_once(int socket, struct incoming *incoming, bool *lost)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MOST_SENT * sizeof(int)) + 512];
    struct iovec part = {.iov_base = (char *)&incoming->message + incoming->bytes,
                         .iov_len = sizeof incoming->message - incoming->bytes};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    const ssize_t came = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (came >= 0)
        take_control(incoming, &header);
    *lost = came >= 0 && (header.msg_flags & MSG_CTRUNC);
    return came;
}

static synced_mem_status receive_bytes(int socket, struct incoming *incoming, sm_deadline deadline)
{
    while (incoming->bytes < sizeof incoming->message) {
        bool lost;
        const ssize_t came = receive_once(socket, incoming, &lost);
        if (lost)
            return sm_fail(SYNCED_MEM_ERR_FILE, "a descriptor from the other process was lost: this process can't have "
                                                "more");
        if (came == 0)
            return fail_closed();
        if (came > 0)
            incoming->bytes += (size_t)came;
        else if (!is_to_be_tried_again(errno))
            return fail_socket(errno);
        else
            SM_TRY(await_socket(socket, POLLIN, deadline));
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
    if (old < 0 || old > STDERR_FILENO)
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
