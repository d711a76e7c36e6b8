/*
 * Chooses operations. A part is random. The rest steers towards states and calls with few hits. Of the calls that an
 * object's present state allows, it takes one that meets the rarest cells. Now and then it plays a way to the rarest
 * cell of all.
 */
#include "generator.h"

/* ---- Chance ---- */

uint32_t chance(struct generator *generator, uint32_t limit)
{
    return random_below(&generator->random, limit);
}

bool one_in(struct generator *generator, uint32_t n)
{
    return chance(generator, n) == 0;
}

/* The random weights. */
static const unsigned char weights[OP_CODES] = {
    [OP_CREATE] = 30,       [OP_RETAIN] = 4,        [OP_RELEASE] = 4,         [OP_DESTROY] = 4,
    [OP_SHUTDOWN] = 2,      [OP_REAP] = 4,          [OP_FACTS] = 4,           [OP_CPU_READ] = 10,
    [OP_CPU_MUTABLE] = 6,   [OP_CPU_OVERWRITE] = 6, [OP_GPU_READ] = 8,        [OP_GPU_MUTABLE] = 6,
    [OP_GPU_OVERWRITE] = 6, [OP_GPU_READ_ON] = 20,  [OP_GPU_MUTABLE_ON] = 14, [OP_GPU_OVERWRITE_ON] = 8,
    [OP_END_USE_ON] = 6,    [OP_FORGET_STREAM] = 1, [OP_RENEW_STREAM] = 2,    [OP_PUSH] = 10,
    [OP_PULL] = 10,         [OP_PUSH_N] = 8,        [OP_PULL_N] = 8,          [OP_QUERY] = 3,
    [OP_WAIT] = 2,          [OP_SET_CPU] = 2,       [OP_SET_GPU] = 2,         [OP_SET_BOTH] = 2,
    [OP_ADOPT_CPU] = 2,     [OP_ADOPT_GPU] = 2,     [OP_ADOPT_BOTH] = 2,      [OP_SET_CPU_ON] = 2,
    [OP_SET_GPU_ON] = 2,    [OP_SET_BOTH_ON] = 2,   [OP_ADOPT_CPU_ON] = 2,    [OP_ADOPT_GPU_ON] = 2,
    [OP_ADOPT_BOTH_ON] = 2, [OP_RESIZE] = 5,        [OP_DISCARD] = 2,         [OP_RELEASE_CPU] = 3,
    [OP_RELEASE_GPU] = 3,   [OP_RELEASE_DATA] = 2,  [OP_STATS] = 1,           [OP_MISTAKE] = 2,
    [OP_KERNEL_WRITE] = 12, [OP_KERNEL_READ] = 12,  [OP_KERNEL_COPY] = 8,     [OP_HOST_WRITE] = 4,
    [OP_HOST_READ] = 4,     [OP_SET_DEVICE] = 1,    [OP_SYNC_STREAM] = 1,     [OP_DELAY] = 6,
    [OP_STAGING] = 1,       [OP_HOST_TRIM] = 1,     [OP_HOST_LIMIT] = 1,      [OP_HOST_DECAY] = 1,
    [OP_HOST_RESERVE] = 1,  [OP_GPU_TRIM] = 1,      [OP_GPU_REUSE] = 1,       [OP_GPU_THRESHOLD] = 1,
    [OP_GPU_SPARE] = 1,     [OP_GPU_PEER] = 1,      [OP_POOL_STATS] = 1,      [OP_FALLBACK] = 1,
    [OP_ALLOCATORS] = 1,    [OP_FAILING] = 12,      [OP_COPY] = 10,           [OP_COPY_OUT] = 4,
    [OP_COPY_N] = 4,        [OP_CPU_COPY] = 4,      [OP_CPU_COPY_OUT] = 2,    [OP_CLEAR] = 2,
    [OP_USE_FILE] = 8,      [OP_WRITE_FILE] = 4,
};

static bool is_excluded(const struct generator *generator, int code)
{
    return (generator->excluded[code / 64] >> (code % 64) & 1) != 0;
}

static int code_by_chance(struct generator *generator)
{
    uint32_t total = 0;
    for (int code = 0; code < OP_CODES; code++)
        total += weights[code];
    uint32_t left = chance(generator, total);
    int code = 0;
    while (left >= weights[code])
        left -= weights[code++];
    return code;
}

static bool creates(int code)
{
    return code >= OP_CREATE && code <= OP_CREATE_SHARED;
}

static int create_by_chance(struct generator *generator)
{
    static const unsigned char codes[] = {OP_CREATE,           OP_CREATE,           OP_CREATE,
                                          OP_CREATE,           OP_CREATE_ALLOCATED, OP_CREATE_ALLOCATED,
                                          OP_CREATE_ALLOCATED, OP_CREATE_SHARED,    OP_IMPORT};
    const int code = codes[chance(generator, sizeof codes)];
    return is_excluded(generator, code) ? OP_CREATE : code;
}

/* Mostly small, as comparisons take much of the time. Rarely as large as the caller's memory, a whole page, which debug
 * mode can protect. More rarely larger. */
static uint32_t size_by_chance(struct generator *generator)
{
    const uint32_t kind = chance(generator, 128);
    if (kind < 6)
        return 0;
    if (kind < 12)
        return 1 + chance(generator, 8);
    if (kind < 120)
        return 16 + chance(generator, 200);
    if (kind < 126)
        return kind < 123 ? 1000 + chance(generator, 3000) : BLOCK_SIZE;
    return chance(generator, MAX_SIZE + 1);
}

int place_of(struct generator *generator, enum domain domain)
{
    switch (domain) {
    case DOMAIN_NONBLOCKING:
        return NONBLOCKING + (int)chance(generator, 2);
    case DOMAIN_BLOCKING:
        return BLOCKING + (int)chance(generator, 2);
    case DOMAIN_PER_THREAD:
        return PER_THREAD;
    case DOMAIN_HOST:
    case DOMAIN_NO_STREAM:
    case DOMAIN_LEGACY:
    case DOMAINS:
        break;
    }
    return LEGACY;
}

/* Mostly a stream of the object's device. */
static int stream_by_chance(struct generator *generator, const struct object *object, enum domain domain)
{
    const int own = object->mem ? device_for(object) : world.current[generator->thread];
    const int device = machine.devices > 1 && one_in(generator, 60) ? (own + 1) % machine.devices : own;
    return device * PLACES + place_of(generator, domain);
}

enum domain domain_by_chance(struct generator *generator)
{
    const unsigned kinds = machine.per_thread ? 4 : 3;
    return machine.gpu ? (enum domain)(DOMAIN_NONBLOCKING + chance(generator, kinds)) : DOMAIN_LEGACY;
}

/* ---- The queue ---- */

void enqueue(struct generator *generator, int code, int stream, uint32_t a, uint32_t b)
{
    const int capacity = (int)(sizeof generator->queue / sizeof *generator->queue);
    if (generator->queued == capacity || is_excluded(generator, code))
        return;
    generator->queue[generator->queued++] = (struct op){.code = (unsigned char)code,
                                                        .object = (unsigned char)generator->object,
                                                        .stream = (unsigned char)stream,
                                                        .thread = (unsigned char)generator->thread,
                                                        .a = a,
                                                        .b = b};
}

/* Returns the stream for a pointer requested without a stream. */
static int loose_stream(struct generator *generator, int stream)
{
    const unsigned kinds = machine.per_thread ? 3 : 2;
    return stream - stream % PLACES + place_of(generator, (enum domain)(DOMAIN_BLOCKING + chance(generator, kinds)));
}

/* Copies from another object, whose pointer is requested on the stream first. */
static void enqueue_copy(struct generator *generator, int stream)
{
    const int to = generator->object;
    const uint32_t from = ((uint32_t)to + 1 + chance(generator, OBJECTS - 1)) % OBJECTS;
    generator->object = (int)from;
    enqueue(generator, OP_GPU_READ_ON, stream, 0, 0);
    generator->object = to;
    enqueue(generator, OP_KERNEL_COPY, stream, from, 0);
}

/* The host reads what the stream has written. If the stream had a pointer to read before, it goes on to read. */
static void enqueue_read_on(struct generator *generator, int stream)
{
    enqueue(generator, OP_CPU_READ, stream, 0, 0);
    enqueue(generator, OP_DELAY, stream, 0, 0);
    enqueue(generator, OP_KERNEL_READ, stream, 0, 0);
}

/* Uses the pointer that the call returns. Most calls have such a use at once. */
void enqueue_use(struct generator *generator, int code, int stream)
{
    const uint32_t pattern = chance(generator, 250);
    const uint32_t part = one_in(generator, 3) ? 0 : random_next(&generator->random);
    if (code == OP_GPU_READ || code == OP_GPU_MUTABLE || code == OP_GPU_OVERWRITE)
        stream = loose_stream(generator, stream);
    if (code >= OP_GPU_READ && code <= OP_GPU_OVERWRITE_ON && one_in(generator, 16))
        enqueue(generator, OP_DELAY, stream, 0, 0);
    switch (code) {
    case OP_CPU_READ:
        if (one_in(generator, 4))
            enqueue(generator, OP_HOST_READ, stream, 0, 0);
        break;
    case OP_CPU_OVERWRITE:
        enqueue(generator, OP_HOST_WRITE, stream, pattern, 0);
        break;
    case OP_CPU_MUTABLE:
        enqueue(generator, OP_HOST_WRITE, stream, pattern, part);
        break;
    case OP_GPU_READ:
    case OP_GPU_READ_ON:
        enqueue(generator, OP_KERNEL_READ, stream, 0, 0);
        break;
    case OP_GPU_MUTABLE:
    case OP_GPU_MUTABLE_ON:
        if (one_in(generator, 4))
            enqueue_copy(generator, stream);
        enqueue(generator, OP_KERNEL_WRITE, stream, pattern, part);
        break;
    case OP_GPU_OVERWRITE:
    case OP_GPU_OVERWRITE_ON:
        enqueue(generator, OP_KERNEL_WRITE, stream, pattern, 0);
        if (one_in(generator, 8))
            enqueue_read_on(generator, stream);
        break;
    default:
        break;
    }
}

/* Other objects page-lock the object's host memory, or parts of it. One of them is mostly released while a transfer of
 * the object's may be pending. If such objects are excluded, the sequence is the same as without this function. */
static void enqueue_sharers(struct generator *generator, int stream)
{
    const uint32_t first = random_next(&generator->random);
    const bool pulls = one_in(generator, 2);
    enqueue(generator, OP_SHARE, stream, first, random_next(&generator->random));
    if (one_in(generator, 2))
        enqueue(generator, OP_SHARE, stream, first + 1, random_next(&generator->random));
    enqueue(generator, OP_DELAY, stream, 0, 0);
    if (pulls) {
        enqueue(generator, OP_GPU_MUTABLE_ON, stream, 0, 0);
        enqueue(generator, OP_KERNEL_WRITE, stream, chance(generator, 250), 0);
    }
    enqueue(generator, pulls ? OP_PULL : OP_PUSH, stream, 0, 0);
    if (!one_in(generator, 4))
        enqueue(generator, OP_SHARE, stream, first, 0);
}

static bool hands_in_host_memory(int code)
{
    return code >= OP_SET_CPU && code <= OP_ADOPT_BOTH_ON && (code - OP_SET_CPU) % 3 != 1;
}

static bool is_copy(int code)
{
    return code >= OP_COPY && code <= OP_CPU_COPY_OUT;
}

/* An object in parts makes parts of the other. So objects that never have views are mostly copied among themselves. */
static uint32_t pick_partner(struct generator *generator)
{
    const int object = generator->object;
    const bool plain = object < PLAIN || one_in(generator, 24);
    const uint32_t first = plain ? 0 : PLAIN, others = plain ? PLAIN : OBJECTS - PLAIN;
    uint32_t other = first + ((uint32_t)object - first + 1 + chance(generator, others - 1)) % others, count = 0;
    for (uint32_t i = PLAIN; i < OBJECTS && !plain; i++)
        if ((int)i != object && world.objects[i].mem && world.objects[i].size == world.objects[object].size &&
            chance(generator, ++count) == 0)
            other = i;
    return other;
}

/* The other object of a copy has the same size, and mostly contents of its own. */
static uint32_t enqueue_partner(struct generator *generator, int stream)
{
    const int object = generator->object;
    const uint32_t other = pick_partner(generator);
    const uint32_t size = (uint32_t)world.objects[object].size;
    generator->object = (int)other;
    if (!world.objects[other].mem && other >= FIRST_VIEW)
        enqueue_view_of_size(generator, size);
    else if (!world.objects[other].mem)
        enqueue(generator, OP_CREATE, stream, size, random_next(&generator->random));
    else if (world.objects[other].size != size)
        enqueue(generator, one_in(generator, 2) ? OP_RESIZE : OP_DISCARD, stream, size, 0);
    if (one_in(generator, 2)) {
        const int code = one_in(generator, 2) ? OP_CPU_OVERWRITE : OP_GPU_OVERWRITE_ON;
        enqueue(generator, code, stream, 0, 0);
        enqueue_use(generator, code, stream);
    }
    generator->object = object;
    return other;
}

/* The contents are read at once on the same stream, or by the host. */
static void enqueue_read(struct generator *generator, int code, int stream, uint32_t other)
{
    const int object = generator->object;
    if (code == OP_COPY_OUT || code == OP_CPU_COPY_OUT)
        generator->object = (int)other;
    const int read = one_in(generator, 2) ? OP_CPU_READ : OP_GPU_READ_ON;
    enqueue(generator, read, stream, 0, 0);
    if (read == OP_GPU_READ_ON)
        enqueue(generator, OP_KERNEL_READ, stream, 0, 0);
    generator->object = object;
}

static void enqueue_copy_call(struct generator *generator, int code, int stream)
{
    const uint32_t other = enqueue_partner(generator, stream);
    const uint32_t more = random_next(&generator->random) & ~7u;
    enqueue(generator, code, stream, code == OP_COPY_N ? more * OBJECTS + other : other,
            random_next(&generator->random));
    if (one_in(generator, 2))
        enqueue_read(generator, code, stream, other);
}

/* Writes some other objects of the same device where a push or a pull finds their contents. Returns their set. */
static uint32_t enqueue_others(struct generator *generator, int code, int stream)
{
    const int self = generator->object;
    const int device = device_for(&world.objects[self]);
    const int write = code == OP_PUSH_N ? OP_CPU_OVERWRITE : OP_GPU_OVERWRITE_ON;
    uint32_t others = 0;
    for (int i = 0; i < OBJECTS; i++) {
        if (i == self || !world.objects[i].mem || device_for(&world.objects[i]) != device)
            continue;
        if (i < PLAIN ? one_in(generator, 3) : !one_in(generator, 3))
            continue;
        generator->object = i;
        enqueue(generator, write, stream, 0, 0);
        enqueue_use(generator, write, stream);
        others |= 1u << i;
    }
    generator->object = self;
    return others;
}

/* The arguments are numbers. The player decides their meaning. */
void enqueue_call(struct generator *generator, int code, int stream)
{
    const struct object *const object = &world.objects[generator->object];
    uint32_t a = random_next(&generator->random);
    if (is_copy(code)) {
        enqueue_copy_call(generator, code, stream);
        return;
    }
    if (creates(code) && generator->object >= PLAIN && one_in(generator, 12))
        a = BLOCK_SIZE + chance(generator, 3 * BLOCK_SIZE); /* debug mode can protect pages of parts */
    else if (creates(code) || code == OP_RESIZE)
        a = size_by_chance(generator);
    if (code == OP_DISCARD)
        a = one_in(generator, 3) ? size_by_chance(generator) : (uint32_t)object->size;
    if (code == OP_PUSH_N || code == OP_PULL_N)
        a = (one_in(generator, 2) ? a & a / OBJECTS : enqueue_others(generator, code, stream)) |
            1u << generator->object;
    const uint32_t plain = one_in(generator, 3) ? 0xffffffffu : ~63u;
    enqueue(generator, code, stream, a, random_next(&generator->random) & (creates(code) ? plain : 0xffffffffu));
    if (!one_in(generator, 12))
        enqueue_use(generator, code, stream);
    if (hands_in_host_memory(code) && !is_excluded(generator, OP_SHARE) && one_in(generator, 2))
        enqueue_sharers(generator, stream);
    if (creates(code) && a > BLOCK_SIZE) /* needs several chunks when staged */
        enqueue(generator, OP_SET_CPU, stream, 0, a);
}

/* ---- By chance ---- */

/* Half of the calls are for objects that never have views. */
static int pick_place(struct generator *generator)
{
    const bool plain = one_in(generator, 2) || is_excluded(generator, OP_VIEW);
    return plain ? (int)chance(generator, PLAIN) : PLAIN + (int)chance(generator, OBJECTS - PLAIN);
}

static void choose_by_chance(struct generator *generator)
{
    generator->object = pick_place(generator);
    const struct object *const object = &world.objects[generator->object];
    if (generator->object >= FIRST_VIEW && !object->mem && choose_view(generator))
        return;
    if (generator->object >= FIRST_VIEW && !object->mem)
        generator->object = PLAIN;
    const int code = world.objects[generator->object].mem ? code_by_chance(generator) : create_by_chance(generator);
    enqueue_call(generator, code, stream_by_chance(generator, object, domain_by_chance(generator)));
}

/* ---- By the present state ---- */

/* Returns how often a cell should have been hit by now. Grows with the calls, so that the steering never ends. */
static unsigned enough(void)
{
    return CELL_GOAL * 5 / 4 * (unsigned)(1 + shared->calls / 400000);
}

/* Returns how many hits are missing in the cells that a call would hit. */
static unsigned gain_of(const struct object *object, struct cell *cell, int stream)
{
    const int from = cell->domain == DOMAIN_HOST ? HOST : cell->domain == DOMAIN_NO_STREAM ? NO_STREAM : stream;
    const unsigned goal = enough();
    unsigned gain = 0;
    for (cell->flight = 0; cell->flight < FLIGHTS; cell->flight++) {
        const bool met = in_flight(object, (enum access)cell->access, from, (enum flight)cell->flight);
        const unsigned count = *cell_count(cell);
        if (met && count < goal)
            gain += goal - count;
    }
    return gain;
}

/* Returns whether the call is refused: it hands in memory, and both sides share one. */
static bool is_refused(const struct object *object, const struct cell *cell)
{
    return object->owner->placement && cell->access >= CELL_SET_CPU && cell->access <= CELL_SET_BOTH;
}

static bool choose_by_state(struct generator *generator)
{
    const struct object *const object = &world.objects[generator->object];
    unsigned best = 0;
    int code = 0, stream = 0;
    struct cell cell = {.head = (unsigned char)ref_head(object)};
    for (cell.access = 0; cell.access < CELL_ACCESSES; cell.access++) {
        for (cell.domain = 0; cell.domain < DOMAINS; cell.domain++) {
            cell.flight = IDLE;
            if (!cell_applies(&cell) || cell_is_impossible(&cell) || is_refused(object, &cell))
                continue;
            const int place = device_for(object) * PLACES + place_of(generator, (enum domain)cell.domain);
            const int from = place % PLACES == PER_THREAD ? place + generator->thread : place;
            const unsigned gain = gain_of(object, &cell, from);
            if (gain <= best)
                continue;
            best = gain;
            code = code_of((enum access)cell.access, (enum domain)cell.domain, &generator->random);
            stream = place;
        }
    }
    if (best > 0)
        enqueue_call(generator, code, stream);
    return best > 0;
}

/* ---- Ways to one cell ---- */

/* The calls that produce a head and work in flight, as letters. A sign names the stream: '.' the one of the cell's
 * call, '!' another one. x release_data o cpu overwrite n gpu read without a stream d discard a adopt_cpu g release_gpu
 * p push l pull s set_cpu_on r gpu read m gpu mutable w gpu overwrite N gpu overwrite without a stream, and a kernel R
 * the same to read */
static const char *const ways[FLIGHTS][HEADS] = {
    [IDLE] = {"x", "xo", "xn", "xon"},
    [ARRIVING] = {"op!d", "op!a", "op!m!", "op!"},
    [READING] = {"w!l!d", "w!l!a", "w!l!m!", "w!l!"},
    [WRITES_HERE] = {"w.d", "w.o", "w.", "w.l!"},
    [WRITES_ELSEWHERE] = {"w!d", "w!o", "w!", "w!l!"},
    [READS_HERE] = {"r.d", "r.o", "w!r.", "or."},
    [READS_ELSEWHERE] = {"r!d", "r!o", "w!r!", "or!"},
};
static const char *const ways_of_host[2][HEADS] = {
    {"w!l!d", "s!", "w!l!m!", "w!l!"}, /* arriving */
    {"op!d", "op!g", "op!m!", "op!"},  /* reading */
};
static const char *const ways_without_stream[2][HEADS] = {
    {"Nd", "No", "N", "Nl!"},  /* writes here */
    {"Rd", "Ro", "w!R", "oR"}, /* reads here */
};

static bool is_about_host(const struct generator *generator, enum access access)
{
    const unsigned sides = sides_of(access);
    return sides == (1u << CPU | 1u << GPU) ? (generator->random & 1) != 0 : sides == 1u << CPU;
}

static const char *way_to(const struct generator *generator, const struct cell *cell)
{
    const bool transfer = cell->flight == ARRIVING || cell->flight == READING;
    const bool here = cell->flight == WRITES_HERE || cell->flight == READS_HERE;
    if (transfer && is_about_host(generator, (enum access)cell->access))
        return ways_of_host[cell->flight - ARRIVING][cell->head];
    if (here && cell->domain == DOMAIN_NO_STREAM)
        return ways_without_stream[cell->flight == READS_HERE][cell->head];
    return ways[cell->flight][cell->head];
}

static int code_of_letter(char letter)
{
    static const struct {
        char letter;
        unsigned char code;
    } letters[] = {{'x', OP_RELEASE_DATA},  {'o', OP_CPU_OVERWRITE},  {'n', OP_GPU_READ},
                   {'d', OP_DISCARD},       {'a', OP_ADOPT_CPU},      {'g', OP_RELEASE_GPU},
                   {'p', OP_PUSH},          {'l', OP_PULL},           {'s', OP_SET_CPU_ON},
                   {'r', OP_GPU_READ_ON},   {'m', OP_GPU_MUTABLE_ON}, {'w', OP_GPU_OVERWRITE_ON},
                   {'N', OP_GPU_OVERWRITE}, {'R', OP_GPU_READ}};
    int i = 0;
    while (letters[i].letter != letter)
        i++;
    return letters[i].code;
}

static int another_stream(struct generator *generator, int stream)
{
    int other = stream;
    while (other == stream)
        other = stream - stream % PLACES + place_of(generator, domain_by_chance(generator));
    return other;
}

static void enqueue_way(struct generator *generator, const char *way, int here)
{
    const struct object *const object = &world.objects[generator->object];
    const uint32_t size = (uint32_t)object->size;
    for (; *way; way++) {
        if (*way == '!' || *way == '.')
            continue;
        const int code = code_of_letter(*way);
        const int stream = way[1] == '!' ? another_stream(generator, here) : here;
        enqueue(generator, code, stream, code == OP_DISCARD ? size : 1, random_next(&generator->random) & ~1u);
        if (*way != 'n')
            enqueue_use(generator, code, stream);
    }
}

static bool choose_rarest(struct generator *generator)
{
    struct cell cell;
    const struct object *const object = &world.objects[generator->object];
    if (!machine.gpu || !cell_rarest(&generator->random, enough(), &cell) || is_refused(object, &cell))
        return false;
    const int here = device_for(object) * PLACES + place_of(generator, (enum domain)cell.domain);
    enqueue_way(generator, way_to(generator, &cell), here);
    enqueue_call(generator, code_of((enum access)cell.access, (enum domain)cell.domain, &generator->random), here);
    return true;
}

/* ---- The source ---- */

/* A thread stays for some operations, an object for several calls, so that states can build up. */
static void choose(struct generator *generator)
{
    generator->queued = generator->taken = 0;
    if (one_in(generator, 25))
        generator->thread = (int)chance(generator, (uint32_t)generator->threads);
    world.thread = generator->thread;
    if (one_in(generator, 8))
        generator->object = pick_place(generator);
    const uint32_t kind = world.objects[generator->object].mem ? chance(generator, 10) : 0;
    const bool in_parts = kind > 0 && ref_is_in_parts(&world.objects[generator->object]);
    if (kind >= 4 && kind < 8 && (in_parts ? choose_by_parts(generator) : choose_by_state(generator)))
        return;
    if (kind >= 8 && (in_parts ? choose_rarest_in_parts(generator) : choose_rarest(generator)))
        return;
    choose_by_chance(generator);
}

static bool next_random(struct source *source, struct op *op)
{
    struct generator *const generator = (struct generator *)source;
    while (generator->taken == generator->queued) {
        if (shared->calls >= generator->calls)
            return false;
        choose(generator);
    }
    *op = generator->queue[generator->taken++];
    return true;
}

struct source *source_random(struct generator *generator, uint64_t seed, unsigned long calls,
                             const unsigned long excluded[2], int threads)
{
    *generator = (struct generator){.source = {next_random},
                                    .random = seed,
                                    .calls = shared->calls + calls,
                                    .excluded = {excluded[0], excluded[1]},
                                    .threads = threads};
    enqueue(generator, OP_STAGING, 0, random_next(&generator->random), random_next(&generator->random));
    return &generator->source;
}
