/*
 * Checks every call with each kind of work in flight on the object. The work sees the memory as it was before the call.
 * The call leaves the state that it would leave if the work had run at once. Memory that goes back to the caller is
 * free of work: the caller overwrites it at once.
 */
#include "fixture.h"

#include <stdlib.h>

enum { SIZE = 5000, LARGER = 3 * SIZE, SMALLER = SIZE / 2, POISON = 99, FOREIGN = 4, KERNEL = 3, WRITTEN = 2 };

/* The work in flight. Before it, the contents are the pattern 1. */
enum first { PUSH, PULL, WRITE_ON, READ_ON, WRITE_ANY, READ_ANY, FIRSTS };

/* The owner of both copies' memory. */
enum whose { OWN, BORROWED, ADOPTED, WHOSE };

/* ---- The situation in which a call is made ---- */

static struct situation {
    const char *doing;
    synced_mem *mem;
    enum first first;
    enum whose whose;
    synced_mem_stream stream;   /* of the work in flight */
    synced_mem_stream blocking; /* of kernels in flight whose stream the library does not know */
    synced_mem_stream other;    /* of the calls */
    synced_mem_stream callers;  /* of the caller's work that does not concern the library */
    void *host, *device;        /* the caller's memory */
    void *new_host, *new_device;
    void *seen, *seen_later; /* memory that kernels read into */
    bool reading;            /* a kernel in flight reads into seen */
    unsigned pattern;        /* of the contents, after the work in flight */
    size_t size, filled;     /* so many bytes have the pattern, the rest are zeros */
    int callbacks;
} now;

/* Overwrites memory that is the caller's again: host memory by the host, device memory by a kernel. */
static void use_again(const void *data)
{
    if (data == now.host)
        host_fill(now.host, SIZE, POISON);
    else
        gpu_fill(now.device, SIZE, POISON, now.callers);
}

static void take_back(void *data, void *user, synced_mem_stream stream)
{
    ck_assert_ptr_eq(user, &now);
    ck_assert_ptr_null(stream);
    ck_assert(data == now.host || data == now.device);
    use_again(data);
    now.callbacks++;
}

static void make_object(void)
{
    now.mem = make_on(SIZE, 0);
    host_fill(now.host, SIZE, 1);
    gpu_fill(now.device, SIZE, 1, NULL);
    gpu_stream_sync(NULL);
    switch (now.whose) {
    case OWN:
        host_fill(synced_mem_overwrite_cpu_data(now.mem), SIZE, 1);
        OK(synced_mem_async_gpu_push(now.mem, now.stream));
        break;
    case BORROWED:
        OK(USE(now.mem, .cpu_data = now.host, .gpu_data = now.device));
        break;
    case ADOPTED:
        OK(USE(now.mem, .cpu_data = now.host, .gpu_data = now.device, .callback = take_back, .user = &now));
        break;
    case WHOSE:
        break;
    }
    ck_assert_ptr_nonnull(synced_mem_gpu_data(now.mem));
}

/* These make contents that one side alone has, so that a transfer is needed. */
static void make_host_alone(void)
{
    host_fill(synced_mem_mutable_cpu_data(now.mem), SIZE, 1);
}

static void make_device_alone(void)
{
    gpu_fill(synced_mem_mutable_gpu_data_on(now.mem, now.stream), SIZE, 1, now.stream);
    OK(synced_mem_end_use_on(now.mem, now.stream));
}

static void read_from(const void *data, synced_mem_stream stream)
{
    gpu_delay(stream);
    gpu_copy(now.seen, data, SIZE, stream);
    now.reading = true;
}

static void start(enum first first)
{
    now.pattern = 1;
    switch (first) {
    case PUSH:
        make_host_alone();
        gpu_delay(now.stream);
        OK(synced_mem_async_gpu_push(now.mem, now.stream));
        break;
    case PULL:
        make_device_alone();
        gpu_delay(now.stream);
        OK(synced_mem_async_cpu_pull(now.mem, now.stream));
        break;
    case WRITE_ON:
        gpu_delay(now.stream);
        gpu_fill(synced_mem_mutable_gpu_data_on(now.mem, now.stream), SIZE, KERNEL, now.stream);
        now.pattern = KERNEL;
        break;
    case READ_ON:
        read_from(synced_mem_gpu_data_on(now.mem, now.stream), now.stream);
        break;
    case WRITE_ANY:
        gpu_delay(now.blocking);
        gpu_fill(synced_mem_mutable_gpu_data(now.mem), SIZE, KERNEL, now.blocking);
        now.pattern = KERNEL;
        break;
    case READ_ANY:
        read_from(synced_mem_gpu_data(now.mem), now.blocking);
        break;
    case FIRSTS:
        break;
    }
}

static void prepare(enum first first, enum whose whose)
{
    now = (struct situation){.first = first, .whose = whose, .size = SIZE, .filled = SIZE};
    now.stream = open_stream(NON_BLOCKING);
    now.other = open_stream(NON_BLOCKING);
    now.callers = open_stream(NON_BLOCKING);
    now.blocking = open_stream(BLOCKING);
    now.host = gpu_pinned_alloc(SIZE);
    now.new_host = gpu_pinned_alloc(LARGER);
    now.device = gpu_alloc(0, SIZE);
    now.new_device = gpu_alloc(0, SIZE);
    now.seen = gpu_alloc(0, SIZE);
    now.seen_later = gpu_alloc(0, SIZE);
    make_object();
    start(first);
}

/* ---- The calls ---- */

static void host_writes(void *data)
{
    host_fill(data, SIZE, WRITTEN);
    now.pattern = WRITTEN;
}

static void kernel_writes(void *data, synced_mem_stream stream)
{
    gpu_fill(data, SIZE, WRITTEN, stream);
    now.pattern = WRITTEN;
}

static void kernel_reads(const void *data, synced_mem_stream stream)
{
    gpu_copy(now.seen_later, data, SIZE, stream);
    gpu_stream_sync(stream);
    ck_assert(device_is(now.seen_later, SIZE, now.pattern));
}

static void host_reads(void)
{
    ck_assert(host_is(synced_mem_cpu_data(now.mem), SIZE, now.pattern));
}

static void host_mutates(void)
{
    void *const data = synced_mem_mutable_cpu_data(now.mem);
    ck_assert(host_is(data, SIZE, now.pattern));
    host_writes(data);
}

static void host_overwrites(void)
{
    host_writes(synced_mem_overwrite_cpu_data(now.mem));
}

/* A pointer without a stream is valid on every stream. The caller has to order its own kernels on such pointers. */
static void device_reads(void)
{
    kernel_reads(synced_mem_gpu_data(now.mem), now.first == WRITE_ANY ? now.blocking : now.callers);
}

static void device_mutates(void)
{
    kernel_writes(synced_mem_mutable_gpu_data(now.mem), NULL);
}

static void device_overwrites(void)
{
    kernel_writes(synced_mem_overwrite_gpu_data(now.mem), now.blocking);
}

static void other_reads(void)
{
    kernel_reads(synced_mem_gpu_data_on(now.mem, now.other), now.other);
}

static void other_mutates(void)
{
    kernel_writes(synced_mem_mutable_gpu_data_on(now.mem, now.other), now.other);
}

static void other_overwrites(void)
{
    kernel_writes(synced_mem_overwrite_gpu_data_on(now.mem, now.other), now.other);
}

static void same_reads(void)
{
    kernel_reads(synced_mem_gpu_data_on(now.mem, now.stream), now.stream);
}

static void same_mutates(void)
{
    kernel_writes(synced_mem_mutable_gpu_data_on(now.mem, now.stream), now.stream);
}

static void same_overwrites(void)
{
    kernel_writes(synced_mem_overwrite_gpu_data_on(now.mem, now.stream), now.stream);
}

static void pushes(void)
{
    if (synced_mem_head(now.mem) == SYNCED_MEM_AT_GPU)
        FAILS(SYNCED_MEM_ERR_INVALID_STATE, synced_mem_async_gpu_push(now.mem, now.other));
    else
        OK(synced_mem_async_gpu_push(now.mem, now.other));
}

static void pulls(void)
{
    OK(synced_mem_async_cpu_pull(now.mem, now.other));
}

static void writes_and_pushes(void)
{
    host_mutates();
    OK(synced_mem_async_gpu_push(now.mem, now.other));
}

static void writes_and_pulls(void)
{
    other_mutates();
    OK(synced_mem_async_cpu_pull(now.mem, now.other));
}

static void grows(void)
{
    OK(synced_mem_resize(now.mem, LARGER));
    now.size = LARGER;
}

static void shrinks(void)
{
    OK(synced_mem_resize(now.mem, SMALLER));
    now.size = now.filled = SMALLER;
}

static void shrinks_and_grows(void)
{
    OK(synced_mem_resize(now.mem, SMALLER));
    OK(synced_mem_resize(now.mem, SIZE));
    now.filled = SMALLER;
}

static void empty(void)
{
    now.filled = 0;
}

static void discards(void)
{
    OK(synced_mem_resize_discard(now.mem, LARGER));
    now.size = LARGER;
    empty();
}

static void discards_in_place(void)
{
    OK(synced_mem_resize_discard(now.mem, SIZE));
    empty();
}

static void sets_host(void)
{
    host_fill(now.new_host, SIZE, FOREIGN);
    OK(synced_mem_set_cpu_data(now.mem, now.new_host));
    now.pattern = FOREIGN;
}

static void sets_device(void)
{
    gpu_fill(now.new_device, SIZE, FOREIGN, NULL);
    OK(synced_mem_set_gpu_data(now.mem, now.new_device));
    now.pattern = FOREIGN;
}

static void sets_device_on(void)
{
    gpu_fill(now.new_device, SIZE, FOREIGN, now.other);
    OK(USE(now.mem, .gpu_data = now.new_device, .stream = now.other));
    now.pattern = FOREIGN;
}

/* A copy on the stream brings the host's contents. */
static void sets_host_on(void)
{
    gpu_fill(now.new_device, SIZE, FOREIGN, now.other);
    gpu_copy_to_host(now.new_host, now.new_device, SIZE, now.other);
    OK(USE(now.mem, .cpu_data = now.new_host, .stream = now.other));
    now.pattern = FOREIGN;
}

static void releases_host(void)
{
    OK(synced_mem_release_cpu_data(now.mem));
}

static void releases_device(void)
{
    OK(synced_mem_release_gpu_data(now.mem));
}

static void releases_both(void)
{
    OK(synced_mem_release_data(now.mem));
    empty();
}

static void ends_uses(void)
{
    OK(synced_mem_end_use_on(now.mem, now.stream));
    OK(synced_mem_forget_stream(now.stream));
}

static void destroys(void)
{
    OK(synced_mem_release(now.mem));
    now.mem = NULL;
}

static const struct call {
    const char *name;
    void (*make)(void);
    bool host_goes, device_goes; /* the object gives up the memory that it had */
    bool at_once;                /* the call does not wait if the memory is own or adopted */
} calls[] = {
    {"cpu read", host_reads, false, false, false},
    {"cpu mutable", host_mutates, false, false, false},
    {"cpu overwrite", host_overwrites, false, false, false},
    {"gpu read", device_reads, false, false, false},
    {"gpu mutable", device_mutates, false, false, false},
    {"gpu overwrite", device_overwrites, false, false, false},
    {"read on another", other_reads, false, false, false},
    {"mutable on another", other_mutates, false, false, false},
    {"overwrite on another", other_overwrites, false, false, false},
    {"read on the same", same_reads, false, false, false},
    {"mutable on the same", same_mutates, false, false, false},
    {"overwrite on the same", same_overwrites, false, false, false},
    {"push", pushes, false, false, true},
    {"pull", pulls, false, false, true},
    {"write and push", writes_and_pushes, false, false, false},
    {"write and pull", writes_and_pulls, false, false, true},
    {"grow", grows, true, true, false},
    {"shrink", shrinks, false, false, true},
    {"shrink and grow", shrinks_and_grows, false, false, false},
    {"discard", discards, true, true, true},
    {"discard in place", discards_in_place, false, false, true},
    {"set host", sets_host, true, false, true},
    {"set device", sets_device, false, true, true},
    {"set device on", sets_device_on, false, true, true},
    {"set host on", sets_host_on, true, false, true},
    {"release host", releases_host, true, false, false},
    {"release device", releases_device, false, true, false},
    {"release both", releases_both, true, true, true},
    {"done", ends_uses, false, false, true},
    {"destroy", destroys, true, true, true},
};
enum { CALLS = sizeof calls / sizeof calls[0] };

/* ---- Conditions after a call ---- */

static bool contents_are(const unsigned char *data, size_t size)
{
    return pattern_is(data, now.filled, now.pattern) && pattern_is(data + now.filled, size - now.filled, 0);
}

static void check_contents(void)
{
    unsigned char *const there = malloc(now.size);
    const void *const here = synced_mem_cpu_data(now.mem);
    ck_assert_msg(here != NULL, "%s", synced_mem_last_error_message());
    gpu_note_host_read(here, now.size);
    ck_assert_msg(contents_are(here, now.size), "not on the host after %s", now.doing);
    const void *const data = synced_mem_gpu_data(now.mem);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_read(there, data, now.size);
    ck_assert_msg(contents_are(there, now.size), "not on the device after %s", now.doing);
    free(there);
}

/* Borrowed memory is the caller's again when the call returns. */
static void take_borrowed_back(const struct call *call)
{
    if (now.whose != BORROWED)
        return;
    if (call->host_goes)
        use_again(now.host);
    if (call->device_goes) {
        /* The caller waits for its own kernels. */
        gpu_stream_sync(now.blocking);
        if (now.first == WRITE_ON || now.first == READ_ON)
            gpu_stream_sync(now.stream);
        use_again(now.device);
    }
}

static void check_poison(const struct call *call)
{
    if (now.whose == OWN)
        return;
    if (call->host_goes)
        ck_assert(host_is(now.host, SIZE, POISON));
    if (call->device_goes)
        ck_assert(device_is(now.device, SIZE, POISON));
}

static void clean_up(void)
{
    synced_mem_stream const streams[] = {now.stream, now.other, now.callers, now.blocking};
    for (int i = 0; i < 4; i++)
        close_stream(streams[i]);
    gpu_pinned_free(now.host);
    gpu_pinned_free(now.new_host);
    void *const memory[] = {now.device, now.new_device, now.seen, now.seen_later};
    for (int i = 0; i < 4; i++)
        gpu_free(memory[i]);
}

static void check(enum first first, enum whose whose, const struct call *call)
{
    prepare(first, whose);
    const size_t before = gpu_unfinished();
    now.doing = call->name;
    call->make();
    if (call->at_once && whose != BORROWED)
        ck_assert_uint_ge(gpu_unfinished(), before);
    take_borrowed_back(call);
    if (now.mem)
        check_contents();
    gpu_stream_sync(now.stream);
    gpu_stream_sync(now.blocking);
    if (now.reading)
        ck_assert(device_is(now.seen, SIZE, 1));
    if (now.mem)
        OK(synced_mem_release(now.mem));
    OK(synced_mem_shutdown());
    ck_assert_int_eq(now.callbacks, whose == ADOPTED ? 2 : 0);
    gpu_stream_sync(now.callers);
    check_poison(call);
    clean_up();
}

/* A process for each call is cheap on the emulated runtime only. */
static int calls_of_a_test(void)
{
    return gpu_schedules() > 1 ? 1 : CALLS;
}

START_TEST(hazards)
{
    for (int i = 0; gpu_expected() && i < calls_of_a_test(); i++) {
        const int which = _i * calls_of_a_test() + i;
        const enum first first = (enum first)(which / CALLS % FIRSTS);
        const enum whose whose = (enum whose)(which / CALLS / FIRSTS);
        check(first, whose, &calls[which % CALLS]);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *const made = suite_create("hazards");
    const int tests = CALLS * FIRSTS * WHOSE / calls_of_a_test();
    tcase_add_loop_test(add_case(made, "hazards"), hazards, 0, tests);
    return made;
}
