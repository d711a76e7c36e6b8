/* Participants. */
#include "memory/shared/participant.h"

#include "base/process.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static struct {
    struct sm_lock lock;
    struct sm_participant *first;
} participants = {.lock = SM_LOCK_INITIALIZER};

/* ---- Bytes ---- */

/* Takes or releases the lock of a byte. Returns whether it could. */
static bool set_byte_lock(int fd, unsigned index, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)index, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* ---- Forks ---- */

/* In a forked child, which has no other thread. The fork has taken the list's lock, so the list is whole. A signal
 * handler may have forked while its thread was in a call. Then the call goes on here, and must not store the parent's
 * word. So memory of the child alone replaces the control page. */
static void leave_in_child(void)
{
    for (struct sm_participant *each = participants.first; each; each = each->next) {
        sm_fd_close(&each->lock);
        sm_memfd_replace(each->page, SM_MEMFD_PAGE);
    }
}

static __attribute__((constructor)) void watch_forks_for_participants(void)
{
    (void)pthread_atfork(NULL, NULL, leave_in_child);
}

/* A fork comes before or after all of this: the child must know every such descriptor. */
static synced_mem_status add_participant(struct sm_participant *participant, int fd)
{
    sm_lock(&participants.lock);
    const synced_mem_status status = sm_memfd_reopen(fd, &participant->lock);
    participant->next = participants.first;
    participant->link = &participants.first;
    if (participants.first)
        participants.first->link = &participant->next;
    participants.first = participant;
    sm_unlock(&participants.lock);
    return status;
}

/* The same holds here. A child of vfork() runs no handler of forks, and keeps the descriptor. So the byte's lock is
 * released first, which does not need the last descriptor. */
static void remove_participant(struct sm_participant *participant)
{
    sm_lock(&participants.lock);
    *participant->link = participant->next;
    if (participant->next)
        participant->next->link = participant->link;
    participant->link = NULL;
    (void)set_byte_lock(participant->lock, participant->index, F_UNLCK);
    sm_fd_close(&participant->lock);
    sm_unlock(&participants.lock);
}

/* ---- Indices ---- */

void sm_participant_store(struct sm_participant *participant, enum sm_line_kind kind, uint64_t place)
{
    participant->mine = (struct sm_line_word){.kind = kind, .place = place};
    sm_line_store(participant->page, participant->index, participant->mine);
}

/* The one that had the index before may have died in line, and others may sleep because of it. */
static synced_mem_status take_index(struct sm_participant *participant)
{
    struct sm_contents contents;
    for (unsigned i = 0; i < SM_PARTICIPANTS; i++) {
        if (set_byte_lock(participant->lock, i, F_WRLCK)) {
            SM_TRY(sm_contents_read(participant->page, &contents));
            participant->index = i;
            participant->seen_deaths = contents.deaths;
            sm_participant_store(participant, SM_LINE_OUT, 0);
            sm_bell_ring(participant->page);
            return SYNCED_MEM_OK;
        }
        if (errno != EAGAIN && errno != EACCES) /* these two: another one has it */
            return sm_fail_system("no byte of a file in memory can be locked", errno);
    }
    return sm_fail(SYNCED_MEM_ERR_INVALID_STATE, "%d objects have the shared memory, which is the most",
                   SM_PARTICIPANTS);
}

synced_mem_status sm_participant_join(struct sm_participant *participant, struct sm_control_page *page, int fd)
{
    *participant = (struct sm_participant){.page = page, .lock = -1};
    synced_mem_status status = add_participant(participant, fd);
    if (status == SYNCED_MEM_OK)
        status = take_index(participant);
    if (status != SYNCED_MEM_OK)
        sm_participant_leave(participant);
    return status;
}

void sm_participant_leave(struct sm_participant *participant)
{
    if (participant->link)
        remove_participant(participant);
}

/* While this process holds the byte's lock, nobody else can take the index. */
static bool clean_up_one(const struct sm_participant *participant, unsigned index)
{
    if (!set_byte_lock(participant->lock, index, F_WRLCK))
        return false;
    sm_line_store(participant->page, index, (struct sm_line_word){.kind = SM_LINE_OUT});
    (void)set_byte_lock(participant->lock, index, F_UNLCK);
    return true;
}

bool sm_participant_clean_up(const struct sm_participant *participant, uint64_t others, sm_deadline until, unsigned *next)
{
    bool cleaned = false;
    unsigned index = *next % SM_PARTICIPANTS;
    for (unsigned i = 0; i < SM_PARTICIPANTS; i++, index = (index + 1) % SM_PARTICIPANTS) {
        if (index == participant->index || !(others >> index & 1))
            continue;
        cleaned = clean_up_one(participant, index) || cleaned;
        if (sm_deadline_left(until) == 0) {
            index++;
            break;
        }
    }
    *next = index;
    return cleaned;
}
