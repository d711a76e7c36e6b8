/* No sockets that carry files. */
#include "system/socket.h"

#include <errno.h>

bool sm_socket_is_usable(int socket)
{
    (void)socket;
    return false;
}

bool sm_socket_is_of_same_user(int socket, long *user)
{
    (void)socket;
    *user = -1;
    return false;
}

void sm_socket_wait(int socket, bool to_send, uint64_t nanoseconds)
{
    (void)socket, (void)to_send, (void)nanoseconds;
}

struct sm_socket_result sm_socket_send(int socket, const void *data, size_t bytes, const int *files, size_t count)
{
    (void)socket, (void)data, (void)bytes, (void)files, (void)count;
    return (struct sm_socket_result){.state = SM_SOCKET_FAILED, .error = ENOSYS};
}

struct sm_socket_result sm_socket_receive(int socket, void *data, size_t bytes,
                                          void (*take)(void *receiver, int file, bool is_file), void *receiver)
{
    (void)socket, (void)data, (void)bytes, (void)take, (void)receiver;
    return (struct sm_socket_result){.state = SM_SOCKET_FAILED, .error = ENOSYS};
}
