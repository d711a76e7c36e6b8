/* The other end of a socket, good or bad, and counts of what a failed call may leave behind. */
#ifndef PEER_KIT_H
#define PEER_KIT_H

#include "share_kit.h"

#include "memory/shared/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { MOST_PEER_FILES = 64 };

/* The contents of a message, as the library writes it. */
struct peer_message {
    uint64_t magic;
    uint32_t version;
    uint32_t files;
};

static const struct peer_message good_message = {.magic = 0x45524148535f4d53, .version = 1, .files = 2};

static inline int count_descriptors(void)
{
    DIR *const folder = opendir("/proc/self/fd");
    int count = 0;
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder))
        count++;
    (void)closedir(folder);
    return count;
}

/* Counts the mappings of shared memory. */
static inline int count_mappings(void)
{
    char line[512];
    int count = 0;
    FILE *const file = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "memfd:synced_mem") != NULL;
    (void)fclose(file);
    return count;
}

static inline void open_pair(int type, int ends[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
}

static inline void close_pair(int ends[2])
{
    sm_fd_close(&ends[0]);
    sm_fd_close(&ends[1]);
}

/* Sends any bytes with any descriptors. */
static inline void send_raw(int socket, const void *data, size_t size, const int *files, size_t count)
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
    ck_assert_int_eq(sendmsg(socket, &header, MSG_NOSIGNAL), (ssize_t)size);
}

/* A listening socket, and one that is connected to it. */
static inline int listen_somewhere(struct sockaddr_un *address, socklen_t *size)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "synced_mem test %d", (int)getpid());
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)address, *size), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

#endif
