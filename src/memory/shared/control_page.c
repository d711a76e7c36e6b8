/* The control page. A function of its own makes each store, so that tests can end a process before and after it. */
#include "memory/shared/control_page.h"

#include "base/status.h"

enum { VERSION = 3, MOST_ALIGNMENT = 2 << 20 };

static const uint64_t MAGIC = 0x4d454d5f434e5953; /* "SYNC_MEM" */
static const uint64_t MOST_SIZE = (uint64_t)PTRDIFF_MAX / 2;

/* ---- Constants ---- */

void sm_share_facts_init(struct sm_share_facts *facts, size_t size, size_t alignment, unsigned policy)
{
    const size_t pages = size / SM_MEMFD_PAGE + (size % SM_MEMFD_PAGE > 0 || size == 0);
    *facts = (struct sm_share_facts){.magic = MAGIC,
                                     .version = VERSION,
                                     .policy = policy,
                                     .size = size,
                                     .alignment = alignment,
                                     .host_bytes = pages * SM_MEMFD_PAGE};
}

static bool is_room_right(const struct sm_share_facts *facts)
{
    struct sm_share_facts expected;
    sm_share_facts_init(&expected, (size_t)facts->size, (size_t)facts->alignment, facts->policy);
    if (facts->host_bytes != expected.host_bytes)
        return false;
    return facts->device_bytes == 0 || (facts->device_bytes >= facts->size && facts->device_bytes <= MOST_SIZE &&
                                        facts->device_bytes % SM_MEMFD_PAGE == 0);
}

synced_mem_status sm_share_facts_check(const struct sm_share_facts *facts)
{
    if (facts->magic != MAGIC)
        return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has sent memory that is not an object's");
    if (facts->version != VERSION)
        return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has version %u of shareable objects, not %d",
                       (unsigned)facts->version, VERSION);
    const bool policy_right =
        facts->policy == SYNCED_MEM_SHAREABLE_SAME_USER || facts->policy == SYNCED_MEM_SHAREABLE_ANY_USER;
    const bool alignment_right = facts->alignment >= sizeof(void *) && facts->alignment <= MOST_ALIGNMENT &&
                                 (facts->alignment & (facts->alignment - 1)) == 0;
    if (policy_right && alignment_right && facts->size <= MOST_SIZE && is_room_right(facts))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "the other process has sent an object with impossible facts");
}

/* ---- Contents ---- */

enum { HEAD_MASK = (1 << SM_LOST_SHIFT) - 1 };

_Static_assert(SM_CONTENTS_END <= HEAD_MASK + 1, "a head fits into its bits");

synced_mem_status sm_contents_read(const struct sm_control_page *page, struct sm_contents *contents)
{
    const uint64_t word = atomic_load(&page->contents);
    *contents = (struct sm_contents){.head = word & HEAD_MASK,
                                     .lost = word >> SM_LOST_SHIFT & 1,
                                     .deaths = (uint16_t)(word >> SM_DEATHS_SHIFT),
                                     .version = word >> SM_VERSION_SHIFT};
    if (contents->head < SM_CONTENTS_END)
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "another process has written an impossible head, %#x", contents->head);
}

void sm_contents_store(struct sm_control_page *page, struct sm_contents contents)
{
    atomic_store(&page->contents, contents.version << SM_VERSION_SHIFT | (uint64_t)contents.deaths << SM_DEATHS_SHIFT |
                                      (uint64_t)contents.lost << SM_LOST_SHIFT | contents.head);
}

/* ---- The line ---- */

/* A participant that is out has a word of zeros, but for the incarnation, which is shifted out. Mostly all words of a
 * cache line are such, so they are tested as one. */
uint64_t sm_line_members(const struct sm_control_page *page)
{
    enum { OF_A_CACHE_LINE = 8, SHIFT = 64 - SM_INCARNATION_SHIFT };
    uint64_t members = 0;
    for (unsigned first = 0; first < SM_PARTICIPANTS; first += OF_A_CACHE_LINE) {
        const atomic_ullong *const line = &page->line[first];
        const uint64_t any = atomic_load(&line[0]) | atomic_load(&line[1]) | atomic_load(&line[2]) |
                             atomic_load(&line[3]) | atomic_load(&line[4]) | atomic_load(&line[5]) |
                             atomic_load(&line[6]) | atomic_load(&line[7]);
        for (unsigned i = 0; any << SHIFT != 0 && i < OF_A_CACHE_LINE; i++)
            if (atomic_load(&line[i]) << SHIFT != 0)
                members |= (uint64_t)1 << (first + i);
    }
    return members;
}

synced_mem_status sm_line_read(const struct sm_control_page *page, unsigned index, struct sm_line_word *place)
{
    const uint64_t word = atomic_load(&page->line[index]);
    place->kind = (enum sm_line_kind)(word & 0xff);
    place->place = word >> SM_PLACE_SHIFT & SM_MOST_PLACE;
    place->incarnation = (unsigned char)(word >> SM_INCARNATION_SHIFT);
    if (place->kind < SM_LINE_END && (place->kind == SM_LINE_OUT) == (place->place == 0))
        return SYNCED_MEM_OK;
    return sm_fail(SYNCED_MEM_ERR_PEER, "another process has written an impossible place, %#llx",
                   (unsigned long long)word);
}

void sm_line_store(struct sm_control_page *page, unsigned index, struct sm_line_word place)
{
    atomic_store(&page->line[index], (uint64_t)place.incarnation << SM_INCARNATION_SHIFT |
                                         place.place << SM_PLACE_SHIFT | (uint64_t)place.kind);
}

unsigned char sm_line_incarnation(const struct sm_control_page *page, unsigned index)
{
    return (unsigned char)(atomic_load(&page->line[index]) >> SM_INCARNATION_SHIFT);
}

/* Whoever gets the index meanwhile stores a word with the next incarnation. */
bool sm_line_take_out(struct sm_control_page *page, unsigned index, bool (*is_dead)(int fd, unsigned index), int fd)
{
    unsigned long long seen = atomic_load(&page->line[index]);
    const uint64_t out = seen >> SM_INCARNATION_SHIFT << SM_INCARNATION_SHIFT;
    return seen != out && is_dead(fd, index) && atomic_compare_exchange_strong(&page->line[index], &seen, out);
}

/* ---- The bell ---- */

void sm_bell_sleep(struct sm_control_page *page, unsigned seen, uint64_t nanoseconds)
{
    sm_sealed_wait(&page->bell, seen, nanoseconds);
}

void sm_bell_ring(struct sm_control_page *page)
{
    (void)atomic_fetch_add(&page->bell, 1);
    sm_sealed_wake(&page->bell);
}
