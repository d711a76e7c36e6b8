/* Counts the states that the calls met. */
#include "random.h"

#include <stdio.h>

struct shared *shared;
struct machine machine;

/* With fewer calls some cells may stay without a hit. */
enum { ENOUGH_CALLS = 400000 };

static const char *const head_names[HEADS] = {"UNINITIALIZED", "AT_CPU", "AT_GPU", "SYNCED"};
static const char *const domain_names[DOMAINS] = {"host",     "no stream", "non-blocking",
                                                  "blocking", "legacy",    "per-thread"};
static const char *const flight_names[FLIGHTS] = {"idle",        "arriving",  "reading",   "write here",
                                                  "write there", "read here", "read there"};

/* The operations of an access: without a stream and on one, and the same that adopt. */
static const struct {
    const char *name;
    short code, code_on, adopt, adopt_on;
} accesses[CELL_ACCESSES] = {
    [CELL_CPU_READ] = {"cpu read", OP_CPU_READ, -1, -1, -1},
    [CELL_CPU_MUTABLE] = {"cpu mutable", OP_CPU_MUTABLE, -1, -1, -1},
    [CELL_CPU_OVERWRITE] = {"cpu overwrite", OP_CPU_OVERWRITE, -1, -1, -1},
    [CELL_GPU_READ] = {"gpu read", OP_GPU_READ, OP_GPU_READ_ON, -1, -1},
    [CELL_GPU_MUTABLE] = {"gpu mutable", OP_GPU_MUTABLE, OP_GPU_MUTABLE_ON, -1, -1},
    [CELL_GPU_OVERWRITE] = {"gpu overwrite", OP_GPU_OVERWRITE, OP_GPU_OVERWRITE_ON, -1, -1},
    [CELL_PUSH] = {"push", -1, OP_PUSH, -1, OP_PUSH_N},
    [CELL_PULL] = {"pull", -1, OP_PULL, -1, OP_PULL_N},
    [CELL_SET_CPU] = {"set cpu", OP_SET_CPU, OP_SET_CPU_ON, OP_ADOPT_CPU, OP_ADOPT_CPU_ON},
    [CELL_SET_GPU] = {"set gpu", OP_SET_GPU, OP_SET_GPU_ON, OP_ADOPT_GPU, OP_ADOPT_GPU_ON},
    [CELL_SET_BOTH] = {"set both", OP_SET_BOTH, OP_SET_BOTH_ON, OP_ADOPT_BOTH, OP_ADOPT_BOTH_ON},
    [CELL_END_USE_ON] = {"end_use_on", -1, OP_END_USE_ON, -1, -1},
    [CELL_RELEASE_CPU] = {"release cpu", OP_RELEASE_CPU, -1, -1, -1},
    [CELL_RELEASE_GPU] = {"release gpu", OP_RELEASE_GPU, -1, -1, -1},
    [CELL_RELEASE_DATA] = {"release both", OP_RELEASE_DATA, -1, -1, -1},
    [CELL_RESIZE] = {"resize", OP_RESIZE, -1, -1, -1},
    [CELL_DISCARD] = {"discard", OP_DISCARD, -1, -1, -1},
    [CELL_DESTROY] = {"destroy", OP_DESTROY, -1, -1, -1},
    [CELL_COPY] = {"copy to", -1, OP_COPY, -1, OP_COPY_N},
    [CELL_COPY_OUT] = {"copy from", -1, OP_COPY_OUT, -1, -1},
    [CELL_CPU_COPY] = {"cpu copy to", OP_CPU_COPY, -1, -1, -1},
    [CELL_CPU_COPY_OUT] = {"cpu copy from", OP_CPU_COPY_OUT, -1, -1, -1},
    [CELL_CLEAR] = {"clear", OP_CLEAR, -1, -1, -1},
};

enum domain domain_of_stream(int stream)
{
    if (stream == HOST || stream == NO_STREAM)
        return stream == HOST ? DOMAIN_HOST : DOMAIN_NO_STREAM;
    const int place = stream % PLACES;
    if (place == LEGACY)
        return DOMAIN_LEGACY;
    if (place < NONBLOCKING)
        return DOMAIN_BLOCKING;
    return place < PER_THREAD ? DOMAIN_NONBLOCKING : DOMAIN_PER_THREAD;
}

/* A call without a stream is either for the host, or device work may follow it. Returns whether it is the first. */
static bool is_for_host(enum access access)
{
    const bool gpu = access >= CELL_GPU_READ && access <= CELL_GPU_OVERWRITE;
    const bool set = access >= CELL_SET_CPU && access <= CELL_SET_BOTH;
    return !gpu && !set;
}

/* A call without a stream belongs to the host or to any stream, depending on the call. */
bool cell_of(int code, int stream, struct cell *out)
{
    for (enum access access = 0; access < CELL_ACCESSES; access++) {
        const bool plain = code == accesses[access].code || code == accesses[access].adopt;
        if (!plain && code != accesses[access].code_on && code != accesses[access].adopt_on)
            continue;
        out->access = (unsigned char)access;
        out->domain = (unsigned char)(!plain                ? domain_of_stream(stream)
                                      : is_for_host(access) ? DOMAIN_HOST
                                                            : DOMAIN_NO_STREAM);
        return true;
    }
    return false;
}

/* Sometimes adopts instead of borrowing, or names several objects instead of one. */
int code_of(enum access access, enum domain domain, uint64_t *random)
{
    const bool on = domain > DOMAIN_NO_STREAM;
    const int plain = on ? accesses[access].code_on : accesses[access].code;
    const int adopt = on ? accesses[access].adopt_on : accesses[access].adopt;
    return adopt >= 0 && random_below(random, 3) == 0 ? adopt : plain;
}

unsigned *cell_count(const struct cell *cell)
{
    return &shared->cells[cell->head][cell->access][cell->domain][cell->flight];
}

/* Returns whether there is such a call. */
bool cell_applies(const struct cell *cell)
{
    const bool on = cell->domain > DOMAIN_NO_STREAM;
    if (on ? accesses[cell->access].code_on < 0 : accesses[cell->access].code < 0)
        return false;
    if (on)
        return true;
    const bool here = cell->flight == WRITES_HERE || cell->flight == READS_HERE;
    return cell->domain == DOMAIN_HOST ? is_for_host(cell->access) && !here : !is_for_host(cell->access);
}

const char *cell_is_impossible(const struct cell *cell)
{
    if (!machine.gpu && cell->head & SYNCED_MEM_AT_GPU)
        return "no GPU has the contents";
    if (!machine.gpu && cell->flight != IDLE)
        return "no GPU has work in flight";
    if (!machine.gpu && (cell->domain == DOMAIN_BLOCKING || cell->domain == DOMAIN_NONBLOCKING))
        return "no GPU has streams";
    if (!machine.gpu && cell->domain == DOMAIN_PER_THREAD)
        return "no GPU has streams";
    if (!machine.gpu && (cell->access == CELL_SET_GPU || cell->access == CELL_SET_BOTH))
        return "no GPU has memory";
    if (!machine.gpu && cell->access == CELL_SET_CPU && cell->domain == DOMAIN_LEGACY)
        return "no GPU has streams";
    if (!machine.per_thread && cell->domain == DOMAIN_PER_THREAD)
        return "the runtime has no per-thread streams";
    return NULL;
}

/* ---- All cells, one after the other ---- */

static bool next_cell(struct cell *cell)
{
    if (++cell->flight < FLIGHTS)
        return true;
    cell->flight = 0;
    if (++cell->domain < DOMAINS)
        return true;
    cell->domain = 0;
    if (++cell->access < CELL_ACCESSES)
        return true;
    cell->access = 0;
    return ++cell->head < HEADS;
}

#define EACH_CELL(cell) (struct cell cell = {0}, *go_ = &cell; go_; go_ = next_cell(&cell) ? &cell : NULL)

bool cell_rarest(uint64_t *random, unsigned enough, struct cell *out)
{
    unsigned least = enough, found = 0;
    for
        EACH_CELL(cell)
        {
            if (!cell_applies(&cell) || cell_is_impossible(&cell) || *cell_count(&cell) > least)
                continue;
            if (*cell_count(&cell) < least) {
                least = *cell_count(&cell);
                found = 0;
            }
            if (least < enough && random_below(random, ++found) == 0)
                *out = cell;
        }
    return found > 0;
}

static void print_cell(const struct cell *cell)
{
    const char *const reason = cell_is_impossible(cell);
    (void)printf("%-13s  %-13s  %-12s  %-11s  ", head_names[cell->head], accesses[cell->access].name,
                 domain_names[cell->domain], flight_names[cell->flight]);
    if (reason)
        (void)printf("%s\n", reason);
    else
        (void)printf("%u\n", *cell_count(cell));
}

static void print_shares(void)
{
    const double calls = (double)(shared->calls ? shared->calls : 1);
    (void)printf("%lu calls, %.1f %% moved bytes or waited, %.1f %% while work was pending, %lu kernels\n",
                 shared->calls, (double)shared->active * 100 / calls,
                 (double)shared->overlapped * 100 / (double)(shared->asked ? shared->asked : 1), shared->kernels);
    (void)printf("%lu transfers were staged, %lu in several chunks, %lu calls had a batch, %lu a list\n",
                 shared->staged, shared->chunked, shared->batches, shared->lists);
}

/* Names the missing cells, if there were enough calls for all. */
bool cells_report(bool all, unsigned goal)
{
    unsigned possible = 0, impossible = 0, below = 0, least = (unsigned)-1;
    for
        EACH_CELL(cell)
        {
            if (!cell_applies(&cell))
                continue;
            const bool can_be = !cell_is_impossible(&cell);
            const unsigned count = *cell_count(&cell);
            possible += can_be;
            impossible += !can_be;
            below += can_be && count < goal;
            least = can_be && count < least ? count : least;
            if (all || (can_be && count < goal && shared->calls >= ENOUGH_CALLS))
                print_cell(&cell);
        }
    print_shares();
    (void)printf("%u cells possible, %u not; the rarest was hit %u times", possible, impossible, least);
    if (below > 0)
        (void)printf("; %u fewer than %u times", below, goal);
    (void)printf("\n");
    for (int code = 0; all && code < OP_CODES; code++)
        (void)printf("%-24s %lu\n", op_name(code), shared->by_code[code]);
    return below == 0;
}
