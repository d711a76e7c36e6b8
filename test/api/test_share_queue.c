/*
 * A queue between processes: a ring of shareable objects, whose slots the readers have. No batch is lost, whoever is
 * slow, and whoever is killed. A batch is used at least once, and consumed once, in order.
 */
#include "processes_kit.h"

#include "base/deadline.h"

#include <time.h>

enum { MOST_BATCHES = 100000, MOST_RING = 3, READERS = 2 };

/* Memory that all processes of a test have, whatever happens to them. */
struct log {
    atomic_int stop;                          /* the loader writes no more batches */
    atomic_int last;                          /* the number of batches, once it is known; -1 before */
    atomic_int next[READERS];                 /* the batch that comes after those that were consumed */
    atomic_uchar used[READERS][MOST_BATCHES]; /* how often a reader has used the batch */
    atomic_int told;                          /* of deaths */
    atomic_int stays;                         /* the loader stays in its turn; then it is 2 */
};
static struct log *book;

static void open_log(void)
{
    book = make_common(sizeof *book);
    atomic_store(&book->last, -1);
}

static uint64_t draw(void)
{
    static uint64_t state;
    if (state == 0)
        state = sm_now() | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Most kills come in turns: these take their time. */
static bool lingers;
static void linger(void)
{
    if (lingers)
        (void)usleep((unsigned)(draw() % 1500));
}

/* A process abandons some of its turns, and tries the batch again. */
static bool abandons;
static bool abandon_at_times(synced_mem *mem)
{
    if (!abandons || draw() % 8 > 0)
        return false;
    OK(synced_mem_abandon_turn(mem));
    return true;
}

/* ---- The ring ---- */

struct ring {
    int count;
    synced_mem *mems[MOST_RING];
};

static int ring_count;

static unsigned pattern_of(int batch)
{
    return 1 + (unsigned)batch % 200;
}

/* Their first version has no batch: the slots are taken after it. */
static struct ring make_ring(int count, int readers)
{
    struct ring ring = {.count = count};
    for (int i = 0; i < count; i++) {
        ring.mems[i] = make_shareable(BYTES);
        OK(synced_mem_end_turn(ring.mems[i]));
        for (int slot = 0; slot < readers; slot++)
            OK(synced_mem_take_slot(ring.mems[i], slot, NULL));
    }
    return ring;
}

/* A reader of the ring's that was killed before is told once for each object. */
static void begin_to_read(synced_mem *mem)
{
    synced_mem_status status;
    do
        status = synced_mem_begin_turn(mem, CPU, READ, LONG_MS);
    while (status == SYNCED_MEM_ERR_OWNER_DIED);
    OK(status);
}

/* Returns whether the other end got all of it. It may have been killed. */
static bool share_ring(const struct ring *ring, int socket)
{
    bool shared = true;
    for (int i = 0; i < ring->count; i++) {
        begin_to_read(ring->mems[i]);
        const synced_mem_status status = synced_mem_share(ring->mems[i], socket, LONG_MS);
        shared = shared && status == SYNCED_MEM_OK;
        ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_PEER);
        OK(synced_mem_end_turn(ring->mems[i]));
    }
    return shared;
}

static struct ring receive_ring(int count, int socket)
{
    struct ring ring = {.count = count};
    for (int i = 0; i < count; i++)
        ring.mems[i] = receive(socket);
    return ring;
}

static void release_ring(struct ring *ring)
{
    for (int i = 0; i < ring->count; i++)
        OK(synced_mem_release(ring->mems[i]));
}

/* ---- The loader ---- */

/* The versions tell how many batches were written. */
static int count_written(const struct ring *ring)
{
    int sum = 0;
    for (int i = 0; i < ring->count; i++) {
        uint64_t version;
        OK(synced_mem_contents_version(ring->mems[i], &version));
        sum += (int)version - 1;
    }
    return sum;
}

/* Returns false if the object's readers have not consumed in time, or the turn was abandoned. */
static bool write_batch(const struct ring *ring, int batch, int timeout_ms)
{
    synced_mem *const mem = ring->mems[batch % ring->count];
    synced_mem_status status = SYNCED_MEM_ERR_OWNER_DIED;
    while (status == SYNCED_MEM_ERR_OWNER_DIED) {
        status = synced_mem_begin_consumed_turn(mem, CPU, timeout_ms);
        atomic_fetch_add(&book->told, status == SYNCED_MEM_ERR_OWNER_DIED);
    }
    if (status == SYNCED_MEM_ERR_TIMEOUT)
        return false;
    OK(status);
    host_fill(synced_mem_overwrite_cpu_data(mem), BYTES, pattern_of(batch));
    linger();
    if (abandon_at_times(mem))
        return false;
    int asked = 1;
    if (atomic_compare_exchange_strong(&book->stays, &asked, 2))
        (void)pause();
    OK(synced_mem_end_turn(mem));
    return true;
}

static void load_until_stopped(int socket)
{
    struct ring ring = receive_ring(ring_count, socket);
    int batch = count_written(&ring);
    while (!atomic_load(&book->stop) && batch < MOST_BATCHES - 1)
        batch += write_batch(&ring, batch, 100);
    atomic_store(&book->last, batch);
    release_ring(&ring);
}

/* ---- The readers ---- */

static int count_consumed(const struct ring *ring, int slot)
{
    int sum = 0;
    for (int i = 0; i < ring->count; i++) {
        uint64_t version;
        OK(synced_mem_slot_version(ring->mems[i], slot, &version));
        sum += (int)version - 1;
    }
    return sum;
}

/* On the device every third batch is copied to an object of this process, if there is a device. */
static void check_batch(synced_mem *mem, int batch)
{
    if (!gpu_expected() || batch % 3) {
        ck_assert_msg(host_is(synced_mem_cpu_data(mem), BYTES, pattern_of(batch)), "batch %d", batch);
        return;
    }
    synced_mem *const own = make_on(BYTES, 0);
    OK(synced_mem_async_gpu_copy(own, mem, NULL));
    ck_assert_msg(device_is(synced_mem_gpu_data(own), BYTES, pattern_of(batch)), "batch %d", batch);
    OK(synced_mem_release(own));
}

/* Returns false if the time is over, or the turn was abandoned. */
static bool read_batch(const struct ring *ring, int slot, int batch, int timeout_ms)
{
    synced_mem *const mem = ring->mems[batch % ring->count];
    uint64_t version;
    synced_mem_status status = SYNCED_MEM_ERR_OWNER_DIED;
    while (status == SYNCED_MEM_ERR_OWNER_DIED) {
        status = synced_mem_begin_slot_turn(mem, CPU, slot, timeout_ms);
        atomic_fetch_add(&book->told, status == SYNCED_MEM_ERR_OWNER_DIED);
    }
    if (status == SYNCED_MEM_ERR_TIMEOUT)
        return false;
    OK(status);
    OK(synced_mem_contents_version(mem, &version));
    ck_assert_uint_eq(version, (uint64_t)(batch / ring->count) + 2);
    check_batch(mem, batch);
    linger();
    if (abandon_at_times(mem))
        return false;
    atomic_fetch_add(&book->used[slot][batch], 1);
    OK(synced_mem_end_turn(mem));
    return true;
}

/* The note of the batch may be missing if this process's predecessor was killed after it had consumed. */
static void read_to_the_last(int socket, int slot, int pause_us)
{
    struct ring ring = receive_ring(ring_count, socket);
    int batch = count_consumed(&ring, slot);
    const int noted = atomic_load(&book->next[slot]);
    ck_assert_msg(batch == noted || batch == noted + 1, "batch %d, noted %d", batch, noted);
    atomic_store(&book->next[slot], batch);
    while (batch != atomic_load(&book->last)) {
        if (read_batch(&ring, slot, batch, 50))
            atomic_store(&book->next[slot], ++batch);
        if (pause_us > 0)
            (void)usleep((unsigned)pause_us);
    }
    release_ring(&ring);
}

static void check_log(int readers)
{
    const int last = atomic_load(&book->last);
    ck_assert_int_gt(last, 0);
    for (int slot = 0; slot < readers; slot++) {
        ck_assert_int_eq(atomic_load(&book->next[slot]), last);
        for (int batch = 0; batch < last; batch++)
            ck_assert_uint_ge(atomic_load(&book->used[slot][batch]), 1);
        ck_assert_uint_eq(atomic_load(&book->used[slot][last]), 0);
    }
}

/* ---- A slow reader ---- */

enum { EIGHT = 8 };

static void load_eight(int socket)
{
    struct ring ring = make_ring(1, 1);
    ck_assert(share_ring(&ring, socket));
    for (int batch = 0; batch < EIGHT; batch++)
        ck_assert(write_batch(&ring, batch, LONG_MS));
    release_ring(&ring);
}

static void read_eight_slowly(int socket)
{
    struct ring ring = receive_ring(1, socket);
    for (int batch = 0; batch < EIGHT; batch++) {
        ck_assert(read_batch(&ring, 0, batch, LONG_MS));
        (void)usleep(3000);
    }
    release_ring(&ring);
}

START_TEST(a_slow_reader_gets_each_batch_in_order)
{
    open_log();
    run_two(load_eight, read_eight_slowly);
    for (int batch = 0; batch < EIGHT; batch++)
        ck_assert_uint_eq(atomic_load(&book->used[0][batch]), 1);
}
END_TEST

/* ---- Several readers ---- */

/* The process that has the ring for the whole test. It gives it to each end of a socket that it gets. */
static int to_keeper[2];

static int receive_end(int from)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int end = -1;
    if (recvmsg(from, &header, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    ck_assert_ptr_nonnull(CMSG_FIRSTHDR(&header));
    memcpy(&end, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof end);
    return end;
}

static void keep_ring(int socket)
{
    struct ring ring = make_ring(ring_count, READERS);
    for (int end; (end = receive_end(socket)) >= 0;) {
        (void)alarm(500); /* it does not hang */
        (void)share_ring(&ring, end);
        (void)close(end);
    }
    release_ring(&ring);
}

static pid_t start_with_ring(void (*role)(int socket))
{
    int ends[2];
    ck_assert(open_pair(SOCK_STREAM, ends));
    ck_assert(send_files(to_keeper[1], "r", 1, &ends[0], 1));
    const pid_t child = start_role(role, ends, 1);
    close_pair(ends);
    return child;
}

static pid_t start_keeper(int count)
{
    ring_count = count;
    open_log();
    if (!common)
        common = make_common(sizeof *common);
    ck_assert(open_pair(SOCK_STREAM, to_keeper));
    const pid_t keeper = start_role(keep_ring, to_keeper, 0);
    (void)close(to_keeper[0]);
    to_keeper[0] = -1;
    return keeper;
}

static void end_keeper(pid_t keeper)
{
    close_pair(to_keeper);
    ck_assert_int_eq(end_child(keeper), 0);
}

static void read_fast(int socket)
{
    (void)close(to_keeper[1]);
    read_to_the_last(socket, 0, 0);
}

static void read_slowly(int socket)
{
    (void)close(to_keeper[1]);
    read_to_the_last(socket, 1, 3000);
}

static void load(int socket)
{
    (void)close(to_keeper[1]);
    load_until_stopped(socket);
}

START_TEST(each_slot_gets_each_batch)
{
    abandons = true;
    const pid_t keeper = start_keeper(1 + _i);
    const pid_t roles[] = {start_with_ring(read_fast), start_with_ring(read_slowly), start_with_ring(load)};
    for (int ms = 0; ms < LONG_MS && atomic_load(&book->next[1]) < 20; ms++)
        (void)usleep(1000);
    atomic_store(&book->stop, 1);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        ck_assert_int_eq(end_child(roles[i]), 0);
    end_keeper(keeper);
    check_log(READERS);
    for (int slot = 0; slot < READERS; slot++)
        for (int batch = 0; batch < atomic_load(&book->last); batch++)
            ck_assert_uint_eq(atomic_load(&book->used[slot][batch]), 1);
}
END_TEST

/* ---- Kills ---- */

enum { KILLS = SANITIZED ? 60 : 200, LOADER = READERS, ROLES };

static int kills_of_a_schedule(void)
{
    const int each = KILLS / gpu_schedules();
    return each < 30 ? 30 : each;
}

/* A victim that has come to its end before is none. */
static void kill_at_a_moment(pid_t *child, void (*role)(int socket))
{
    (void)usleep((unsigned)(draw() % 50000));
    ck_assert_int_eq(kill(*child, SIGKILL), 0);
    ck_assert_int_eq(end_child(*child), KILLED + SIGKILL);
    *child = start_with_ring(role);
}

static void await_value(const atomic_int *value, int wanted)
{
    for (int ms = 0; ms < LONG_MS && atomic_load(value) < wanted; ms++)
        (void)usleep(1000);
    ck_assert_int_ge(atomic_load(value), wanted);
}

/* The readers are told of it. */
static void kill_in_its_turn(pid_t *loader)
{
    atomic_store(&book->stays, 1);
    await_value(&book->stays, 2);
    ck_assert_int_eq(kill(*loader, SIGKILL), 0);
    ck_assert_int_eq(end_child(*loader), KILLED + SIGKILL);
    await_value(&book->told, 1);
    *loader = start_with_ring(load);
}

START_TEST(either_side_is_killed_at_random_moments)
{
    static void (*const roles[ROLES])(int socket) = {read_fast, read_slowly, load};
    pid_t children[ROLES];
    lingers = true;
    abandons = true;
    const pid_t keeper = start_keeper(1 + 2 * _i);
    for (int i = 0; i < ROLES; i++)
        children[i] = start_with_ring(roles[i]);
    kill_in_its_turn(&children[LOADER]);
    for (int i = 0; i < kills_of_a_schedule(); i++) {
        const int victim = (int)(draw() % ROLES);
        kill_at_a_moment(&children[victim], roles[victim]);
    }
    const int before = atomic_load(&book->next[1]); /* and they go on */
    for (int ms = 0; ms < LONG_MS && atomic_load(&book->next[1]) < before + 3; ms++)
        (void)usleep(1000);
    atomic_store(&book->stop, 1);
    for (int i = 0; i < ROLES; i++)
        ck_assert_int_eq(end_child(children[i]), 0);
    end_keeper(keeper);
    check_log(READERS);
}
END_TEST

/* ---- Growth ---- */

static uint64_t cpu_time(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Returns the time of a batch: a turn to write, and one to read for each slot. */
static uint64_t time_batch(synced_mem **mems, int count, int slots)
{
    enum { ROUNDS = SANITIZED ? 300 : 2000 };
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        const uint64_t begin = cpu_time();
        for (int round = 0; round < ROUNDS; round++) {
            synced_mem *const mem = mems[round % count];
            OK(synced_mem_begin_consumed_turn(mem, CPU, 0));
            OK(synced_mem_end_turn(mem));
            for (int slot = 0; slot < slots; slot++) {
                OK(synced_mem_begin_slot_turn(mem, CPU, slot, 0));
                OK(synced_mem_end_turn(mem));
            }
        }
        const uint64_t took = (cpu_time() - begin) / ROUNDS;
        least = took < least ? took : least;
    }
    return least;
}

static void make_many(synced_mem **mems, int count, int slots)
{
    for (int i = 0; i < count; i++) {
        mems[i] = make_shareable_of(64, SYNCED_MEM_DEVICE_CURRENT, SYNCED_MEM_SHAREABLE_SAME_USER);
        ck_assert_ptr_nonnull(synced_mem_overwrite_cpu_data(mems[i]));
        OK(synced_mem_end_turn(mems[i]));
        for (int slot = 0; slot < slots; slot++)
            OK(synced_mem_take_slot(mems[i], slot, NULL));
    }
}

/* The time of a turn depends neither on the number of slots nor on that of the objects. */
START_TEST(turns_cost_the_same_with_many)
{
    enum { MANY = 300 };
    synced_mem *few[1], *many[MANY];
    (void)gpu_start(fixture_schedule());
    make_many(few, 1, 1);
    make_many(many, MANY, SYNCED_MEM_SLOTS);
    uint64_t one_turn = 0, of_many = 0;
    for (int i = 0; i < 10 && of_many >= 8 * one_turn; i++) { /* other processes use the caches too */
        one_turn = time_batch(few, 1, 1) / 2;
        of_many = time_batch(many, MANY, SYNCED_MEM_SLOTS) / (1 + SYNCED_MEM_SLOTS);
    }
    ck_assert_msg(of_many < 8 * one_turn, "%llu ns, and %llu ns with many", (unsigned long long)one_turn,
                  (unsigned long long)of_many);
    RELEASE_EACH(few[0]);
    release_all(many, MANY);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_queue");
    TCase *const cases = add_case_in_children(suite, "share_queue");
    add_tests(cases, a_slow_reader_gets_each_batch_in_order, turns_cost_the_same_with_many);
    tcase_add_loop_test(cases, each_slot_gets_each_batch, 0, 2);
    tcase_add_loop_test(cases, either_side_is_killed_at_random_moments, 0, 2);
    return suite;
}
