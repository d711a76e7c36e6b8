/* The other end of a socket over which processes share memory. The fuzz targets use it too, so it does without
 * Check. */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_PEER_FILES = 64 };

/* The contents of a message, as the library writes it. */
struct peer_message {
    uint64_t magic;
    uint32_t version;
    uint32_t files;
};

static const struct peer_message good_message = {.magic = 0x45524148535f4d53, .version = 1, .files = 2};

/* Opens two connected sockets. Returns false if the system refuses. */
static inline bool open_pair(int type, int ends[2])
{
    return socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0;
}

/* Closes them, except those that are -1. */
static inline void close_pair(int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            (void)close(ends[i]);
        ends[i] = -1;
    }
}

/* Sends any bytes with any descriptors. Returns false if not all bytes were sent. */
static inline bool send_files(int socket, const void *data, size_t size, const int *files, size_t count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MOST_PEER_FILES * sizeof(int))] = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), files, count * sizeof(int));
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL) == (ssize_t)size;
}

#endif
