/* Checks calls that replace read-only memory while the runtime or the system refuses something, while a stream
 * captures, and beside other threads. The contents stay, and the memory is handed back once. */
#include "calls.h"
#include "failing_calloc.h"
#include "failing_calls.h"
#include "read_only_kit.h"
#include "stream/waits.h"

#include <pthread.h>

/* ---- The calls ---- */

enum { PARTS = 5, PART = SIZE / PARTS };

struct scene {
    synced_mem *mem;
    synced_mem *view; /* the second part of mem */
    synced_mem *from; /* has the pattern 3 */
    synced_mem_stream stream;
    void *memory; /* read-only, with the pattern 1 */
    bool on_device;
    unsigned before[PARTS]; /* the patterns of the parts, each at its place in the whole */
};

enum { COPY_CPU = CALLS, COPY_GPU, GROW };

enum { FRESH, STALE, STALE_PART, IN_PARTS };

/* of_view: the call is on the view. on_device: the read-only memory is the device's. state: before the call the memory
 * is valid, stale, stale in one part, or valid in an object with views. contents: those of the whole object after a
 * success; -1: undefined; 0: as before. */
static const struct {
    const char *name;
    int call;
    bool of_view;
    bool on_device;
    int state;
    int contents;
} calls[] = {
    {"mutable cpu", CPU_MUTABLE, false, false, FRESH, 0},
    {"overwrite cpu", CPU_OVERWRITE, false, false, FRESH, -1},
    {"overwrite stale cpu", CPU_OVERWRITE, false, false, STALE, -1},
    {"mutable stale cpu", CPU_MUTABLE, false, false, STALE, 0},
    {"read stale cpu", CPU_READ, false, false, STALE, 0},
    {"pull", PULL, false, false, STALE, 0},
    {"copy cpu", COPY_CPU, false, false, FRESH, 3},
    {"release gpu", FREE_GPU, false, false, STALE, 0},
    {"view cpu", CPU_MUTABLE, true, false, IN_PARTS, 0},
    {"view stale cpu", CPU_MUTABLE, true, false, STALE_PART, 0},
    {"read partly stale cpu", CPU_READ, false, false, STALE_PART, 0},
    {"pull of parts", PULL, false, false, STALE_PART, 0},
    {"release gpu of parts", FREE_GPU, false, false, STALE_PART, 0},
    {"larger cpu", GROW, false, false, FRESH, 0},
    {"larger gpu", GROW, false, true, FRESH, 0},
    {"mutable gpu", GPU_MUTABLE, false, true, FRESH, 0},
    {"overwrite gpu", GPU_OVERWRITE, false, true, FRESH, -1},
    {"mutable gpu on", ON_MUTABLE, false, true, FRESH, 0},
    {"overwrite gpu on", ON_OVERWRITE, false, true, FRESH, -1},
    {"read stale gpu", ON_READ, false, true, STALE, 0},
    {"push", PUSH, false, true, STALE, 0},
    {"copy gpu", COPY_GPU, false, true, FRESH, 3},
    {"release cpu", FREE_CPU, false, true, STALE, 0},
    {"view gpu", ON_MUTABLE, true, true, IN_PARTS, 0},
    {"view over gpu", GPU_OVERWRITE, true, true, STALE_PART, -1},
    {"view stale gpu", ON_MUTABLE, true, true, STALE_PART, 0},
    {"read partly stale gpu", ON_READ, false, true, STALE_PART, 0},
    {"push of parts", PUSH, false, true, STALE_PART, 0},
    {"release cpu of parts", FREE_CPU, false, true, STALE_PART, 0},
};
enum { COUNT = sizeof calls / sizeof calls[0] };

static bool succeeds(const struct scene *scene, int which)
{
    synced_mem *const mem = calls[which].of_view ? scene->view : scene->mem;
    switch (calls[which].call) {
    case COPY_CPU:
        return synced_mem_cpu_copy(mem, scene->from) == SYNCED_MEM_OK;
    case COPY_GPU:
        return synced_mem_async_gpu_copy(mem, scene->from, scene->stream) == SYNCED_MEM_OK;
    case GROW:
        return synced_mem_resize(mem, SIZE + 100) == SYNCED_MEM_OK;
    default:
        return make_call(mem, calls[which].call, scene->stream) == SYNCED_MEM_OK;
    }
}

static void write_elsewhere(synced_mem *mem, bool on_device, size_t offset)
{
    unsigned char bytes[SIZE];
    const size_t size = synced_mem_size(mem);
    pattern_write(bytes, SIZE, 2);
    if (on_device) {
        memcpy(synced_mem_mutable_cpu_data(mem), bytes + offset, size);
        return;
    }
    void *const source = gpu_alloc(0, SIZE);
    gpu_fill(source, SIZE, 2, NULL);
    gpu_copy(synced_mem_mutable_gpu_data(mem), (char *)source + offset, size, NULL);
    gpu_sync_device(0);
    gpu_free(source);
}

/* Device memory, which a kernel of the allocator's writes first and last. */
static void *alloc_on_stream(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)alignment;
    (void)user;
    void *const data = gpu_alloc(device, size);
    if (gpu_try_fill(data, size, 7, stream))
        return data;
    gpu_free(data);
    return NULL;
}

static void free_on_stream(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)alignment;
    (void)device;
    (void)user;
    gpu_fill(data, size, 8, stream);
    gpu_stream_sync(stream);
    gpu_free(data);
}

static synced_mem *make_with(bool allocated)
{
    static const synced_mem_allocator allocator = {
        .struct_size = sizeof allocator, .alloc = alloc_on_stream, .free = free_on_stream};
    synced_mem_options options = default_options();
    synced_mem *mem;
    options.device = 0;
    options.gpu_allocator = allocated ? &allocator : NULL;
    OK(synced_mem_create(&mem, SIZE, &options));
    return mem;
}

static void set_scene(struct scene *scene, int which, bool adopted, bool allocated)
{
    const int state = calls[which].state;
    synced_mem *const mem = make_with(allocated);
    scene->on_device = calls[which].on_device;
    scene->memory = scene->on_device ? read_only_device(SIZE, 1) : map_file(SIZE, 1);
    scene->mem =
        scene->on_device ? use_device_memory(mem, scene->memory, adopted) : use_file(mem, scene->memory, adopted);
    scene->from = make_at_cpu(SIZE, 3);
    scene->stream = open_stream(NON_BLOCKING);
    scene->view = NULL;
    if (state == STALE_PART || state == IN_PARTS)
        OK(synced_mem_view(&scene->view, scene->mem, PART, PART, NULL));
    for (int part = 0; part < PARTS; part++)
        scene->before[part] = state == STALE || (state == STALE_PART && part == 1) ? 2 : 1;
    if (state == STALE)
        write_elsewhere(scene->mem, scene->on_device, 0);
    if (state == STALE_PART)
        write_elsewhere(scene->view, scene->on_device, PART);
}

static bool has_patterns(const void *data, const unsigned *patterns, int except)
{
    unsigned char bytes[SIZE];
    bool right = true;
    for (int part = 0; part < PARTS; part++) {
        pattern_write(bytes, SIZE, patterns[part]);
        right = right && (part == except || memcmp((const char *)data + part * PART, bytes + part * PART, PART) == 0);
    }
    return right;
}

static void check_after(const struct scene *scene, int which, bool done)
{
    static const unsigned copied[PARTS] = {3, 3, 3, 3, 3};
    const bool undefined = done && calls[which].contents < 0;
    const void *const data = synced_mem_cpu_data(scene->mem);
    ck_assert_msg(data != NULL, "%s", synced_mem_last_error_message());
    gpu_note_host_read(data, SIZE);
    if (!undefined || scene->view)
        ck_assert(has_patterns(data, done && calls[which].contents == 3 ? copied : scene->before, undefined ? 1 : -1));
    if (scene->on_device)
        ck_assert(device_is(scene->memory, SIZE, 1));
    else
        ck_assert(pattern_is(scene->memory, SIZE, 1));
}

static void end_scene(struct scene *scene, bool adopted)
{
    ck_assert_int_le(handed_back, adopted);
    if (scene->view)
        OK(synced_mem_release(scene->view));
    RELEASE_EACH(scene->mem, scene->from);
    close_stream(scene->stream);
    gpu_sync_device(0);
    OK(synced_mem_reap());
    ck_assert_int_eq(handed_back, adopted);
    if (scene->on_device)
        gpu_free(scene->memory);
    else
        unmap_file(scene->memory, SIZE, 1);
}

/* ---- Failures ---- */

static void fail_once(int which, bool adopted, bool allocated, struct failing *failing)
{
    struct scene scene;
    set_scene(&scene, which, adopted, allocated);
    const synced_mem_head_kind head = synced_mem_head(scene.mem);
    begin_failing(failing);
    const bool done = succeeds(&scene, which);
    ck_assert_msg(end_failing(failing) || done, "%s: %s", calls[which].name, synced_mem_last_error_message());
    if (!done)
        ck_assert_int_eq(synced_mem_head(scene.mem), head);
    check_after(&scene, which, done);
    if (!done && calls[which].state == FRESH && synced_mem_head(scene.mem) == head)
        ck_assert_ptr_eq(scene.on_device ? synced_mem_gpu_data(scene.mem) : synced_mem_cpu_data(scene.mem),
                         scene.memory);
    end_scene(&scene, adopted);
}

START_TEST(a_failure_keeps_the_contents)
{
    const struct failing kinds[] = {each_call("*", cudaErrorUnknown), each_call("*", cudaErrorMemoryAllocation),
                                    each_calloc()};
    for (struct failing it = kinds[fixture_schedule() % 3]; next_failure(&it);)
        fail_once(_i / 2, _i % 2, false, &it);
}
END_TEST

/* The allocator's own calls succeed. */
START_TEST(a_failure_beside_an_allocator)
{
    static const char *const names[] = {"cudaStreamWaitEvent", "cudaEventRecord", "cudaMemcpyAsync",
                                        "cudaEventSynchronize"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (struct failing it = each_call(names[i], cudaErrorUnknown); next_failure(&it);)
            fail_once(_i / 2, _i % 2, true, &it);
}
END_TEST

/* ---- Captures ---- */

START_TEST(a_capture_goes_on)
{
    void *const data = read_only_device(SIZE, 1);
    synced_mem *const mem = make_of_device(data, SIZE, true);
    const synced_mem_stream stream = open_stream(NON_BLOCKING);
    cudaGraph_t graph;
    ck_assert_ptr_eq(synced_mem_gpu_data_on(mem, stream), data);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ck_assert_ptr_eq(synced_mem_gpu_data_on(mem, stream), data);
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_mutable_gpu_data_on(mem, stream));
    FAILS_NULL(SYNCED_MEM_ERR_CAPTURING, synced_mem_overwrite_gpu_data_on(mem, stream));
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    ck_assert_ptr_ne(synced_mem_mutable_gpu_data_on(mem, stream), data);
    close_stream(stream);
    OK(synced_mem_release(mem));
    gpu_free(data);
}
END_TEST

/* ---- Other calls meanwhile ---- */

static synced_mem *shared;
static void *other_file;
static size_t other_size; /* larger than the object: it becomes as large */

/* Hands in another file while memory is allocated for the first one. */
static void *alloc_and_hand_in(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)device;
    (void)stream;
    (void)user;
    if (other_file) {
        void *const file = other_file;
        other_file = NULL;
        if (other_size > synced_mem_size(shared))
            OK(synced_mem_resize_discard(shared, other_size));
        OK(USE(shared, .cpu_data = file, .flags = READ_ONLY, .callback = count_back));
    }
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void free_memory(void *data, size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    (void)size;
    (void)alignment;
    (void)device;
    (void)stream;
    (void)user;
    free(data);
}

/* The contents are those of the memory that was handed in last, of the same size or larger. */
START_TEST(other_memory_is_handed_in_meanwhile)
{
    const synced_mem_allocator allocator = {
        .struct_size = sizeof allocator, .alloc = alloc_and_hand_in, .free = free_memory};
    const size_t larger = _i == 0 ? SIZE : 3 * SIZE;
    void *const first = map_file(SIZE, 1), *const second = map_file(larger, 2);
    synced_mem_options options = default_options();
    options.cpu_allocator = &allocator;
    handed_back = 0;
    other_file = second;
    other_size = larger;
    OK(synced_mem_create(&shared, SIZE, &options));
    OK(USE(shared, .cpu_data = first, .flags = READ_ONLY, .callback = count_back));
    void *const data = synced_mem_mutable_cpu_data(shared);
    ck_assert(data && data != first && data != second);
    ck_assert_uint_eq(synced_mem_size(shared), larger);
    ck_assert(host_is(data, larger, 2));
    ck_assert_int_eq(handed_back, 2);
    OK(synced_mem_release(shared));
    unmap_file(first, SIZE, 1);
    unmap_file(second, larger, 2);
}
END_TEST

enum { CUTS = 20 };

static synced_mem *cuts[CUTS];
static int cut_count = CUTS;

synced_mem_status __real_sm_waits_wait(const struct sm_waits *waits, bool *over);
synced_mem_status __wrap_sm_waits_wait(const struct sm_waits *waits, bool *over);
synced_mem_status __wrap_sm_waits_wait(const struct sm_waits *waits, bool *over)
{
    const synced_mem_status status = __real_sm_waits_wait(waits, over);
    if (cut_count < CUTS) {
        synced_mem **const view = &cuts[cut_count++];
        OK(synced_mem_view(view, shared, (size_t)cut_count * 10, 10, NULL));
    }
    return status;
}

static int obtained;

static void *count_alloc(size_t size, size_t alignment, int device, synced_mem_stream stream, void *user)
{
    obtained++;
    return alloc_and_hand_in(size, alignment, device, stream, user);
}

/* Views cut the memory each time that the call waits for the copy of its contents. The copy is made once. */
START_TEST(cut_while_it_is_copied)
{
    const synced_mem_allocator allocator = {.struct_size = sizeof allocator, .alloc = count_alloc, .free = free_memory};
    void *const file = map_file(SIZE, 1);
    synced_mem *view;
    synced_mem_options options = default_options();
    options.cpu_allocator = &allocator;
    OK(synced_mem_create(&shared, SIZE, &options));
    OK(USE(shared, .cpu_data = file, .flags = READ_ONLY));
    OK(synced_mem_view(&view, shared, SIZE / 2, SIZE / 4, NULL));
    obtained = 0;
    cut_count = 0;
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(view));
    ck_assert_int_gt(cut_count, 0);
    ck_assert_int_lt(cut_count, CUTS);
    ck_assert_int_eq(obtained, 1);
    while (cut_count > 0)
        OK(synced_mem_release(cuts[--cut_count]));
    cut_count = CUTS;
    ck_assert(host_is(synced_mem_cpu_data(shared), SIZE, 1));
    RELEASE_EACH(view, shared);
    unmap_file(file, SIZE, 1);
}
END_TEST

enum { THREADS = 4 };

static void *write_own_part(void *view)
{
    unsigned char *const data = synced_mem_mutable_cpu_data(view);
    SOUND(data != NULL);
    if (data)
        data[0] = (unsigned char)(data[0] + 1);
    return NULL;
}

/* Each thread writes its own view, and one of them replaces the memory. No thread has an old pointer, as none gets one
 * to write read-only memory. */
START_TEST(threads_replace_the_memory_once)
{
    void *const file = map_file(SIZE, 1);
    synced_mem *const mem = make_of_file(file, SIZE, true);
    synced_mem *views[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        OK(synced_mem_view(&views[i], mem, (size_t)i * PART, PART, NULL));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_own_part, views[i]), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(unsound, 0);
    const unsigned char *const data = synced_mem_cpu_data(mem);
    for (size_t i = 0; i < SIZE; i++)
        ck_assert_uint_eq(data[i], (unsigned char)(pattern_byte(i, 1) + (i % PART == 0 && i / PART < THREADS ? 1 : 0)));
    check_renewed(mem, file, true);
    release_all(views, THREADS);
    unmap_file(file, SIZE, 1);
    OK(synced_mem_release(mem));
}
END_TEST

/* The object does not take memory that it has. */
enum { ROUNDS = 300, BUFFERS = 4 };

static atomic_int back;
static atomic_bool over;

static void count_back_in_any_thread(void *data, void *user, synced_mem_stream stream)
{
    (void)data;
    (void)user;
    (void)stream;
    atomic_fetch_add(&back, 1);
}

/* Makes calls that write the memory, and uses no pointer. */
static void *write_without_pointers(void *view)
{
    const synced_mem_stream stream = gpu_stream_create(0, false);
    synced_mem *const from = make_on(PART, 0);
    for (int i = 0; !atomic_load(&over); i++) {
        bool done = true;
        synced_mem_status status = SYNCED_MEM_OK;
        switch (i % 7) {
        case 0:
            done = synced_mem_mutable_cpu_data(view) != NULL;
            break;
        case 1:
            done = synced_mem_overwrite_gpu_data_on(view, stream) != NULL;
            break;
        case 2:
            status = synced_mem_async_cpu_pull(view, stream);
            break;
        case 3:
            done = synced_mem_mutable_gpu_data(view) != NULL;
            break;
        case 4:
            status = synced_mem_cpu_copy(view, from);
            break;
        case 5:
            status = synced_mem_async_gpu_push(view, stream);
            break;
        default:
            status = synced_mem_async_gpu_copy(view, from, stream);
            break;
        }
        SOUND(done && (status == SYNCED_MEM_OK || status == SYNCED_MEM_ERR_INVALID_STATE));
    }
    SOUND(synced_mem_release(from) == SYNCED_MEM_OK);
    SOUND(synced_mem_forget_stream(stream) == SYNCED_MEM_OK);
    gpu_stream_sync(stream);
    gpu_stream_destroy(stream);
    return NULL;
}

/* Each memory that is handed in is handed back once, and not written, whoever replaces it. */
START_TEST(threads_replace_what_is_handed_in)
{
    void *files[BUFFERS], *data[BUFFERS];
    synced_mem *const mem = make_on(SIZE, 0);
    synced_mem *views[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < BUFFERS; i++) {
        files[i] = map_file(SIZE, 1);
        data[i] = read_only_device(SIZE, 1);
    }
    atomic_store(&over, false);
    atomic_store(&back, 0);
    for (int i = 0; i < THREADS; i++) {
        OK(synced_mem_view(&views[i], mem, (size_t)i * PART, PART, NULL));
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_without_pointers, views[i]), 0);
    }
    for (int i = 0; i < ROUNDS; i++)
        OK(USE(mem, .cpu_data = i % 3 == 1 ? NULL : files[i % BUFFERS],
               .gpu_data = i % 3 == 0 ? NULL : data[i % BUFFERS], .flags = READ_ONLY,
               .callback = count_back_in_any_thread));
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(unsound, 0);
    release_all(views, THREADS);
    OK(synced_mem_release(mem));
    gpu_sync_device(0);
    OK(synced_mem_reap());
    ck_assert_int_eq(back, ROUNDS / 3 * 4);
    for (int i = 0; i < BUFFERS; i++) {
        ck_assert(device_is(data[i], SIZE, 1));
        unmap_file(files[i], SIZE, 1);
        gpu_free(data[i]);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *const all = suite_create("failures with read-only memory");
    TCase *tcase = add_case(all, "failures");
    tcase_add_loop_test(tcase, a_failure_keeps_the_contents, 0, 2 * COUNT);
    tcase_add_loop_test(tcase, a_failure_beside_an_allocator, 0, 2 * COUNT);
    tcase = add_case(all, "captures");
    tcase_add_test(tcase, a_capture_goes_on);
    tcase = add_case(all, "meanwhile");
    add_tests(tcase, cut_while_it_is_copied, threads_replace_the_memory_once, threads_replace_what_is_handed_in);
    tcase_add_loop_test(tcase, other_memory_is_handed_in_meanwhile, 0, 2);
    return all;
}
