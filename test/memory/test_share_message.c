/* Shared memory over sockets: good and bad peers. A call ends in its time, and a failure leaves nothing behind. */
#include "leftovers.h"
#include "peer.h"
#include "share_kit.h"

#include "memory/shared/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/un.h>

enum { SIZE = 10000, HOST_BYTES = 12288, SHORT_MS = 30, LONG_MS = 100000 };

static struct sm_shared_memory *make_shared(unsigned policy)
{
    struct sm_shared_memory *made;
    ck_assert_int_eq(sm_shared_make(SIZE, 64, policy, &made), SYNCED_MEM_OK);
    return made;
}

static synced_mem_status receive_in(int socket, int timeout_ms, struct sm_shared_memory **out)
{
    const uint64_t begin = sm_now();
    const synced_mem_status status = sm_shared_receive(socket, sm_deadline_after(timeout_ms), out);
    ck_assert_uint_lt(sm_now() - begin, (uint64_t)(timeout_ms + 20000) * MILLISECOND);
    return status;
}

/* Checks a failure, and that it leaves nothing. */
static void receive_fails(synced_mem_status status, int socket)
{
    struct sm_shared_memory *got;
    const int mappings = count_shared_mappings();
    ck_assert_int_eq(receive_in(socket, SHORT_MS, &got), status);
    ck_assert_ptr_null(got);
    ck_assert_int_eq(count_shared_mappings(), mappings);
}

/* Returns a socket that listens at an address of this process. */
static int listen_somewhere(struct sockaddr_un *address, socklen_t *size)
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

/* ---- Good peers ---- */

static struct {
    int ends[2];
} pair;

static int receive_and_write(void *unused)
{
    struct sm_shared_memory *got;
    unsigned head;
    (void)unused;
    if (sm_shared_receive(pair.ends[1], sm_deadline_after(5000), &got) != SYNCED_MEM_OK)
        return 1;
    if (got->facts.size != SIZE || got->facts.host_bytes != HOST_BYTES || got->files.device != -1)
        return 2;
    if (sm_turn_wait(&got->participant, true, sm_deadline_after(5000), &head) != SYNCED_MEM_OK)
        return 3;
    if (!pattern_is(got->host, SIZE, 1))
        return 4;
    pattern_write(got->host, SIZE, 2);
    sm_turn_end_write(&got->participant, SYNCED_MEM_AT_CPU);
    sm_shared_drop(got);
    return 0;
}

static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};

START_TEST(memory_is_shared)
{
    unsigned head;
    const int on = 1;
    ck_assert(open_pair(types[_i % 2], pair.ends));
    const int before = count_open_descriptors();
    if (_i >= 2)
        ck_assert_int_eq(setsockopt(pair.ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    const pid_t kid = start_child(receive_and_write, NULL);
    ck_assert_int_eq(sm_shared_send(mine, pair.ends[0], sm_deadline_after(5000)), SYNCED_MEM_OK);
    pattern_write(mine->host, SIZE, 1);
    sm_turn_end_write(&mine->participant, SYNCED_MEM_AT_CPU);
    ck_assert_int_eq(end_child(kid), 0);
    ck_assert_int_eq(sm_turn_wait(&mine->participant, false, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
    ck_assert_uint_eq(head, SYNCED_MEM_AT_CPU);
    ck_assert(pattern_is(mine->host, SIZE, 2));
    sm_shared_drop(mine);
    ck_assert_int_eq(count_open_descriptors(), before);
    ck_assert_int_eq(count_shared_mappings(), 0);
    close_pair(pair.ends);
}
END_TEST

/* The bytes behind the message are the program's. */
START_TEST(only_the_message_is_read)
{
    struct sm_shared_memory *got;
    char rest[8] = {0};
    ck_assert(open_pair(SOCK_STREAM, pair.ends));
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_ANY_USER);
    ck_assert_int_eq(sm_shared_send(mine, pair.ends[0], sm_deadline_after(0)), SYNCED_MEM_OK);
    ck_assert_int_eq(send(pair.ends[0], "and more", 8, 0), 8);
    ck_assert_int_eq(receive_in(pair.ends[1], LONG_MS, &got), SYNCED_MEM_OK);
    ck_assert_int_eq(recv(pair.ends[1], rest, sizeof rest, MSG_DONTWAIT), 8);
    ck_assert_int_eq(memcmp(rest, "and more", 8), 0);
    sm_shared_drop(got);
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

/* The maker is gone before the memory is received. */
START_TEST(memory_outlives_its_maker)
{
    struct sm_shared_memory *got;
    unsigned head;
    ck_assert(open_pair(SOCK_STREAM, pair.ends));
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    pattern_write(mine->host, SIZE, 3);
    ck_assert_int_eq(sm_shared_send(mine, pair.ends[0], sm_deadline_after(0)), SYNCED_MEM_OK);
    sm_turn_end_write(&mine->participant, SYNCED_MEM_AT_CPU);
    sm_shared_drop(mine);
    sm_fd_close(&pair.ends[0]);
    ck_assert_int_eq(receive_in(pair.ends[1], LONG_MS, &got), SYNCED_MEM_OK);
    ck_assert_int_eq(sm_turn_wait(&got->participant, false, sm_deadline_after(100000), &head), SYNCED_MEM_OK);
    ck_assert(pattern_is(got->host, SIZE, 3));
    sm_shared_drop(got);
    close_pair(pair.ends);
}
END_TEST

/* ---- Sockets ---- */

START_TEST(other_descriptors_are_no_sockets)
{
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    int fds[5];
    ck_assert(open_pair(SOCK_DGRAM, pair.ends));
    fds[0] = pair.ends[0];
    fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    fds[2] = open("/dev/null", O_RDWR);
    fds[3] = -1;
    fds[4] = 900;
    for (int i = 0; i < 5; i++) {
        receive_fails(SYNCED_MEM_ERR_INVALID_ARGUMENT, fds[i]);
        ck_assert_int_eq(sm_shared_send(mine, fds[i], sm_deadline_after(0)), SYNCED_MEM_ERR_INVALID_ARGUMENT);
    }
    (void)close(fds[1]);
    (void)close(fds[2]);
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

START_TEST(a_socket_that_is_not_connected)
{
    const unsigned policy = _i % 2 ? SYNCED_MEM_SHAREABLE_ANY_USER : SYNCED_MEM_SHAREABLE_SAME_USER;
    struct sockaddr_un address;
    socklen_t size;
    struct sm_shared_memory *const mine = make_shared(policy);
    int fds[] = {socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_UNIX, SOCK_SEQPACKET, 0),
                 listen_somewhere(&address, &size)};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(sm_shared_send(mine, fds[i], sm_deadline_after(0)), SYNCED_MEM_ERR_INVALID_ARGUMENT);
        receive_fails(SYNCED_MEM_ERR_INVALID_ARGUMENT, fds[i]);
        sm_fd_close(&fds[i]);
    }
    sm_shared_drop(mine);
}
END_TEST

START_TEST(a_full_socket)
{
    static const char bytes[4096];
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    ck_assert(open_pair(types[_i], pair.ends));
    while (send(pair.ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
    while (send(pair.ends[0], bytes, 1, MSG_DONTWAIT) > 0)
        continue;
    const uint64_t begin = sm_now();
    ck_assert_int_eq(sm_shared_send(mine, pair.ends[0], sm_deadline_after(SHORT_MS)), SYNCED_MEM_ERR_TIMEOUT);
    ck_assert_uint_ge(sm_now() - begin, SHORT_MS * MILLISECOND);
    sm_fd_close(&pair.ends[1]);
    ck_assert_int_eq(sm_shared_send(mine, pair.ends[0], sm_deadline_after(-1)), SYNCED_MEM_ERR_PEER);
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

/* ---- Users ---- */

static struct {
    struct sockaddr_un address;
    socklen_t size;
} server;

static int connect_as_another(void *unused)
{
    (void)unused;
    if (setuid(65534) != 0)
        return 1;
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&server.address, server.size) != 0)
        return 2;
    struct sm_shared_memory *got;
    const synced_mem_status status = sm_shared_receive(fd, sm_deadline_after(5000), &got);
    if (status != SYNCED_MEM_OK)
        return 10 + (int)status;
    pattern_write(got->host, SIZE, 4);
    sm_shared_drop(got);
    return 0;
}

/* Of the four: which policy, and whether the sender checks it. A sender that does not is a hostile one. */
START_TEST(another_user)
{
    const unsigned policy = _i % 2 ? SYNCED_MEM_SHAREABLE_ANY_USER : SYNCED_MEM_SHAREABLE_SAME_USER;
    const bool checked = _i < 2;
    if (geteuid() != 0)
        return; /* no process can become another user's */
    int listening = listen_somewhere(&server.address, &server.size);
    struct sm_shared_memory *const mine = make_shared(policy);
    const pid_t kid = start_child(connect_as_another, NULL);
    int fd = accept(listening, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    const synced_mem_status status = checked ? sm_shared_send(mine, fd, sm_deadline_after(1000))
                                             : sm_share_send(fd, &mine->files, sm_deadline_after(1000));
    const bool any = policy == SYNCED_MEM_SHAREABLE_ANY_USER;
    ck_assert_int_eq(status, checked && !any ? SYNCED_MEM_ERR_PEER : SYNCED_MEM_OK);
    sm_fd_close(&fd);
    ck_assert_int_eq(end_child(kid), any ? 0 : 10 + SYNCED_MEM_ERR_PEER);
    ck_assert(!any || pattern_is(mine->host, SIZE, 4));
    sm_shared_drop(mine);
    sm_fd_close(&listening);
}
END_TEST

enum { NO_NAMESPACE = 77 };

/* In a user namespace without users all users have one number. Returns the first check that fails. */
static int share_without_users(void *unused)
{
    struct sm_shared_memory *got;
    (void)unused;
    if (unshare(CLONE_NEWUSER) != 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.ends) != 0)
        return NO_NAMESPACE;
    struct sm_shared_memory *const one = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    struct sm_shared_memory *const any = make_shared(SYNCED_MEM_SHAREABLE_ANY_USER);
    if (sm_shared_send(one, pair.ends[0], sm_deadline_after(0)) != SYNCED_MEM_ERR_PEER)
        return 1;
    if (sm_shared_send(any, pair.ends[0], sm_deadline_after(0)) != SYNCED_MEM_OK)
        return 2;
    if (sm_shared_receive(pair.ends[1], sm_deadline_after(100000), &got) != SYNCED_MEM_OK)
        return 3;
    sm_shared_drop(got);
    if (sm_share_send(pair.ends[0], &one->files, sm_deadline_after(0)) != SYNCED_MEM_OK)
        return 4;
    if (sm_shared_receive(pair.ends[1], sm_deadline_after(100000), &got) != SYNCED_MEM_ERR_PEER)
        return 5;
    sm_shared_drop(one);
    sm_shared_drop(any);
    close_pair(pair.ends);
    return 0;
}

/* Outside of user namespaces that number is a user's as any other. */
static int share_as_nobody(void *unused)
{
    struct sm_shared_memory *got;
    unsigned map[3];
    FILE *const file = fopen("/proc/self/uid_map", "re");
    (void)unused;
    if (!file || fscanf(file, "%u %u %u", &map[0], &map[1], &map[2]) != 3 || map[2] != UINT32_MAX ||
        setresuid(65534, 65534, 65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
        return NO_NAMESPACE;
    (void)fclose(file);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.ends) != 0)
        return 1;
    struct sm_shared_memory *const one = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    if (sm_shared_send(one, pair.ends[0], sm_deadline_after(0)) != SYNCED_MEM_OK)
        return 2;
    if (sm_shared_receive(pair.ends[1], sm_deadline_after(100000), &got) != SYNCED_MEM_OK)
        return 3;
    sm_shared_drop(got);
    sm_shared_drop(one);
    close_pair(pair.ends);
    return 0;
}

START_TEST(nobody_shares)
{
    const int how = end_child(start_child(share_as_nobody, NULL));
    if (how == NO_NAMESPACE)
        (void)fprintf(stderr, "skipped: this process can't become another user\n");
    else
        ck_assert_int_eq(how, 0);
}
END_TEST

START_TEST(users_without_numbers)
{
    const int how = end_child(start_child(share_without_users, NULL));
    if (how == NO_NAMESPACE)
        (void)fprintf(stderr, "skipped: this process can't make a user namespace\n");
    else
        ck_assert_int_eq(how, 0);
}
END_TEST

/* ---- Bad messages ---- */

START_TEST(nothing_comes)
{
    ck_assert(open_pair(types[_i], pair.ends));
    const int before = count_open_descriptors();
    receive_fails(SYNCED_MEM_ERR_TIMEOUT, pair.ends[1]);
    ck_assert(send_files(pair.ends[0], &good_message, 3, NULL, 0));
    receive_fails(SYNCED_MEM_ERR_TIMEOUT, pair.ends[1]);
    int null = open("/dev/null", O_RDWR);
    const int own[] = {null, null};
    ck_assert(send_files(pair.ends[0], &good_message, 7, own, 2)); /* descriptors that came with a half are closed */
    receive_fails(SYNCED_MEM_ERR_TIMEOUT, pair.ends[1]);
    ck_assert_int_eq(count_open_descriptors(), before + 1);
    ck_assert(send_files(pair.ends[0], &good_message, 7, own, 2));
    sm_fd_close(&null);
    sm_fd_close(&pair.ends[0]);
    receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
    receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
    ck_assert_int_eq(count_open_descriptors(), before - 1);
    close_pair(pair.ends);
}
END_TEST

/* ---- Who closes ---- */

static struct {
    bool is_watched;
    pthread_t caller;
    int closes;       /* by the caller while it is watched */
    int socket_calls; /* setsockopt() likewise */
    bool stops;       /* other threads' calls of close() wait */
    bool no_threads;
} watch;
static atomic_bool go_on;

static bool is_watched_caller(void)
{
    return watch.is_watched && pthread_equal(pthread_self(), watch.caller);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    watch.closes += is_watched_caller();
    while (watch.stops && !pthread_equal(pthread_self(), watch.caller) && !atomic_load(&go_on))
        (void)usleep(1000);
    return __real_close(fd);
}

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    watch.socket_calls += is_watched_caller();
    return __real_setsockopt(fd, level, name, value, size);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return watch.no_threads ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

/* The last descriptor of each file is the one in the message. */
static void send_strangers(size_t count)
{
    const struct peer_message message = {good_message.magic, 1, (unsigned)count};
    int files[MOST_PEER_FILES];
    for (size_t i = 0; i < count; i++)
        files[i] = i % 2 ? open("/dev/null", O_RDWR) : socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(send_files(pair.ends[0], &message, sizeof message, files, count));
    for (size_t i = 0; i < count; i++)
        (void)__real_close(files[i]);
}

/* The receiving thread makes no call on what comes but to find out whether it is memory, and leaves the close to
 * others, which may never return from it. */
START_TEST(nobody_waits_for_a_close)
{
    static const size_t counts[] = {2, 3, 4, 60};
    ck_assert(open_pair(types[_i % 2], pair.ends));
    const int before = count_open_descriptors();
    watch.caller = pthread_self();
    watch.stops = true;
    send_strangers(counts[_i / 2]);
    watch.is_watched = true;
    receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
    watch.is_watched = false;
    ck_assert_int_eq(watch.closes, 0);
    ck_assert_int_eq(watch.socket_calls, 0);
    ck_assert(!sm_closer_is_idle());
    atomic_store(&go_on, true);
    ck_assert_int_eq(count_open_descriptors(), before);
    close_pair(pair.ends);
}
END_TEST

/* A peer whose descriptors can't be closed cannot fill the process's table of descriptors. */
START_TEST(closes_that_never_return)
{
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    struct sm_shared_memory *got = NULL;
    ck_assert(open_pair(SOCK_STREAM, pair.ends));
    const int before = count_open_descriptors();
    watch.caller = pthread_self();
    watch.stops = true;
    synced_mem_status status = SYNCED_MEM_ERR_PEER;
    for (int i = 0; i < 10 && status == SYNCED_MEM_ERR_PEER; i++) {
        send_strangers(60);
        status = receive_in(pair.ends[1], 0, &got);
    }
    ck_assert_int_eq(status, SYNCED_MEM_ERR_FILE);
    atomic_store(&go_on, true);
    (void)count_open_descriptors();
    ck_assert_int_eq(receive_in(pair.ends[1], 0, &got), SYNCED_MEM_ERR_PEER); /* what it has refused to receive */
    ck_assert_int_eq(count_open_descriptors(), before);
    ck_assert_int_eq(sm_shared_send(mine, pair.ends[0], sm_deadline_after(0)), SYNCED_MEM_OK);
    ck_assert_int_eq(receive_in(pair.ends[1], LONG_MS, &got), SYNCED_MEM_OK);
    sm_shared_drop(got);
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

/* Ends of files that wait beyond the room for them are left to the other threads that close. */
START_TEST(more_closes_than_room)
{
    enum { MANY = 70 };
    const int before = count_open_descriptors();
    watch.caller = pthread_self();
    watch.stops = true;
    for (int i = 0; i < MANY; i++)
        sm_errand_close(open("/dev/null", O_RDWR | O_CLOEXEC));
    sm_errand_close(-1);
    ck_assert(!sm_errand_none());
    ck_assert(!sm_closer_is_idle());
    atomic_store(&go_on, true);
    ck_assert_int_eq(count_open_descriptors(), before);
}
END_TEST

/* Descriptors that no thread closes wait, up to a number, for the next that come. */
START_TEST(closes_without_threads)
{
    enum { MANY = 400, ROOM = 384 };
    int fds[MANY];
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const int before = count_open_descriptors();
    watch.caller = pthread_self();
    watch.no_threads = true;
    for (int i = 0; i < MANY; i++) {
        fds[i] = open("/dev/null", O_RDWR);
        ck_assert_int_ge(fds[i], 0);
        sm_closer_add(fds[i]);
    }
    ck_assert(!sm_closer_has_room());
    watch.no_threads = false;
    sm_closer_add(open("/dev/null", O_RDWR)); /* stays open, as there is no room, but starts a thread */
    ck_assert_int_eq(count_open_descriptors(), before + MANY + 1 - ROOM);
    ck_assert(sm_closer_has_room());
}
END_TEST

/* Sends the message with so many descriptors of a good object, and more of /dev/null. */
static void send_with(const struct peer_message *message, const struct sm_shared_memory *mine, size_t count)
{
    int files[MOST_PEER_FILES];
    int more = open("/dev/null", O_RDWR);
    for (size_t i = 0; i < count; i++)
        files[i] = i == 0 ? mine->files.control : i == 1 ? mine->files.host : more;
    ck_assert(send_files(pair.ends[0], message, sizeof *message, files, count));
    sm_fd_close(&more);
}

START_TEST(malformed_messages)
{
    const struct {
        struct peer_message message;
        size_t files;
    } bad[] = {{{good_message.magic + 1, 1, 2}, 2}, {{good_message.magic, 2, 2}, 2},
               {{good_message.magic, 0, 2}, 2},     {{good_message.magic, 1, 2}, 0},
               {{good_message.magic, 1, 2}, 1},     {{good_message.magic, 1, 2}, 3},
               {{good_message.magic, 1, 3}, 2},     {{good_message.magic, 1, 3}, 3},
               {{good_message.magic, 1, 0}, 0},     {{good_message.magic, 1, 1}, 1},
               {{good_message.magic, 1, 4}, 4},     {{good_message.magic, 1, 60}, 60},
               {{good_message.magic, 1, ~0u}, 2},   {{0, 0, 0}, 0}};
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    ck_assert(open_pair(types[_i], pair.ends));
    const int before = count_open_descriptors();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        send_with(&bad[i].message, mine, bad[i].files);
        receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
        ck_assert_int_eq(count_open_descriptors(), before);
    }
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

START_TEST(descriptors_with_each_byte)
{
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    ck_assert(open_pair(SOCK_STREAM, pair.ends));
    const int before = count_open_descriptors();
    for (size_t i = 0; i < sizeof good_message; i++)
        ck_assert(send_files(pair.ends[0], (const char *)&good_message + i, 1, &mine->files.control, 1));
    receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
    ck_assert_int_eq(count_open_descriptors(), before);
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

/* A descriptor of another kind than said. */
static int open_bad_file(int kind, size_t bytes)
{
    int ends[2];
    int fd = -1;
    char path[64];
    switch (kind) {
    case 0:
        ck_assert_int_eq(pipe(ends), 0);
        (void)close(ends[1]);
        return ends[0];
    case 1:
        return open("/dev/zero", O_RDWR | O_CLOEXEC);
    case 2: /* not sealed */
        fd = memfd_create("test", MFD_ALLOW_SEALING);
        ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
        return fd;
    case 3: /* it can shrink */
        fd = memfd_create("test", MFD_ALLOW_SEALING);
        ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
        return fd;
    case 4: /* of another size */
        ck_assert_int_eq(sm_memfd_make(bytes + SM_MEMFD_PAGE, &fd), SYNCED_MEM_OK);
        return fd;
    case 5:
        ck_assert_int_eq(sm_memfd_make(0, &fd), SYNCED_MEM_OK);
        return fd;
    case 6: /* it can't be written */
        ck_assert_int_eq(sm_memfd_make(bytes, &ends[0]), SYNCED_MEM_OK);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
        fd = open(path, O_RDONLY);
        (void)close(ends[0]);
        return fd;
    case 7: /* nobody can write it */
        fd = memfd_create("test", MFD_ALLOW_SEALING);
        ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_SEAL), 0);
        return fd;
    case 8: /* of huge pages, if the system has them */
        fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_HUGETLB);
        if (fd >= 0 && ftruncate(fd, 2 << 20) == 0)
            (void)fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
        return fd >= 0 ? fd : open("/dev/null", O_RDWR);
    default:
        return open("/proc/self/exe", O_RDONLY);
    }
}

START_TEST(other_files_than_said)
{
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    ck_assert(open_pair(SOCK_STREAM, pair.ends));
    const int before = count_open_descriptors();
    int bad = open_bad_file(_i / 2, _i % 2 ? HOST_BYTES : SM_MEMFD_PAGE);
    ck_assert_int_ge(bad, 0);
    const int files[] = {_i % 2 ? mine->files.control : bad, _i % 2 ? bad : mine->files.host};
    ck_assert(send_files(pair.ends[0], &good_message, sizeof good_message, files, 2));
    sm_fd_close(&bad);
    receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
    ck_assert_int_eq(count_open_descriptors(), before);
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

/* Returns a TCP socket with bytes that nobody takes. Its last close() waits for 10 s. */
static int open_lingering(int *listening)
{
    static const char bytes[1 << 16];
    const struct linger linger = {.l_onoff = 1, .l_linger = 10};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    *listening = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(*listening, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(*listening, 1), 0);
    ck_assert_int_eq(getsockname(*listening, (struct sockaddr *)&address, &size), 0);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, size), 0);
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    return fd;
}

/* As the first descriptor, as the third, and as the fourth, which is too many. */
START_TEST(a_socket_that_lingers)
{
    const int place = _i == 0 ? 0 : _i + 1;
    const struct peer_message message = {good_message.magic, 1, _i == 0 ? 2 : (uint32_t)_i + 2};
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    int listening;
    int files[4] = {mine->files.control, mine->files.host, mine->files.host, mine->files.host};
    ck_assert(open_pair(SOCK_STREAM, pair.ends));
    files[place] = open_lingering(&listening);
    ck_assert(send_files(pair.ends[0], &message, sizeof message, files, message.files));
    (void)close(files[place]);
    receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
    (void)close(listening);
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

START_TEST(impossible_facts)
{
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    struct sm_share_facts *const facts = &mine->participant.page->facts;
    const struct sm_share_facts good = *facts;
    struct sm_share_facts bad[16];
    int count = 0;
    for (int i = 0; i < 16; i++)
        bad[i] = good;
    bad[count++].magic++;
    bad[count++].version++;
    bad[count++].policy = 0;
    bad[count++].policy = 3;
    bad[count++].size = 0;
    bad[count++].size = HOST_BYTES + 1;
    bad[count++].size = UINT64_MAX;
    bad[count++].alignment = 0;
    bad[count++].alignment = 3;
    bad[count++].alignment = 1 << 30;
    bad[count++].host_bytes = 0;
    bad[count++].host_bytes = UINT64_MAX;
    bad[count++].device_bytes = 1 << 20; /* no descriptor */
    bad[count++].device_bytes = 1;
    bad[count++].device_bytes = UINT64_MAX;
    ck_assert(open_pair(SOCK_STREAM, pair.ends));
    for (int i = 0; i < count; i++) {
        *facts = bad[i];
        send_with(&good_message, mine, 2);
        receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
    }
    *facts = good;
    atomic_store(&mine->participant.page->contents, 77);
    send_with(&good_message, mine, 2);
    receive_fails(SYNCED_MEM_ERR_PEER, pair.ends[1]);
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

/* This process can't have the descriptors. */
START_TEST(no_descriptor_is_left)
{
    struct rlimit before;
    struct rlimit little;
    struct sm_shared_memory *got;
    struct sm_shared_memory *const mine = make_shared(SYNCED_MEM_SHAREABLE_SAME_USER);
    ck_assert(open_pair(SOCK_STREAM, pair.ends));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int first = dup(0);
    (void)close(first);
    for (int room = 0; room < 3; room++) {
        ck_assert_int_eq(sm_shared_send(mine, pair.ends[0], sm_deadline_after(0)), SYNCED_MEM_OK);
        little = (struct rlimit){.rlim_cur = (rlim_t)(first + room), .rlim_max = before.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &little), 0);
        const synced_mem_status status = sm_shared_receive(pair.ends[1], sm_deadline_after(100000), &got);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        ck_assert_int_eq(status, SYNCED_MEM_ERR_FILE);
        (void)count_open_descriptors(); /* once they are closed */
        const int next = dup(0);
        ck_assert_int_eq(next, first);
        (void)close(next);
    }
    sm_shared_drop(mine);
    close_pair(pair.ends);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_message");
    TCase *const cases = add_case(suite, "share_message");
    add_tests(cases, only_the_message_is_read, memory_outlives_its_maker, other_descriptors_are_no_sockets,
              nobody_shares, users_without_numbers, descriptors_with_each_byte, closes_that_never_return,
              closes_without_threads, more_closes_than_room, impossible_facts, no_descriptor_is_left);
    tcase_add_loop_test(cases, memory_is_shared, 0, 4);
    tcase_add_loop_test(cases, a_socket_that_is_not_connected, 0, 2);
    tcase_add_loop_test(cases, a_full_socket, 0, 2);
    tcase_add_loop_test(cases, another_user, 0, 4);
    tcase_add_loop_test(cases, nothing_comes, 0, 2);
    tcase_add_loop_test(cases, malformed_messages, 0, 2);
    tcase_add_loop_test(cases, nobody_waits_for_a_close, 0, 8);
    tcase_add_loop_test(cases, other_files_than_said, 0, 20);
    tcase_add_loop_test(cases, a_socket_that_lingers, 0, 3);
    return suite;
}
