/* The reference of the random test: the state of the library and of the caller, by the one rule. */
#ifndef WORLD_H
#define WORLD_H

#include "random.h"
#include "use_memory.h"

enum side { CPU, GPU, SIDES };
enum mode { READ, MUTABLE, OVERWRITE };

/* ---- Memory of the caller ---- */

enum block_kind { PAGEABLE_BLOCK, PINNED_BLOCK, DEVICE_BLOCK };
enum block_state { BLOCK_FREE, BLOCK_BORROWED, BLOCK_ADOPTED, BLOCK_LET_GO /* and its callback is awaited */ };
/* A few of the pageable blocks are large. */
enum { BLOCK_SIZE = 4096, BLOCKS_OF_A_KIND = 6, LARGE_BLOCKS = 3 };
enum { SMALL_BLOCKS = (2 + DEVICES) * BLOCKS_OF_A_KIND, BLOCKS = SMALL_BLOCKS + LARGE_BLOCKS };

struct block {
    size_t size;
    void *base;          /* the runtime's address */
    unsigned char *data; /* inside of it, aligned to a page */
    enum block_kind kind;
    enum block_state state;
    int device;
    bool going; /* the current call may release it */
    bool poisoned;
    bool locked;        /* by the library, until the block is free */
    bool shared;        /* other objects have used it since it was taken */
    bool read_only;     /* the object that has it may not write it */
    stream_set busy;    /* the streams on which work of the caller's on it may be pending */
    unsigned long used; /* the time at which it was given back last */
};

/* ---- Objects ---- */

enum origin { NONE, OWN, BORROWED, ADOPTED };

struct copy {
    enum origin origin;
    struct block *block; /* of the caller's */
    bool locked;         /* pageable memory that was page-locked for the object */
    bool read_only;      /* the library replaces the memory instead of writing it */
};

/* The contents of an object are kept in parts. Each has a state of its own, as if it were an object. Only an object
 * with views has several parts. */
struct part {
    size_t begin, end; /* in the root */
    unsigned head;
    bool in_file;
    bool stored;  /* of contents in a file: at the place of stores */
    bool defined; /* the contents are known: false after an overwrite, until all of them are written */

    /* The pointers that are valid: for the host, to read or also to write; for streams. */
    bool host_reads, host_writes;
    bool old;           /* a pointer requested without a stream: kernels may read until the memory is released */
    int writer;         /* a stream, NO_STREAM, or NOBODY */
    stream_set readers; /* NO_STREAM is one of them */

    /* Streams of transfers that bring the contents of a side, and that read them, unless the host has waited for them.
     * Streams on which the caller's own work writes the contents to host memory. */
    stream_set arriving[SIDES], leaving[SIDES], filling;

    /* Streams with kernels that may be pending; "loose" ones use pointers requested without a stream. */
    stream_set writing, reading, loose_writing, loose_reading;
    /* The caller itself orders loose kernels. These are the ones since the last loose kernel on the legacy stream. */
    int loose_writer;
    stream_set loose_readers;
};
enum { MOST_PARTS = 128 };

struct object {
    synced_mem *mem; /* NULL: no object */
    unsigned references;
    size_t size;
    bool named;

    /* The object that has the memory and the parts: the object itself, or the root of a view with bytes. */
    struct object *owner;
    size_t offset; /* in the owner */

    /* Of a view. */
    struct object *root;
    size_t root_offset;

    /* Of an object that is no view. After the last reference is gone, it lives as long as its views. */
    int views, views_with_bytes;
    bool divided; /* it had views with bytes, or was copied with such an object: the library may still keep parts */

    /* Of an object that is no view. */
    int device;

    /* Of an owner. */
    size_t alignment;
    synced_mem_placement_kind placement; /* the requested placement */
    bool allocated[SIDES];               /* memory that is not handed in comes from a user allocator */
    struct copy copy[SIDES];
    unsigned char *host, *device_data; /* the pointers that accesses return */
    int parts;
    struct part part[MOST_PARTS];

    unsigned char bytes[MAX_SIZE];
};

/* The smallest size that the library accepts. */
enum { STAGING_BUFFER = 65536 };

struct world {
    struct object objects[OBJECTS];
    struct block blocks[BLOCKS];
    synced_mem_stream streams[STREAMS];
    int current[THREADS]; /* of each thread */
    int thread;           /* the one that plays */
    bool staged;          /* all transfers of pageable memory are staged; otherwise only pushes of more than a buffer */
    unsigned copy_threads; /* valid once staging is set */
    bool staging_set;
    bool helped;           /* copy threads may exist, which take memory of the pool at any time */
    bool allocated[SIDES]; /* an allocator for all objects was set at some time since the shutdown */
    unsigned long time;
    int alive;
};
extern struct world world;

/* Returns the stream that an object's call uses; -1: this machine has none. */
int resolve(const struct object *object, int stream);
/* Returns the object's device, which is its root's. */
static inline int get_device_of(const struct object *object)
{
    return object->root ? object->root->device : object->device;
}

/* Returns the device that an object without a device takes when it needs one. */
int device_for(const struct object *object);

/* Returns whether one memory is both copies. Without a GPU the host has its own memory. */
bool is_shared(const struct object *object);

/* ---- Parts ---- */

/* Each part of an object. */
#define EACH_PART(part, object)                                                                                        \
    (struct part *part = ref_first_part(object), *part##_end = part + ref_count_parts(object); part < part##_end;      \
     part++)
struct part *ref_first_part(const struct object *object);
int ref_count_parts(const struct object *object);
static inline size_t part_size(const struct part *part)
{
    return part->end - part->begin;
}

/* Returns whether the object is a view, or has views or several parts. */
bool ref_is_in_parts(const struct object *object);
enum shape ref_shape(const struct object *object);
/* Returns how many transfers an access makes at most. The library may keep bytes apart that are one part here, because
 * the work in flight on them differs. */
int ref_most_transfers(const struct object *object);
unsigned ref_head(const struct object *object);
/* Return whether files have all contents; whether any part has contents that a file alone has, and how many bytes;
 * whether any part has contents, and all. */
bool ref_is_in_file(const struct object *object);
bool ref_is_in_file_alone(const struct object *object);
size_t ref_bytes_in_file_alone(const struct object *object);
bool ref_has_contents(const struct object *object);
bool ref_has_all_contents(const struct object *object);
/* Return whether all parts have the head; whether any has it. */
bool ref_all_at(const struct object *object, unsigned head);
bool ref_any_at(const struct object *object, unsigned head);
bool ref_is_defined(const struct object *object);
/* Returns the expected contents. Undefined ones have any value. */
unsigned char *ref_bytes(const struct object *object);

struct range {
    size_t offset, size; /* in an object */
};
/* Uses of the pointers. Each part may permit other uses. */
enum use { HOST_READS, HOST_WRITES, STREAM_READS, STREAM_WRITES };
/* Shortens the range of an object to the first bytes that permit the use. Those to be read are defined. Returns false
 * if there are none. */
bool ref_permits(const struct object *object, enum use use, int stream, struct range *range);

void ref_viewed(struct object *view, synced_mem *mem, struct object *root, size_t offset, size_t size);
/* The view is released. */
void ref_unviewed(struct object *view);
/* Makes a border of parts in the object. */
void ref_cut(struct object *object, size_t at);
/* Joins parts that are equal, and that no view separates. */
void ref_join(struct object *root);
/* Returns whether two objects have bytes in common. */
bool ref_overlap(const struct object *one, const struct object *other);

/* Begins without objects. */
void ref_begin(void);

/* ---- Effects of calls that succeed ---- */

void ref_created(struct object *object, synced_mem *mem, size_t size);
/* Returns whether transfers of the host copy's memory end in the call. */
bool ref_host_is_pageable(const struct object *owner);
/* Returns how many bytes an access moves. Call it before the access. */
size_t ref_moved_by_access(const struct object *object, enum side side, enum mode mode);
void ref_cpu(struct object *object, enum mode mode, void *data);
void ref_gpu(struct object *object, enum mode mode, int domain, void *data);
void ref_push(struct object *object, int stream);
/* in_parts: the call has an object in parts. */
void ref_pull(struct object *object, int stream, bool in_parts);
void ref_cleared(struct object *object);
/* The contents are given up unless a file has them. */
void ref_memory_released(struct object *object);
/* The contents are these bytes of a file. */
void ref_uses_file(struct object *object, const unsigned char *bytes);
/* The contents are being written to a file. */
void ref_written_to_file(struct object *object);
/* The contents were written to the file that they are in now, but for those that were there already. */
void ref_stored(struct object *object);
/* Returns whether a release of the side's memory moves contents. */
bool ref_is_needed(const struct object *object, enum side side);
/* Return how many bytes a push, or else a pull, moves; how many a release of the side's memory moves. */
size_t ref_moved_by_transfer(const struct object *object, bool push);
size_t ref_moved_by_release(const struct object *object, enum side side);
/* Adds the bytes that a copy to the side moves to the device, and to the host. */
void ref_moved_by_copy(const struct object *to, const struct object *from, enum side side, size_t moved[SIDES]);
/* stream HOST: to the host. */
void ref_copied(struct object *to, struct object *from, enum side side, int stream);
void ref_end_use_on(struct object *object, int stream);
void ref_forget_stream(int stream);
/* The place now has a new stream. */
void ref_stream_renewed(int stream);
void ref_waited(struct object *object);
void ref_let_go(struct object *owner, enum side side);
/* The library has replaced read-only memory of the side by memory of its own. The second function is for an access that
 * would write the side, and the third for other calls that would write memory of the object, if writes is set. They
 * have no effect on other memory. */
void ref_renewed(struct object *owner, enum side side);
void ref_renewed_by_access(struct object *object, enum side side, enum mode mode);
void ref_renewed_by_call(struct object *object, enum side side, bool writes);
/* Hands in memory, borrowed or adopted. It holds the pattern. */
void ref_set(struct object *owner, const bool sides[SIDES], struct block *const blocks[SIDES], bool adopted,
             unsigned pattern);
/* Gives the side memory of the object's own, if it has none. */
void ref_obtain(struct object *owner, enum side side);
void ref_arrived(struct part *part, enum side side);
void ref_loaded(struct object *owner, struct part *part, enum side side, int stream);
void ref_resized(struct object *object, size_t size, unsigned head, const size_t capacity[SIDES]);
void ref_discarded(struct object *object, size_t size, const size_t capacity[SIDES]);
void ref_released(struct object *owner, enum side side);
void ref_no_pointers(struct object *object);

/* ---- Acts of the caller ---- */

void ref_kernel(struct object *object, struct range range, int stream, bool writes);
/* The contents of the range are known now. */
void ref_defined(struct object *object, struct range range);
void ref_wrote(struct object *object, struct range range, unsigned pattern);
/* A kernel reads through the pointer that was requested without a stream, even if the host has read since. Call it just
 * before the memory is released. */
void late_kernel(const struct object *owner);
void ref_stream_synced(int stream);
void ref_device_synced(int device);

/* ---- Work in flight ---- */

/* The copies that an access is about, 1u << CPU and 1u << GPU. */
unsigned sides_of(enum access access);
/* For an object that is not in parts. */
bool in_flight(const struct object *object, enum access access, int stream, enum flight flight);

/* ---- Blocks ---- */

void blocks_make(void);
void blocks_unmake(void);
/* Takes a free block that may be used on the stream, or by the host, at once. NULL: none, even after a wait for the
 * devices. */
struct block *block_take(enum block_kind kind, int device, int stream, size_t size);
/* Gives the block back to the caller, with the caller's pending work on `busy`. */
void block_return(struct block *block, stream_set busy);
/* Checks that memory that the library had page-locked is no longer so. */
void block_check_unlocked(struct block *block);
/* Overwrites host memory that the library must not use any more. */
void block_poison(struct block *block);
/* Permits writes to a block of the host, or forbids them: a write then ends the process. No effect on other blocks. */
void block_permit_writes(const struct block *block, bool permit);
void block_callback(void *data, void *user, synced_mem_stream stream);

/* ---- Other objects that use the same memory ---- */

/* Releases the other objects that use the block. */
void sharers_release(const struct block *block);
/* Returns the number of such objects. */
int sharers_count(void);

/* ---- Allocators of the caller's ---- */

const synced_mem_allocator *allocator_of_host(bool pinned);
const synced_mem_allocator *allocator_of_device(void);
/* Checks that all memory was given back, and frees the allocators' own. */
void allocators_unmake(void);

/* ---- Tensors ---- */

/* Makes an access by a tensor of the object's bytes, and calls its deleter. Returns the pointer; NULL: the access
 * failed. stream: that of the call, or HOST, NO_STREAM. */
void *access_by_tensor(const struct object *object, enum side side, enum mode mode, int stream,
                       synced_mem_stream handle);
/* Makes an object of a tensor of the bytes, which hands the block back. filled: the stream that fills them. */
synced_mem_status import_tensor(synced_mem **out, struct block *block, size_t size, bool read_only,
                                synced_mem_stream filled);

/* ---- The player ---- */

/* Plays the operation, if it is possible, and checks its results. */
void perform(const struct op *op);
/* Prints a line of the test that repeats the sequence. */
void code_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern bool code_wanted;

/* Enclose each call. up and down are the expected numbers of transfers in each direction; -1: any. */
void call_meets(const struct object *object, int code, int stream);
void call_begins(const struct object *object, int code, int stream);
void call_ends(int up, int down);
/* Ends a call that moves so many bytes, in so many transfers at most. */
void call_moved(int most, size_t up_bytes, size_t down_bytes);
/* Returns whether the call succeeded. Fails if the status is not in the allowed set, 1 << status each. */
bool answered(const char *what, synced_mem_status status, unsigned allowed);
/* Memory that a failed call has obtained may stay as capacity, and its device too. */
void call_failed(struct object *object, int device);
void check_facts(struct object *object);
/* Takes over the object's device from the library, if more than one is possible. */
void take_device(struct object *object, int device, bool must);
void check_contents(const struct object *object, const void *data, const char *what);

enum { OK_ONLY = 1u << SYNCED_MEM_OK };

/* Returns the second argument of the operation that makes a view. */
uint32_t view_arguments(int of, size_t size, uint32_t options);
void mistake_of_view(const struct object *of, unsigned which);

bool play_access(const struct op *op);
bool play_transfer(const struct op *op);
bool play_copy(const struct op *op);
bool play_set(const struct op *op);
bool play_share(const struct op *op);
bool play_import(const struct op *op);
bool play_size(const struct op *op);
bool play_life(const struct op *op);
bool play_view(const struct op *op);
bool play_stream(const struct op *op);
bool play_setting(const struct op *op);
bool play_mistake(const struct op *op);
bool play_act(const struct op *op);
bool play_file(const struct op *op);
void files_begin(void);
/* Waits until no write reads contents. */
void files_wait(void);
/* Waits, and compares what is known. */
void files_check(void);
/* Does so, and closes the files. */
void files_end(void);
bool play_failing(const struct op *op);

#endif
