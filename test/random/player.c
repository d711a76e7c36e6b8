/* Plays operations, each in its thread, and checks the results and effects of every call. */
#include "world.h"

#include "gpu.h"
#include "kernels.h"
#include "pattern.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool code_wanted;

/* ---- Failures ---- */

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(shared->message, sizeof shared->message, format, arguments);
    va_end(arguments);
    _exit(EXIT_FAILURE);
}

/* gpu_*.c use Check's assertions. Check has no runner here, so these take the place of its functions and of the
 * kit's. */
void note_progress(const char *file, int line);
void _ck_assert_failed(const char *file, int line, const char *expression, const char *message, ...);

void _ck_assert_failed(const char *file, int line, const char *expression, const char *message, ...)
{
    char detail[MESSAGE / 2] = "";
    va_list arguments;
    va_start(arguments, message);
    if (message)
        (void)vsnprintf(detail, sizeof detail, message, arguments);
    va_end(arguments);
    fail("%s:%d: %s: %s", file, line, expression, detail);
}

void note_progress(const char *file, int line)
{
    (void)file, (void)line;
}

void code_line(const char *format, ...)
{
    va_list arguments;
    if (!code_wanted)
        return;
    va_start(arguments, format);
    (void)printf("    ");
    (void)vprintf(format, arguments);
    (void)printf("\n");
    (void)fflush(stdout);
    va_end(arguments);
}

/* ---- Around each call ---- */

static synced_mem_stats before;
static int sharers_before;

static synced_mem_stats stats_of_library(void)
{
    synced_mem_stats stats = {.struct_size = sizeof stats};
    if (synced_mem_get_stats(&stats) != SYNCED_MEM_OK)
        fail("synced_mem_get_stats: %s", synced_mem_last_error_message());
    return stats;
}

/* One call hits a cell for each kind of work in flight. On an object in parts it hits a cell of views. */
void call_meets(const struct object *object, int code, int stream)
{
    struct cell cell = {.head = (unsigned char)ref_head(object)};
    if (ref_is_in_parts(object)) {
        ++*view_cell_count(&(struct view_cell){(unsigned char)code, cell.head, (unsigned char)ref_shape(object)});
        return;
    }
    if (!cell_of(code, stream, &cell))
        return;
    const int from = cell.domain == DOMAIN_HOST ? HOST : cell.domain == DOMAIN_NO_STREAM ? NO_STREAM : stream;
    for (cell.flight = 0; cell.flight < FLIGHTS; cell.flight++)
        if (in_flight(object, (enum access)cell.access, from, (enum flight)cell.flight))
            ++*cell_count(&cell);
}

/* Only for some calls, as on a real GPU the query takes longer than the call. */
static void ask_pending(void)
{
    if (!machine.gpu || shared->calls % 16 != 0)
        return;
    shared->asked++;
    for (int device = 0; device < machine.devices; device++) {
        if (gpu_is_busy(&world.streams[device * PLACES + BLOCKING], PER_THREAD - BLOCKING)) {
            shared->overlapped++;
            return;
        }
    }
}

/* Returns whether the callback of an object's adopted memory may come in such a call. */
static bool lets_go(int code)
{
    return (code >= OP_SET_CPU && code <= OP_RELEASE_DATA) || code == OP_DESTROY;
}

static void mark_going(const struct object *object, bool going)
{
    const struct object *const root = object->root ? object->root : object;
    for (int side = 0; side < SIDES; side++)
        if (root->copy[side].block)
            root->copy[side].block->going = going;
}

void call_begins(const struct object *object, int code, int stream)
{
    shared->calls++;
    ask_pending();
    if (object) {
        call_meets(object, code, stream);
        mark_going(object, lets_go(code));
    }
    before = stats_of_library();
    sharers_before = sharers_count();
}

static void check_moves(const char *way, uint64_t made, int expected)
{
    if (expected >= 0 && made != (uint64_t)expected)
        fail("%llu transfers %s, not %d", (unsigned long long)made, way, expected);
}

static bool has_divided(void)
{
    for (int i = 0; i < FIRST_VIEW; i++)
        if (world.objects[i].mem && world.objects[i].divided)
            return true;
    return false;
}

/* After a single transfer its bytes show whether it took several chunks. Without staging, only pushes of more than a
 * buffer are staged, transfers of memory that is page-locked in part, and those of objects with views. */
static void check_staged(const synced_mem_stats *after, uint64_t ups, uint64_t downs)
{
    const uint64_t staged = after->staged_transfers - before.staged_transfers;
    const uint64_t up_bytes = after->h2d_bytes - before.h2d_bytes;
    const uint64_t bytes = up_bytes + after->d2h_bytes - before.d2h_bytes;
    if (!world.staged && sharers_before == 0 && !has_divided() && (staged > ups || staged * STAGING_BUFFER > up_bytes))
        fail("%llu transfers were staged", (unsigned long long)staged);
    shared->staged += staged;
    shared->chunked += staged == 1 && ups + downs == 1 && bytes > STAGING_BUFFER;
}

/* Adjacent parts may be moved together. */
static void check_bytes(const char *way, uint64_t made, uint64_t bytes, int most, size_t expected)
{
    if (bytes != expected || (made == 0) != (expected == 0) || made > (uint64_t)most)
        fail("%llu bytes went %s in %llu transfers, not %zu in at most %d", (unsigned long long)bytes, way,
             (unsigned long long)made, expected, most);
}

void call_moved(int most, size_t up_bytes, size_t down_bytes)
{
    const synced_mem_stats after = stats_of_library();
    check_bytes("to the device", after.h2d_transfers - before.h2d_transfers, after.h2d_bytes - before.h2d_bytes, most,
                up_bytes);
    check_bytes("to the host", after.d2h_transfers - before.d2h_transfers, after.d2h_bytes - before.d2h_bytes, most,
                down_bytes);
    call_ends(-1, -1);
}

void call_ends(int up, int down)
{
    const synced_mem_stats after = stats_of_library();
    const uint64_t ups = after.h2d_transfers - before.h2d_transfers;
    const uint64_t downs = after.d2h_transfers - before.d2h_transfers;
    const uint64_t waits = after.event_records + after.stream_waits + after.host_waits - before.event_records -
                           before.stream_waits - before.host_waits;
    check_moves("to the device", ups, up);
    check_moves("to the host", downs, down);
    check_staged(&after, ups, downs);
    shared->active += ups + downs + waits > 0;
    const int alive = world.alive + sharers_count();
    if (after.objects != (uint64_t)alive)
        fail("%llu objects are counted, %d are alive", (unsigned long long)after.objects, alive);
    if (after.quarantined != 0)
        fail("memory went into quarantine");
}

/* The last report to the error handler. A failed call makes one report, with the status that it returns. */
static struct {
    unsigned calls;
    synced_mem_status status;
    char message[MESSAGE / 2];
} told;

static void note_error(synced_mem_status status, const char *message, void *user)
{
    if (user != &told)
        fail("the error handler got another user pointer");
    told.calls++;
    told.status = status;
    (void)snprintf(told.message, sizeof told.message, "%s", message);
}

static void check_told(const char *what, synced_mem_status status)
{
    const unsigned expected = status != SYNCED_MEM_OK;
    if (told.calls != expected || (expected && told.status != status))
        fail("%s: %s, but the error handler was called %u times, the last time with %s", what,
             synced_mem_status_name(status), told.calls, synced_mem_status_name(told.status));
    if (expected && strncmp(told.message, synced_mem_last_error_message(), sizeof told.message - 1) != 0)
        fail("%s: the error handler got '%s'", what, told.message);
    told.calls = 0;
}

bool answered(const char *what, synced_mem_status status, unsigned allowed)
{
    if ((unsigned)status > SYNCED_MEM_ERR_FORKED || !(allowed & (1u << status)))
        fail("%s: %s (%s)", what, synced_mem_status_name(status),
             status == SYNCED_MEM_OK ? "" : synced_mem_last_error_message());
    if (status != SYNCED_MEM_OK && synced_mem_last_error() != status)
        fail("%s: %s, but the last error is %s", what, synced_mem_status_name(status),
             synced_mem_status_name(synced_mem_last_error()));
    check_told(what, status);
    return status == SYNCED_MEM_OK;
}

/* ---- Facts ---- */

void take_device(struct object *object, int device, bool must)
{
    const int said = synced_mem_device(object->mem);
    if (get_device_of(object) >= 0 || (said < 0 && !must))
        return;
    if (said != device)
        fail("the object took device %d, not %d", said, device);
    (object->root ? object->root : object)->device = said;
}

/* Such memory holds no contents; only its source shows it. */
static void keep_capacity(struct copy *copy, synced_mem_source source)
{
    const bool foreign = source == SYNCED_MEM_SOURCE_BORROWED || source == SYNCED_MEM_SOURCE_ADOPTED;
    if (copy->origin == NONE && source != SYNCED_MEM_SOURCE_NONE && !foreign)
        copy->origin = OWN;
}

void call_failed(struct object *object, int device)
{
    struct object *const owner = object->owner;
    const synced_mem_source sources[SIDES] = {synced_mem_cpu_source(owner->mem), synced_mem_gpu_source(owner->mem)};
    take_device(object, device, false);
    for (enum side side = CPU; side < SIDES; side++) {
        if (sources[side] != SYNCED_MEM_SOURCE_BORROWED && sources[side] != SYNCED_MEM_SOURCE_ADOPTED)
            ref_renewed(owner, side);
        keep_capacity(&owner->copy[side], sources[side]);
    }
}

static void check_source(const struct object *owner, enum side which, synced_mem_source source, size_t capacity)
{
    const struct copy *const copy = &owner->copy[which];
    const char *const side = which == CPU ? "host" : "device";
    static const unsigned expected[] = {
        [NONE] = 1u << SYNCED_MEM_SOURCE_NONE,
        [OWN] = 1u << SYNCED_MEM_SOURCE_PAGEABLE | 1u << SYNCED_MEM_SOURCE_PINNED | 1u << SYNCED_MEM_SOURCE_DEVICE,
        [BORROWED] = 1u << SYNCED_MEM_SOURCE_BORROWED,
        [ADOPTED] = 1u << SYNCED_MEM_SOURCE_ADOPTED,
    };
    unsigned allowed = expected[copy->origin];
    if (copy->origin == OWN && world.allocated[which])
        allowed |= 1u << SYNCED_MEM_SOURCE_ALLOCATOR;
    if (copy->origin == OWN && owner->allocated[which])
        allowed = 1u << SYNCED_MEM_SOURCE_ALLOCATOR;
    if (copy->origin == OWN && is_shared(owner))
        allowed = 1u << (owner->placement == SYNCED_MEM_PLACEMENT_MAPPED ? SYNCED_MEM_SOURCE_MAPPED
                                                                         : SYNCED_MEM_SOURCE_MANAGED);
    if (!(allowed & (1u << source)))
        fail("the %s copy's source is %d", side, source);
    if (copy->origin == NONE && capacity != 0)
        fail("the %s copy has room for %zu bytes without memory", side, capacity);
    if (copy->origin == ADOPTED && copy->block->state != BLOCK_ADOPTED)
        fail("the callback of adopted memory came while the object uses it");
}

static void check_one(const struct object *object)
{
    const synced_mem *const mem = object->mem;
    const unsigned head = ref_head(object);
    if ((unsigned)synced_mem_head(mem) != head)
        fail("the head is %d, not %u", synced_mem_head(mem), head);
    if (synced_mem_in_file(mem) != ref_is_in_file(object))
        fail("the object is %sin a file", synced_mem_in_file(mem) ? "" : "not ");
    if (synced_mem_size(mem) != object->size)
        fail("the size is %zu, not %zu", synced_mem_size(mem), object->size);
    if (synced_mem_device(mem) != get_device_of(object))
        fail("the device is %d, not %d", synced_mem_device(mem), get_device_of(object));
    const size_t room[SIDES] = {synced_mem_cpu_capacity(mem), synced_mem_gpu_capacity(mem)};
    if (is_shared(object) && (synced_mem_placement(mem) != object->owner->placement || room[CPU] != room[GPU]))
        fail("the placement is %d, with room for %zu and %zu bytes", (int)synced_mem_placement(mem), room[CPU],
             room[GPU]);
    check_source(object->owner, CPU, synced_mem_cpu_source(mem), room[CPU]);
    check_source(object->owner, GPU, synced_mem_gpu_source(mem), room[GPU]);
    for (unsigned side = CPU; side < SIDES; side++)
        if ((head & (1u << side)) && head != SYNCED_MEM_MIXED && room[side] < object->size)
            fail("a copy with the contents has room for %zu of %zu bytes", room[side], object->size);
}

/* Checks the object, and all that have bytes of the same root. */
void check_facts(struct object *object)
{
    const struct object *const root = object->root ? object->root : object;
    mark_going(object, false);
    check_one(object);
    if (!ref_is_in_parts(object))
        return;
    ref_join(object->owner);
    check_one(root);
    for (int i = FIRST_VIEW; i < OBJECTS; i++) {
        const struct object *const view = &world.objects[i];
        if (!view->mem || view->root != root)
            continue;
        check_one(view);
        if (synced_mem_root(view->mem) != root->mem || synced_mem_offset(view->mem) != view->root_offset)
            fail("the view begins at %zu of its root, not at %zu", synced_mem_offset(view->mem), view->root_offset);
    }
}

/* Compares the parts that are known. */
void check_contents(const struct object *object, const void *data, const char *what)
{
    for
        EACH_PART(part, object)
        {
            const size_t offset = part->begin - object->offset, size = part_size(part);
            const unsigned char *const got = (const unsigned char *)data + offset;
            const unsigned char *const expected = object->owner->bytes + part->begin;
            size_t at = 0;
            if (!part->defined || size == 0)
                continue;
            gpu_note_host_read(got, size);
            if (memcmp(got, expected, size) == 0)
                continue;
            while (got[at] == expected[at])
                at++;
            fail("%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, offset + at, object->size, got[at], expected[at]);
        }
}

/* ---- One operation ---- */

/* Finds the file that plays the operation. */
static bool play_one(const struct op *op)
{
    return play_access(op) || play_transfer(op) || play_copy(op) || play_set(op) || play_share(op) || play_import(op) ||
           play_size(op) || play_life(op) || play_view(op) || play_stream(op) || play_setting(op) || play_mistake(op) ||
           play_failing(op) || play_file(op) || play_act(op);
}

void perform(const struct op *op)
{
    const int at = shared->logged;
    world.thread = op->thread;
    if (at == MOST_OPS)
        fail("the log is full");
    shared->log[at] = *op;
    shared->logged = at + 1;
    if (!play_one(op)) {
        shared->logged = at;
        return;
    }
    shared->by_code[op->code]++;
    if (machine.gpu && gpu_current_device() != world.current[op->thread])
        fail("the current device has changed after %s", op_name(op->code));
    if (gpu_mismatches(false) > 0)
        fail("a kernel read other contents than were written");
}

/* ---- Threads: one at a time plays; the next operation names it ---- */

static pthread_mutex_t baton = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static int turn;
static bool over;
static struct source *source;
static struct op upcoming;

/* Called with the baton. */
static void play_until_another_thread(int thread)
{
    while (!over && upcoming.thread == thread) {
        perform(&upcoming);
        over = !source->next(source, &upcoming);
    }
    turn = upcoming.thread;
    (void)pthread_cond_broadcast(&passed);
}

static void *player(void *which)
{
    const int thread = (int)(size_t)which;
    (void)pthread_mutex_lock(&baton);
    while (!over) {
        if (turn == thread)
            play_until_another_thread(thread);
        else
            (void)pthread_cond_wait(&passed, &baton);
    }
    (void)pthread_mutex_unlock(&baton);
    return NULL;
}

static void play_in_threads(void)
{
    pthread_t threads[THREADS];
    over = !source->next(source, &upcoming);
    turn = upcoming.thread;
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, player, (void *)i) != 0)
            fail("a thread could not be created");
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
}

/* ---- Beginning and end ---- */

/* Creates all streams for the whole sequence. The legacy and the per-thread streams need no creation. */
static void make_streams(void)
{
    for (int i = 0; i < machine.devices * PLACES; i++) {
        const int place = i % PLACES;
        if (place >= BLOCKING && place < PER_THREAD)
            world.streams[i] = gpu_stream_create(i / PLACES, place < NONBLOCKING);
        else
            world.streams[i] = place == LEGACY ? NULL : (synced_mem_stream)2; /* cudaStreamPerThread */
    }
}

static void unmake_streams(void)
{
    for (int i = 0; i < machine.devices * PLACES; i++) {
        if (i % PLACES >= BLOCKING && i % PLACES < PER_THREAD) {
            (void)answered("forget_stream", synced_mem_forget_stream(world.streams[i]), OK_ONLY);
            gpu_stream_destroy(world.streams[i]);
        }
    }
}

/* On this thread, whose device is the first. */
static void destroy_all(void)
{
    world.current[0] = 0;
    for (unsigned i = 0; i < OBJECTS; i++)
        perform(&(struct op){.code = OP_DESTROY, .object = (unsigned char)i});
}

/* Also checks the end: neither the library nor the runtime may have anything left. */
void play(struct source *from, unsigned schedule, bool print_code)
{
    code_wanted = print_code;
    shared->logged = 0;
    shared->message[0] = '\0';
    use_kernels_if_asked(gpu_start(schedule));
    ref_begin();
    synced_mem_set_error_handler(note_error, &told);
    if (machine.gpu)
        gpu_make_current(0);
    make_streams();
    blocks_make();
    files_begin();
    source = from;
    play_in_threads();
    destroy_all();
    files_end();
    perform(&(struct op){.code = OP_SHUTDOWN});
    for (int device = 0; device < machine.devices; device++)
        gpu_sync_device(device);
    if (gpu_mismatches(true) > 0)
        fail("a kernel read other contents than were written");
    unmake_streams();
    blocks_unmake();
    allocators_unmake();
    (void)answered("shutdown", synced_mem_shutdown(), OK_ONLY);
    gpu_check_nothing_left();
}
