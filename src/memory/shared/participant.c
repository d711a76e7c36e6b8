/* Participants. */
#include "memory/shared/participant.h"

#include "base/process.h"
#include "base/status.h"
#include "system/process.h"

#include <stddef.h>
#include <stdlib.h>

static struct {
    struct sm_lock lock;
    struct sm_byte_lock *first;
} byte_locks = {.lock = SM_LOCK_INITIALIZER};

/* ---- Forks ---- */

/* In a forked child, which has no other thread. The fork has taken the list's lock, so the list is whole. A signal
 * handler may have forked while its thread was in a call. Then the call goes on here, and must not store the parent's
 * word. So memory of the child alone replaces the control page. */
static void leave_in_child(void)
{
    for (struct sm_byte_lock *each = byte_locks.first; each; each = each->next) {
        sm_fd_close(&each->fd);
        if (each->page)
            sm_sealed_replace(each->page, SM_MEMFD_PAGE);
    }
}

static __attribute__((constructor)) void watch_forks_for_participants(void)
{
    sm_watch_forks(NULL, NULL, leave_in_child);
}

/* A fork comes before or after all of this: the child must know every descriptor that has a lock. */
static synced_mem_status add_lock(struct sm_byte_lock *lock, int file)
{
    sm_lock(&byte_locks.lock);
    const synced_mem_status status = sm_memfd_reopen(file, &lock->fd);
    lock->next = byte_locks.first;
    lock->link = &byte_locks.first;
    if (byte_locks.first)
        byte_locks.first->link = &lock->next;
    byte_locks.first = lock;
    sm_unlock(&byte_locks.lock);
    return status;
}

static void remove_lock(struct sm_byte_lock *lock)
{
    sm_lock(&byte_locks.lock);
    *lock->link = lock->next;
    if (lock->next)
        lock->next->link = lock->link;
    sm_unlock(&byte_locks.lock);
}

static void set_page(struct sm_byte_lock *lock, struct sm_control_page *page)
{
    sm_lock(&byte_locks.lock);
    lock->page = page;
    sm_unlock(&byte_locks.lock);
}

/* ---- Errands ---- */

static struct sm_byte_lock *get_lock(struct sm_errand *errand)
{
    return (struct sm_byte_lock *)errand; /* its first member */
}

static void take_byte(struct sm_errand *errand)
{
    struct sm_byte_lock *const lock = get_lock(errand);
    lock->error = SM_SEALED_BUSY;
    for (lock->index = 0; lock->index < SM_PARTICIPANTS && !sm_errand_is_abandoned(errand); lock->index++) {
        lock->error = sm_sealed_lock(lock->fd, lock->index);
        if (lock->error != SM_SEALED_BUSY)
            return;
    }
}

/* A child of vfork() runs no handler of forks, and keeps the descriptor, and so may a child that is forked before the
 * close(). So the byte's lock is released first, which does not need the last descriptor. */
static void release_byte(struct sm_errand *errand)
{
    struct sm_byte_lock *const lock = get_lock(errand);
    if (lock->error == 0)
        sm_sealed_unlock(lock->fd, lock->index);
    remove_lock(lock);
    sm_fd_close(&lock->fd);
}

static void drop_lock(struct sm_byte_lock *lock)
{
    if (atomic_fetch_sub(&lock->holders, 1) == 1)
        free(lock);
}

static void free_lock(struct sm_errand *errand)
{
    drop_lock(get_lock(errand));
}

static void release_and_free(struct sm_errand *errand)
{
    release_byte(errand);
    free_lock(errand);
}

/* ---- Joining and leaving ---- */

void sm_participant_store(struct sm_participant *participant, enum sm_line_kind kind, uint64_t place)
{
    participant->mine = (struct sm_line_word){.kind = kind, .place = place, .incarnation = participant->incarnation};
    sm_line_store(participant->page, participant->index, participant->mine);
}

static synced_mem_status fail_to_lock(int error)
{
    if (error == SM_SEALED_BUSY)
        return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "%d objects have the shared memory, which is the most",
                       SM_PARTICIPANTS);
    return sm_fail_system("no byte of a file in memory can be locked", error);
}

/* The one that had the index before may have died in line, and others may sleep because of it. */
static synced_mem_status begin_in_line(struct sm_participant *participant)
{
    struct sm_contents contents;
    participant->index = participant->lock->index;
    SM_TRY(sm_contents_read(participant->page, &contents));
    participant->seen_deaths = contents.deaths;
    participant->incarnation = (unsigned char)(sm_line_incarnation(participant->page, participant->index) + 1);
    sm_participant_store(participant, SM_LINE_OUT, 0);
    sm_bell_ring(participant->page);
    return SYNCED_MEM_OK;
}

static sm_deadline be_patient(sm_deadline deadline)
{
    const sm_deadline least = sm_now() + SM_ERRAND_PATIENCE;
    return deadline > least ? deadline : least;
}

synced_mem_status sm_participant_join(struct sm_participant *participant, struct sm_control_page *page, int fd,
                                      sm_deadline deadline)
{
    struct sm_byte_lock *const lock = calloc(1, sizeof *lock);
    *participant = (struct sm_participant){.page = page};
    if (!lock)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of a lock");
    atomic_init(&lock->holders, 1);
    lock->errand = (struct sm_errand){.run = take_byte, .abandon = release_and_free};
    synced_mem_status status = add_lock(lock, fd);
    if (status == SYNCED_MEM_OK && !sm_errand_run(&lock->errand, be_patient(deadline)))
        return sm_fail(SYNCED_MEM_ERR_TIMEOUT, "another process has so many locks on the control page's file that no "
                                               "byte could be locked in time");
    participant->lock = lock;
    set_page(lock, page);
    if (status == SYNCED_MEM_OK)
        status = lock->error == 0 ? begin_in_line(participant) : fail_to_lock(lock->error);
    if (status != SYNCED_MEM_OK) {
        const struct sm_detail first = sm_detail_get();
        sm_participant_leave(participant);
        sm_detail_set(&first);
    }
    return status;
}

void sm_participant_leave(struct sm_participant *participant)
{
    struct sm_byte_lock *const lock = participant->lock;
    if (!lock)
        return;
    participant->lock = NULL;
    set_page(lock, NULL);
    if (lock->fd < 0) { /* in a forked child, or the file could not be opened */
        remove_lock(lock);
        drop_lock(lock);
        return;
    }
    lock->errand = (struct sm_errand){.run = release_byte, .abandon = free_lock};
    if (sm_errand_run(&lock->errand, be_patient(0)))
        drop_lock(lock);
}

synced_mem_status sm_participant_check_process(const struct sm_participant *participant)
{
    if (participant->lock->fd >= 0)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_FORKED, "the object's turn is the parent process's");
}

/* ---- Cleaning ---- */

static const uint64_t LONGEST_CLEANING = 100000000;

static struct sm_byte_lock *get_lock_of_cleaning(struct sm_errand *errand)
{
    return (struct sm_byte_lock *)(void *)((char *)errand - offsetof(struct sm_byte_lock, cleaning));
}

static bool clean_line(struct sm_cleaning *cleaning, unsigned mine, struct sm_control_page *page)
{
    const sm_deadline until = sm_now() + LONGEST_CLEANING;
    bool cleaned = false;
    for (unsigned i = 0; i < SM_PARTICIPANTS && (i == 0 || sm_deadline_left(until) > 0); i++) {
        const unsigned index = cleaning->next;
        cleaning->next = (index + 1) % SM_PARTICIPANTS;
        if (index != mine && (cleaning->others >> index & 1))
            cleaned = sm_line_take_out(page, index, sm_sealed_is_unlocked, cleaning->fd) || cleaned;
    }
    return cleaned;
}

static void clean(struct sm_errand *errand)
{
    struct sm_byte_lock *const lock = get_lock_of_cleaning(errand);
    void *page;
    if (sm_memfd_map(lock->cleaning.fd, SM_MEMFD_PAGE, SM_MEMFD_PAGE, &page) == SYNCED_MEM_OK) {
        if (clean_line(&lock->cleaning, lock->index, page))
            sm_bell_ring(page);
        sm_sealed_unmap(page, SM_MEMFD_PAGE);
    }
    sm_fd_close(&lock->cleaning.fd);
}

static void end_cleaning(struct sm_errand *errand)
{
    struct sm_byte_lock *const lock = get_lock_of_cleaning(errand);
    atomic_store(&lock->cleaning.is_under_way, false);
    drop_lock(lock);
}

/* Allocates no memory: a handler of a signal may fork in a wait. */
void sm_participant_clean_up(const struct sm_participant *participant, uint64_t others, sm_deadline until)
{
    struct sm_byte_lock *const lock = participant->lock;
    struct sm_cleaning *const cleaning = &lock->cleaning;
    const struct sm_detail first = sm_detail_get();
    if (atomic_load(&cleaning->is_under_way))
        return;
    if (sm_memfd_reopen(lock->fd, &cleaning->fd) == SYNCED_MEM_OK) {
        cleaning->errand = (struct sm_errand){.run = clean, .abandon = end_cleaning};
        cleaning->others = others;
        atomic_store(&cleaning->is_under_way, true);
        atomic_fetch_add(&lock->holders, 1);
        if (sm_errand_run(&cleaning->errand, until))
            end_cleaning(&cleaning->errand);
    }
    sm_detail_set(&first);
}
