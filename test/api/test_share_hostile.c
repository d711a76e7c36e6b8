/*
 * A hostile process has the object too. It writes random words into the control page and random bytes into the memory,
 * locks bytes, and rings, while others use the object. They may get wrong bytes and errors. They get no fault, and no
 * call that goes on beyond its timeout. SYNCED_MEM_HOSTILE_SECONDS sets the time; default: 2 seconds for all schedules.
 */
#include "processes_kit.h"

#include "base/deadline.h"
#include "memory/shared/shared_memory.h"

#include <fcntl.h>
#include <sys/socket.h>

enum { TIMEOUT_MS = 15, SLACK_MS = 20000, MOST_MS = 2000 }; /* a busy machine may stop for seconds */

static uint64_t run_ns(void)
{
    const char *const asked = getenv("SYNCED_MEM_HOSTILE_SECONDS");
    const uint64_t ms = asked ? strtoull(asked, NULL, 10) * 1000 : MOST_MS / (uint64_t)gpu_schedules();
    return (ms > 300 ? ms : 300) * 1000000;
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

/* A word of the line: mostly one that has a kind and a place. */
static uint64_t draw_word(void)
{
    const uint64_t kind = draw() % 7;
    switch (draw() % 4) {
    case 0:
        return draw();
    case 1:
        return kind | (draw() % 100) << SM_PLACE_SHIFT;
    case 2:
        return kind | SM_MOST_PLACE << SM_PLACE_SHIFT;
    default:
        return 0;
    }
}

/* A slot that is free or taken, mostly with a version that may be the present one. */
static uint64_t draw_slot(void)
{
    return draw() % 3 ? (uint64_t)1 << 63 | draw() % 30 : 0;
}

static void attack(struct sm_shared_memory *memory)
{
    struct sm_control_page *const page = memory->participant.page;
    struct flock lock = {.l_whence = SEEK_SET, .l_start = (off_t)(draw() % SM_PARTICIPANTS), .l_len = 1};
    switch (draw() % 18) {
    case 0:
        atomic_store(&page->contents, draw());
        break;
    case 1:
        atomic_store(&page->contents, draw() % 5 | (draw() % 2) << SM_LOST_SHIFT | (draw() % 3) << SM_DEATHS_SHIFT |
                                          (draw() % 8 ? draw() % 20 : SM_MOST_VERSION - draw() % 2)
                                              << SM_VERSION_SHIFT);
        break;
    case 2:
    case 3:
        sm_bell_ring(page);
        break;
    case 4:
        lock.l_type = F_WRLCK;
        (void)fcntl(memory->participant.lock->fd, F_OFD_SETLK, &lock);
        break;
    case 5:
    case 6:
        lock.l_type = F_UNLCK;
        (void)fcntl(memory->participant.lock->fd, F_OFD_SETLK, &lock);
        break;
    case 7:
        memset(&page->facts, (int)draw(), sizeof page->facts);
        break;
    case 8:
        memset(memory->host, (int)draw(), BYTES);
        break;
    case 9:
        for (int i = 0; i < SM_PARTICIPANTS; i++)
            atomic_store(&page->line[i], 0);
        break;
    case 10:
        (void)fallocate(memory->files.host, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SM_MEMFD_PAGE);
        break;
    case 11:
        (void)fallocate(memory->files.control, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SM_MEMFD_PAGE);
        break;
    case 12:
        ck_assert_int_ne(ftruncate(memory->files.host, 0), 0);
        ck_assert_int_ne(ftruncate(memory->files.control, 0), 0);
        break;
    case 13:
        atomic_store(&page->slots[draw() % 3], draw() % 4 ? draw_slot() : draw());
        break;
    default:
        atomic_store(&page->line[draw() % SM_PARTICIPANTS], draw_word());
        break;
    }
}

static void be_hostile(int socket)
{
    struct sm_shared_memory *memory;
    ck_assert_int_eq(sm_shared_receive(socket, sm_deadline_after(LONG_MS), &memory), SYNCED_MEM_OK);
    await_flag(2, 1); /* later nobody could receive it */
    raise_flag(0);
    while (atomic_load(&common->flags[1]) < 2) {
        attack(memory);
        if (draw() % 64 == 0)
            (void)usleep((unsigned)(draw() % 500));
    }
    sm_shared_drop(memory);
}

/* Checks the time and the status of a call that began then. */
static bool ends_well(uint64_t begin, synced_mem_status status)
{
    ck_assert_uint_lt(sm_now() - begin, (uint64_t)(TIMEOUT_MS + SLACK_MS) * 1000000);
    ck_assert_msg(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_TIMEOUT || status == SYNCED_MEM_ERR_PEER ||
                      status == SYNCED_MEM_ERR_OWNER_DIED || status == SYNCED_MEM_ERR_INVALID_STATE,
                  "%s: %s", synced_mem_status_name(status), synced_mem_last_error_message());
    return status == SYNCED_MEM_OK;
}

static unsigned turns;

/* By any of the calls, mostly with a slot that is taken. */
static synced_mem_status begin_a_turn(synced_mem *mem, synced_mem_side side, synced_mem_turn turn)
{
    uint64_t version = 0;
    const int slot = (int)(draw() % 3);
    const synced_mem_status known = synced_mem_contents_version(mem, &version);
    ck_assert(known == SYNCED_MEM_OK || known == SYNCED_MEM_ERR_PEER);
    const synced_mem_status taken = synced_mem_take_slot(mem, slot, NULL);
    ck_assert(taken == SYNCED_MEM_OK || taken == SYNCED_MEM_ERR_PEER || taken == SYNCED_MEM_ERR_INVALID_STATE);
    if (draw() % 3 == 0)
        return synced_mem_begin_turn(mem, side, turn, TIMEOUT_MS);
    if (turn == WRITE)
        return synced_mem_begin_consumed_turn(mem, side, TIMEOUT_MS);
    if (draw() % 2)
        return synced_mem_begin_slot_turn(mem, side, slot, TIMEOUT_MS);
    return synced_mem_begin_newer_turn(mem, side, version + draw() % 3 - 1, TIMEOUT_MS);
}

static void use_among_enemies(synced_mem *mem, synced_mem *view)
{
    const synced_mem_side side = gpu_expected() && draw() % 2 ? GPU : CPU;
    const synced_mem_turn turn = draw() % 2 ? WRITE : READ;
    uint64_t begin = sm_now();
    if (!ends_well(begin, begin_a_turn(mem, side, turn)))
        return;
    turns++;
    ck_assert_ptr_nonnull(side == GPU ? synced_mem_gpu_data(mem) : synced_mem_cpu_data(mem));
    if (turn == WRITE && gpu_expected() && draw() % 2)
        gpu_fill(synced_mem_overwrite_gpu_data(mem), BYTES, 1, NULL);
    else if (turn == WRITE)
        memset(synced_mem_mutable_cpu_data(view), 1, synced_mem_size(view));
    begin = sm_now();
    ck_assert(ends_well(begin, synced_mem_end_turn(mem)));
}

static void stay_honest(synced_mem *mem)
{
    synced_mem *view;
    synced_mem *const bystander = make_at_cpu(BYTES, 3);
    OK(synced_mem_view(&view, mem, 100, 5000, NULL));
    await_flag(0, 1);
    const uint64_t end = sm_now() + run_ns();
    while (sm_now() < end)
        use_among_enemies(mem, view);
    raise_flag(1);
    ck_assert(host_is(synced_mem_cpu_data(bystander), BYTES, 3));
    ck_assert_uint_gt(turns, 0);
    RELEASE_EACH(bystander, view, mem);
}

/* Its own end of the second socket. */
static int to_hostile[2];

static void make_among_enemies(int socket)
{
    synced_mem *const mem = make_and_share(socket);
    OK(synced_mem_share(mem, to_hostile[0], LONG_MS));
    OK(synced_mem_end_turn(mem));
    stay_honest(mem);
}

static void receive_among_enemies(int socket)
{
    synced_mem *const mem = receive(socket);
    raise_flag(2);
    stay_honest(mem);
}

START_TEST(others_go_on)
{
    pid_t roles[2];
    ck_assert(open_pair(SOCK_STREAM, to_hostile));
    start_two(make_among_enemies, receive_among_enemies, roles);
    const pid_t hostile = start_role(be_hostile, to_hostile, 1);
    ck_assert_int_eq(end_child(roles[0]), 0);
    ck_assert_int_eq(end_child(roles[1]), 0);
    ck_assert_int_eq(end_child(hostile), 0);
}
END_TEST

/* ---- Leases ---- */

/* Sends a control page with a lease. The kernel grants it while no descriptor is open to write. The system waits for
 * lease-break-time, 45 s, before it lets another process open the file to write. */
static void send_leased(int socket)
{
    struct sm_shared_memory *memory;
    (void)signal(SIGIO, SIG_IGN);
    ck_assert_int_eq(sm_shared_make(BYTES, 64, SYNCED_MEM_SHAREABLE_SAME_USER, &memory), SYNCED_MEM_OK);
    sm_participant_leave(&memory->participant);
    await_threads(); /* a lease needs a file that nobody else has open */
    ck_assert_int_eq(fcntl(memory->files.control, F_SETLEASE, F_RDLCK), 0);
    ck_assert_int_eq(sm_share_send(socket, &memory->files, sm_deadline_after(LONG_MS)), SYNCED_MEM_OK);
    await_flag(0, 1);
    sm_shared_drop(memory);
}

static void receive_leased(int socket)
{
    synced_mem *mem;
    const uint64_t begin = sm_now();
    FAILS(SYNCED_MEM_ERR_PEER, synced_mem_receive(&mem, socket, LONG_MS));
    ck_assert_uint_lt(sm_now() - begin, (uint64_t)SLACK_MS * 1000000);
    ck_assert_ptr_null(mem);
    raise_flag(0);
}

START_TEST(a_lease_delays_nobody)
{
    run_two(send_leased, receive_leased);
}
END_TEST

/* ---- Locks ---- */

/* Takes the locks of all free bytes on the very descriptor that came, and dies. */
static void lock_all_and_die(int socket)
{
    struct sm_share_files files;
    ck_assert_int_eq(sm_share_receive(socket, &files, sm_deadline_after(LONG_MS)), SYNCED_MEM_OK);
    for (int i = 0; i < SM_PARTICIPANTS; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
        (void)fcntl(files.control, F_OFD_SETLK, &lock);
    }
    raise_flag(0);
    _exit(EXIT_SUCCESS);
}

/* The locks end with the process that took them. So others can join. */
static void outlive_locks(int socket)
{
    synced_mem *const mem = make_shareable(BYTES);
    OK(synced_mem_share(mem, socket, LONG_MS));
    await_flag(0, 1);
    int again[2];
    synced_mem *other = NULL;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, again), 0);
    OK(synced_mem_share(mem, again[0], LONG_MS));
    synced_mem_status status;
    const uint64_t begin = sm_now();
    do { /* the other process is about to end */
        status = synced_mem_receive(&other, again[1], LONG_MS);
        if (status != SYNCED_MEM_OK)
            OK(synced_mem_share(mem, again[0], LONG_MS));
    } while (status == SYNCED_MEM_ERR_INVALID_STATE && sm_now() - begin < UINT64_C(60000000000));
    OK(status);
    OK(synced_mem_end_turn(mem));
    OK(synced_mem_begin_turn(other, CPU, WRITE, LONG_MS));
    RELEASE_EACH(other, mem);
    (void)close(again[0]);
    (void)close(again[1]);
}

START_TEST(locks_end_with_their_process)
{
    run_two(outlive_locks, lock_all_and_die);
}
END_TEST

/* A million locks on the control page's file, which make each call on a lock slow, and a word in front for each
 * index. */
enum { MILLION = 1000000, BEYOND_MS = 100, MOST_ROUNDS = 40 };

static void lock_a_million(int socket)
{
    struct sm_share_files files;
    void *page;
    ck_assert_int_eq(sm_share_receive(socket, &files, sm_deadline_after(LONG_MS)), SYNCED_MEM_OK);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4096, .l_len = 2 * MILLION};
    ck_assert_int_eq(fcntl(files.control, F_OFD_SETLK, &lock), 0);
    for (int i = MILLION - 1; i > 0; i--) { /* cuts the lock, from its end on */
        lock = (struct flock){.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 4096 + 2 * i, .l_len = 1};
        ck_assert_int_eq(fcntl(files.control, F_OFD_SETLK, &lock), 0);
    }
    ck_assert_int_eq(sm_memfd_map(files.control, SM_MEMFD_PAGE, SM_MEMFD_PAGE, &page), SYNCED_MEM_OK);
    for (unsigned i = 1; i < SM_PARTICIPANTS; i++)
        sm_line_store(page, i, (struct sm_line_word){.kind = SM_LINE_WRITE, .place = 1});
    sm_sealed_unmap(page, SM_MEMFD_PAGE);
    raise_flag(0);
    await_flag(1, 1);
    sm_share_files_close(&files);
}

enum { SHARING, RECEIVING, ACQUIRING, RELEASING, CALLS };

static void note_time(uint64_t shortest[CALLS], int call, uint64_t *begin)
{
    const uint64_t took = sm_now() - *begin;
    shortest[call] = took < shortest[call] ? took : shortest[call];
    *begin = sm_now();
}

static bool in_time(const uint64_t shortest[CALLS], int call)
{
    return shortest[call] <= (uint64_t)(BEYOND_MS + (call == ACQUIRING ? 10 : 0)) * 1000000;
}

static void receive_in_time(synced_mem *mem, int socket, uint64_t shortest[CALLS])
{
    synced_mem *other = NULL;
    uint64_t begin = sm_now();
    synced_mem_status status = synced_mem_receive(&other, socket, 0);
    note_time(shortest, RECEIVING, &begin);
    ck_assert(status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_TIMEOUT);
    if (!other)
        OK(synced_mem_receive(&other, socket, LONG_MS));
    begin = sm_now();
    status = synced_mem_begin_turn(mem, CPU, WRITE, 10);
    note_time(shortest, ACQUIRING, &begin);
    if (status == SYNCED_MEM_OK)
        OK(synced_mem_end_turn(mem));
    else
        ck_assert_int_eq(status, SYNCED_MEM_ERR_TIMEOUT);
    begin = sm_now();
    OK(synced_mem_release(other));
    note_time(shortest, RELEASING, &begin);
}

/* Each call is tried until it was in time once, as the machine may be busy. */
static void go_on_in_time(int socket)
{
    synced_mem *const mem = make_shareable(BYTES);
    uint64_t shortest[CALLS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    int again[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, again), 0);
    OK(synced_mem_share(mem, socket, LONG_MS));
    await_flag(0, 1);
    for (int round = 0; round < MOST_ROUNDS; round++) { /* one for each time that it is received below */
        uint64_t begin = sm_now();
        OK(synced_mem_share(mem, again[0], 0));
        note_time(shortest, SHARING, &begin);
    }
    OK(synced_mem_end_turn(mem));
    for (int round = 0; round < MOST_ROUNDS; round++) {
        receive_in_time(mem, again[1], shortest);
        if (in_time(shortest, RECEIVING) && in_time(shortest, ACQUIRING) && in_time(shortest, RELEASING))
            break;
    }
    raise_flag(1);
    if (getenv("SYNCED_MEM_TEST_PRINT"))
        for (int call = 0; call < CALLS; call++)
            (void)fprintf(stderr, "call %d: %.1f ms\n", call, 1e-6 * (double)shortest[call]);
    for (int call = 0; call < CALLS; call++)
        ck_assert_msg(in_time(shortest, call), "call %d takes %.1f ms", call, 1e-6 * (double)shortest[call]);
    (void)close(again[0]);
    (void)close(again[1]);
    OK(synced_mem_release(mem));
}

START_TEST(a_million_locks_delay_nobody)
{
    if (gpu_expected()) /* nothing here is about devices, and the locks take a second and 300 MB */
        return;
    run_two(go_on_in_time, lock_a_million);
}
END_TEST

Suite *suite(void)
{
    Suite *const suite = suite_create("share_hostile");
    TCase *const cases = add_case_in_children(suite, "share_hostile");
    tcase_set_timeout(cases, 0);
    add_tests(cases, others_go_on, a_lease_delays_nobody, locks_end_with_their_process, a_million_locks_delay_nobody);
    return suite;
}
