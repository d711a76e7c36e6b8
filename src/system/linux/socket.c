/* Sockets, by those of Unix. */
#include "system/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_RECEIVED = 253 /* the system's SCM_MAX_FD */, USUAL_OVERFLOW_UID = 65534 };

#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

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

bool sm_socket_is_usable(int socket)
{
    const int type = get_socket_option(socket, SO_TYPE);
    const bool of_unix = get_socket_option(socket, SO_DOMAIN) == AF_UNIX;
    return of_unix && (type == SOCK_STREAM || type == SOCK_SEQPACKET) && is_connected(socket);
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

bool sm_socket_is_of_same_user(int socket, long *user)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;
    const bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    *user = known ? (long)peer.uid : -1;
    return known && peer.uid == geteuid() && !is_of_unknown_users(peer.uid);
}

void sm_socket_wait(int socket, bool to_send, uint64_t nanoseconds)
{
    const struct timespec most = {.tv_sec = (time_t)(nanoseconds / 1000000000),
                                  .tv_nsec = (long)(nanoseconds % 1000000000)};
    struct pollfd poll = {.fd = socket, .events = to_send ? POLLOUT : POLLIN};
    (void)ppoll(&poll, 1, nanoseconds == UINT64_MAX ? NULL : &most, NULL);
}

static struct sm_socket_result describe_failure(int error)
{
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR)
        return (struct sm_socket_result){.state = SM_SOCKET_AGAIN};
    if (error == EPIPE || error == ECONNRESET || error == ENOTCONN)
        return (struct sm_socket_result){.state = SM_SOCKET_CLOSED};
    return (struct sm_socket_result){.state = SM_SOCKET_FAILED, .error = error};
}

static struct sm_socket_result describe_success(ssize_t bytes)
{
    return (struct sm_socket_result){.state = SM_SOCKET_DONE, .bytes = (size_t)bytes};
}

struct sm_socket_result sm_socket_send(int socket, const void *data, size_t bytes, const int *files, size_t count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(SM_SOCKET_MOST_FILES * sizeof(int))] = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(count * sizeof *files);
        struct cmsghdr *const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof *files);
        memcpy(CMSG_DATA(rights), files, count * sizeof *files);
    }
    const ssize_t went = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    return went < 0 ? describe_failure(errno) : describe_success(went);
}

/* The program may have set options by which the system adds more than descriptors of files. */
static void take_control(struct msghdr *header, void (*take)(void *receiver, int file, bool is_file), void *receiver)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        const bool has_files = part->cmsg_type == SCM_RIGHTS;
        if (part->cmsg_level != SOL_SOCKET || (!has_files && part->cmsg_type != SCM_PIDFD))
            continue;
        const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int file;
            memcpy(&file, CMSG_DATA(part) + i * sizeof file, sizeof file);
            take(receiver, file, has_files);
        }
    }
}

struct sm_socket_result sm_socket_receive(int socket, void *data, size_t bytes,
                                          void (*take)(void *receiver, int file, bool is_file), void *receiver)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MOST_RECEIVED * sizeof(int)) + 512];
    struct iovec part = {.iov_base = data, .iov_len = bytes};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    const ssize_t came = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (came < 0)
        return describe_failure(errno);
    take_control(&header, take, receiver);
    if (header.msg_flags & MSG_CTRUNC)
        return (struct sm_socket_result){.state = SM_SOCKET_LOST};
    return came == 0 ? (struct sm_socket_result){.state = SM_SOCKET_CLOSED} : describe_success(came);
}
