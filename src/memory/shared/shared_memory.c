/* Shared memory. */
#include "memory/shared/shared_memory.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static synced_mem_status create_memory(struct sm_shared_memory **out)
{
    struct sm_shared_memory *const memory = calloc(1, sizeof *memory);
    *out = memory;
    if (!memory)
        return sm_fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY, "no host memory to keep track of shared memory");
    memory->files = SM_NO_FILES;
    atomic_init(&memory->device, -1);
    atomic_init(&memory->holders, 1);
    return SYNCED_MEM_OK;
}

void sm_shared_hold(struct sm_shared_memory *memory)
{
    atomic_fetch_add_explicit(&memory->holders, 1, memory_order_relaxed);
}

void sm_shared_drop(struct sm_shared_memory *memory)
{
    if (atomic_fetch_sub(&memory->holders, 1) > 1)
        return;
    sm_participant_leave(&memory->participant);
    if (memory->participant.page) { /* so the file is known for one in memory */
        sm_sealed_unmap(memory->participant.page, SM_MEMFD_PAGE);
        sm_errand_close(memory->files.control);
        memory->files.control = -1;
    }
    if (memory->host)
        sm_sealed_unmap(memory->host, (size_t)memory->facts.host_bytes);
    if (memory->is_received)
        sm_share_files_give_up(&memory->files);
    else
        sm_share_files_close(&memory->files);
    free(memory);
}

/* Drops the memory after a failure. */
static synced_mem_status keep_unless_failed(struct sm_shared_memory **out, synced_mem_status status)
{
    if (status != SYNCED_MEM_OK && *out) {
        sm_shared_drop(*out);
        *out = NULL;
    }
    return status;
}

static synced_mem_status map_page(struct sm_shared_memory *memory)
{
    void *page;
    SM_TRY(sm_memfd_map(memory->files.control, SM_MEMFD_PAGE, SM_MEMFD_PAGE, &page));
    memory->participant.page = page;
    return SYNCED_MEM_OK;
}

static synced_mem_status map_host_and_join(struct sm_shared_memory *memory, sm_deadline deadline)
{
    SM_TRY(sm_memfd_map(memory->files.host, (size_t)memory->facts.host_bytes, (size_t)memory->facts.alignment,
                        &memory->host));
    return sm_participant_join(&memory->participant, memory->participant.page, memory->files.control, deadline);
}

/* ---- The maker ---- */

/* Nobody else has the page, so the turn comes at once. */
static synced_mem_status make_all(struct sm_shared_memory *memory)
{
    unsigned head;
    SM_TRY(sm_memfd_make(SM_MEMFD_PAGE, &memory->files.control));
    SM_TRY(sm_memfd_make((size_t)memory->facts.host_bytes, &memory->files.host));
    SM_TRY(map_page(memory));
    memory->participant.page->facts = memory->facts;
    SM_TRY(map_host_and_join(memory, UINT64_MAX));
    return sm_turn_wait(&memory->participant, true, sm_deadline_after(0), &head);
}

synced_mem_status sm_shared_make(size_t size, size_t alignment, unsigned policy, struct sm_shared_memory **out)
{
    SM_TRY(sm_memfd_probe());
    SM_TRY(create_memory(out));
    sm_share_facts_init(&(*out)->facts, size, alignment, policy);
    return keep_unless_failed(out, make_all(*out));
}

void sm_shared_add_device(struct sm_shared_memory *memory, int file, size_t bytes,
                          const unsigned char uuid[SM_UUID_BYTES])
{
    memory->files.device = file;
    memory->facts.device_bytes = bytes;
    memcpy(memory->facts.uuid, uuid, SM_UUID_BYTES);
    memory->participant.page->facts = memory->facts;
}

/* The receiver gets an open file description of the control page's file that this process does not keep. Locks that the
 * receiver takes on it end with the receiver; on a description that both have they would stay. */
synced_mem_status sm_shared_send(const struct sm_shared_memory *memory, int socket, sm_deadline deadline)
{
    struct sm_share_files files = memory->files;
    SM_TRY(sm_share_check_socket(socket));
    SM_TRY(sm_share_check_user(socket, memory->facts.policy));
    SM_TRY(sm_memfd_reopen(memory->files.control, &files.control));
    const synced_mem_status status = sm_share_send(socket, &files, deadline);
    sm_errand_close(files.control);
    return status;
}

/* ---- The receiver ---- */

/* The other process may still write the constants, so they are copied before they are checked. */
static synced_mem_status copy_facts(struct sm_shared_memory *memory)
{
    memcpy(&memory->facts, &memory->participant.page->facts, sizeof memory->facts);
    atomic_signal_fence(memory_order_seq_cst);
    SM_TRY(sm_share_facts_check(&memory->facts));
    if ((memory->facts.device_bytes > 0) == (memory->files.device >= 0))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has sent an object and not its device memory, or the "
                                        "reverse");
}

static synced_mem_status receive_all(struct sm_shared_memory *memory, int socket, sm_deadline deadline)
{
    SM_TRY(sm_share_check_socket(socket));
    SM_TRY(sm_share_receive(socket, &memory->files, deadline));
    SM_TRY(sm_memfd_check(memory->files.control, SM_MEMFD_PAGE));
    SM_TRY(map_page(memory));
    SM_TRY(copy_facts(memory));
    SM_TRY(sm_share_check_user(socket, memory->facts.policy));
    SM_TRY(sm_memfd_check(memory->files.host, (size_t)memory->facts.host_bytes));
    return map_host_and_join(memory, deadline);
}

synced_mem_status sm_shared_receive(int socket, sm_deadline deadline, struct sm_shared_memory **out)
{
    SM_TRY(sm_memfd_probe());
    SM_TRY(create_memory(out));
    (*out)->is_received = true;
    return keep_unless_failed(out, receive_all(*out, socket, deadline));
}
