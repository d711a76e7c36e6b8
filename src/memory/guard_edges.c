/* Pages that several guards share. */
#include "memory/guard_edges.h"

#include "base/hash.h"

#include <stdlib.h>

enum { BUCKETS = 1024 };

struct edge {
    uintptr_t page;
    size_t bytes[SM_PROTECT_ALL + 1]; /* of the guards that want at least so much */
    enum sm_protection now;
    struct edge *next;
};

static struct edge *buckets[BUCKETS];

/* The bytes of a guard on one shared page. */
struct share {
    uintptr_t page;
    size_t bytes; /* 0: none */
};

/* Fills in what the guard has on its first and its last page, unless it has a whole page to itself. */
static void find_shares(uintptr_t first, uintptr_t past, size_t page, struct share shares[2])
{
    const uintptr_t begin = first / page * page;
    const uintptr_t last = (past - 1) / page * page;
    const uintptr_t first_end = past < begin + page ? past : begin + page;
    shares[0] = (struct share){.page = begin, .bytes = first_end - first < page ? first_end - first : 0};
    shares[1] = (struct share){.page = last, .bytes = last > begin && past - last < page ? past - last : 0};
}

static struct edge **find_link(uintptr_t page)
{
    struct edge **link = &buckets[sm_hash(page) >> 54];
    while (*link && (*link)->page != page)
        link = &(*link)->next;
    return link;
}

static bool add_share(const struct share *share)
{
    struct edge **const link = find_link(share->page);
    if (!*link) {
        *link = calloc(1, sizeof **link);
        if (!*link)
            return false;
        (*link)->page = share->page;
    }
    (*link)->bytes[SM_PROTECT_NOTHING] += share->bytes;
    return true;
}

static void remove_share(const struct share *share)
{
    struct edge **const link = find_link(share->page);
    struct edge *const edge = *link;
    edge->bytes[SM_PROTECT_NOTHING] -= share->bytes;
    if (edge->bytes[SM_PROTECT_NOTHING] > 0)
        return;
    *link = edge->next;
    free(edge);
}

static bool protect_edge(struct edge *edge, size_t page)
{
    enum sm_protection wanted = SM_PROTECT_ALL;
    while (edge->bytes[wanted] < page && wanted > SM_PROTECT_NOTHING)
        wanted--;
    if (wanted == edge->now)
        return true;
    if (!sm_pages_protect((void *)edge->page, page, wanted))
        return false;
    edge->now = wanted;
    return true;
}

bool sm_edges_add(uintptr_t first, uintptr_t past, size_t page)
{
    struct share shares[2];
    find_shares(first, past, page, shares);
    if (shares[0].bytes > 0 && !add_share(&shares[0]))
        return false;
    if (shares[1].bytes == 0 || add_share(&shares[1]))
        return true;
    if (shares[0].bytes > 0)
        remove_share(&shares[0]);
    return false;
}

bool sm_edges_change(uintptr_t first, uintptr_t past, size_t page, enum sm_protection before, enum sm_protection after)
{
    struct share shares[2];
    bool done = true;
    find_shares(first, past, page, shares);
    for (int i = 0; i < 2; i++) {
        if (shares[i].bytes == 0)
            continue;
        struct edge *const edge = *find_link(shares[i].page);
        for (int level = SM_PROTECT_WRITES; level <= SM_PROTECT_ALL; level++) {
            edge->bytes[level] -= level <= (int)before ? shares[i].bytes : 0;
            edge->bytes[level] += level <= (int)after ? shares[i].bytes : 0;
        }
        done = protect_edge(edge, page) && done;
    }
    return done;
}

void sm_edges_remove(uintptr_t first, uintptr_t past, size_t page)
{
    struct share shares[2];
    find_shares(first, past, page, shares);
    for (int i = 0; i < 2; i++)
        if (shares[i].bytes > 0)
            remove_share(&shares[i]);
}
