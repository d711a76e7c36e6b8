/* Files: objects whose contents are in one, and writes of contents to another. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = MAX_SIZE + 40000 };

static struct {
    FILE *in, *out, *of_stores;
    synced_mem_file *read, *written, *stored;
    /* The place of each root's bytes in the file of stores, as long as it is that object. */
    const synced_mem *owners[OBJECTS];
    size_t places[OBJECTS], next_place;
    unsigned char bytes[FILE_BYTES]; /* of the file that is read */
    /* The bytes that the other file is to have. */
    unsigned char expected[MAX_SIZE];
    bool known[MAX_SIZE];
    bool reads_contents; /* until the program waits for the file */
} files;

static FILE *open_file(synced_mem_file **out, size_t bytes)
{
    FILE *const file = tmpfile();
    if (!file || fwrite(files.bytes, 1, bytes, file) != bytes || fflush(file) != 0)
        fail("a file can't be made");
    (void)answered("file_open", synced_mem_file_open(out, fileno(file)), OK_ONLY);
    return file;
}

void files_begin(void)
{
    memset(&files, 0, sizeof files);
    for (size_t i = 0; i < FILE_BYTES; i++)
        files.bytes[i] = (unsigned char)(i * 13 + i / 241 + 7);
    files.in = open_file(&files.read, FILE_BYTES);
    files.out = open_file(&files.written, 0);
    files.of_stores = open_file(&files.stored, 0);
}

void files_wait(void)
{
    if (files.reads_contents)
        (void)answered("file_wait", synced_mem_file_wait(files.written), OK_ONLY);
    files.reads_contents = false;
}

void files_check(void)
{
    static unsigned char bytes[MAX_SIZE];
    files_wait();
    const ssize_t size = pread(fileno(files.out), bytes, sizeof bytes, 0);
    for (size_t i = 0; i < MAX_SIZE; i++)
        if (files.known[i] && (size < 0 || i >= (size_t)size || bytes[i] != files.expected[i]))
            fail("byte %zu of the file is not what was written", i);
}

void files_end(void)
{
    files_check();
    (void)answered("file_release", synced_mem_file_release(files.read), OK_ONLY);
    (void)answered("file_release", synced_mem_file_release(files.written), OK_ONLY);
    (void)answered("file_release", synced_mem_file_release(files.stored), OK_ONLY);
    (void)fclose(files.in);
    (void)fclose(files.out);
    (void)fclose(files.of_stores);
}

/* ---- Contents in a file ---- */

static bool has_user_memory(const struct object *owner)
{
    return owner->copy[CPU].origin >= BORROWED || owner->copy[GPU].origin >= BORROWED;
}

static bool use_file(const struct op *op, struct object *object)
{
    const struct object *const root = object->root ? object->root : object;
    const size_t offset = op->a % (FILE_BYTES - object->size + 1);
    const bool refused = root->placement != SYNCED_MEM_PLACEMENT_SEPARATE || has_user_memory(object->owner);
    code_line("(void)synced_mem_use_file(mem[%d], file, %zu);", op->object, offset);
    call_begins(NULL, op->code, HOST);
    const bool ok = answered("use_file", synced_mem_use_file(object->mem, files.read, offset),
                             refused ? 1u << SYNCED_MEM_ERR_INVALID_STATE : OK_ONLY);
    call_ends(0, 0);
    if (ok)
        ref_uses_file(object, files.bytes + offset);
    check_facts(object);
    return true;
}

/* ---- Writes ---- */

static size_t bytes_from_device(const struct object *object)
{
    size_t bytes = 0;
    for
        EACH_PART(part, object)
        {
            bytes += part->head == SYNCED_MEM_AT_GPU ? part_size(part) : 0;
        }
    return bytes;
}

static unsigned write_allowed(const struct object *object, int stream)
{
    if (object->size == 0)
        return OK_ONLY;
    if (is_shared(object) || !ref_has_all_contents(object))
        return 1u << SYNCED_MEM_ERR_INVALID_STATE |
               (stream == NO_STREAM || device_of_stream(stream) == get_device_of(object)
                    ? 0
                    : 1u << SYNCED_MEM_ERR_INVALID_DEVICE);
    const bool elsewhere = stream != NO_STREAM && ref_any_at(object, SYNCED_MEM_AT_GPU) &&
                           device_of_stream(stream) != get_device_of(object);
    return elsewhere ? 1u << SYNCED_MEM_ERR_INVALID_DEVICE : OK_ONLY;
}

/* Notes what the file gets. */
static void note_written(const struct object *object, size_t offset)
{
    memcpy(files.expected + offset, ref_bytes(object), object->size);
    for
        EACH_PART(part, object)
        {
            memset(files.known + offset + (part->begin - object->offset), part->defined, part_size(part));
        }
}

static bool write_file(const struct op *op, struct object *object)
{
    const int stream = op->b & 1 ? NO_STREAM : resolve(object, op->stream);
    const size_t offset = op->a % (MAX_SIZE - object->size + 1) % 1000;
    if (stream < 0)
        return false;
    const synced_mem_stream handle = stream == NO_STREAM ? SYNCED_MEM_NO_STREAM : world.streams[stream];
    const unsigned allowed = write_allowed(object, stream);
    const size_t moved = bytes_from_device(object);
    code_line("(void)synced_mem_async_write_file(mem[%d], file, %zu, stream[%d]);", op->object, offset, stream);
    call_begins(NULL, op->code, stream);
    const bool ok =
        answered("async_write_file", synced_mem_async_write_file(object->mem, files.written, offset, handle), allowed);
    call_moved(ref_most_transfers(object), 0, ok ? moved : 0);
    if (ok && object->size > 0) {
        files.reads_contents = true;
        note_written(object, offset);
        ref_written_to_file(object);
    } else if (!ok) {
        call_failed(object, device_for(object));
    }
    check_facts(object);
    if (op->b % 16 < 3)
        files_check();
    return true;
}

/* ---- Stores ---- */

static size_t find_place(const struct object *object)
{
    const size_t owner = (size_t)(object->owner - world.objects);
    if (files.owners[owner] != object->owner->mem) {
        files.owners[owner] = object->owner->mem;
        files.places[owner] = files.next_place;
        files.next_place += MAX_SIZE;
    }
    return files.places[owner] + object->offset;
}

static size_t bytes_to_store_from_device(const struct object *object)
{
    size_t bytes = 0;
    for
        EACH_PART(part, object)
        {
            bytes += part->head == SYNCED_MEM_AT_GPU && !(part->in_file && part->stored) ? part_size(part) : 0;
        }
    return bytes;
}

/* Each object has a place of its own, so none is refused because of another one. */
static bool store_in_file(const struct op *op, struct object *object)
{
    const size_t place = find_place(object), moved = bytes_to_store_from_device(object);
    const struct object *const root = object->root ? object->root : object;
    const bool can_be_in_file = root->placement == SYNCED_MEM_PLACEMENT_SEPARATE && !has_user_memory(object->owner);
    const unsigned allowed = can_be_in_file ? write_allowed(object, NO_STREAM) : 1u << SYNCED_MEM_ERR_INVALID_STATE;
    code_line("(void)synced_mem_async_store_in_file(mem[%d], stored, %zu, SYNCED_MEM_NO_STREAM);", op->object, place);
    call_begins(NULL, op->code, NO_STREAM);
    const bool ok =
        answered("async_store_in_file",
                 synced_mem_async_store_in_file(object->mem, files.stored, place, SYNCED_MEM_NO_STREAM), allowed);
    call_moved(ref_most_transfers(object), 0, ok ? moved : 0);
    (void)answered("file_wait", synced_mem_file_wait(files.stored), OK_ONLY);
    if (ok)
        ref_stored(object);
    else
        call_failed(object, device_for(object));
    check_facts(object);
    return true;
}

bool play_file(const struct op *op)
{
    struct object *const object = &world.objects[op->object];
    if ((op->code != OP_USE_FILE && op->code != OP_WRITE_FILE) || !object->mem)
        return false;
    if (op->code == OP_USE_FILE)
        return use_file(op, object);
    return op->b & 16 ? store_in_file(op, object) : write_file(op, object);
}
