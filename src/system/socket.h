/*
 * Sockets by which two processes of one machine send each other files. The other process may be hostile. On a system
 * without them no socket is usable.
 */
#ifndef SM_SYSTEM_SOCKET_H
#define SM_SYSTEM_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether the descriptor is such a socket, connected, with a stream of bytes or packets. */
bool sm_socket_is_usable(int socket);

/* Returns whether the user at the other end is this process's, by a number that no other user has here. *user: the
 * number, or -1. */
bool sm_socket_is_of_same_user(int socket, long *user);

/* Waits until the socket is ready to send or to receive, at most so long, or for no reason. UINT64_MAX: any time. */
void sm_socket_wait(int socket, bool to_send, uint64_t nanoseconds);

struct sm_socket_result {
    enum {
        SM_SOCKET_DONE,   /* bytes went or came */
        SM_SOCKET_AGAIN,  /* the socket is not ready */
        SM_SOCKET_CLOSED, /* by the other process */
        SM_SOCKET_LOST,   /* a file came that this process has no room for */
        SM_SOCKET_FAILED  /* error says why, see file.h */
    } state;
    size_t bytes;
    int error;
};

enum { SM_SOCKET_MOST_FILES = 3 };

/* Sends some of the bytes, with the files at the first one. At most SM_SOCKET_MOST_FILES. Does not block. */
struct sm_socket_result sm_socket_send(int socket, const void *data, size_t bytes, const int *files, size_t count);

/* Receives at most so many bytes. Calls take() for each descriptor that came with them, which then owns it, also if the
 * result is no success. is_file: it was sent as a file; else the system has added it. Does not block. */
struct sm_socket_result sm_socket_receive(int socket, void *data, size_t bytes,
                                          void (*take)(void *receiver, int file, bool is_file), void *receiver);

#endif
