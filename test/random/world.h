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
    stream_set busy;    /* the streams on which work of the caller's on it may be pending */
    unsigned long used; /* the time at which it was given back last */
};

/* ---- Objects ---- */

enum origin { NONE, OWN, BORROWED, ADOPTED };

struct copy {
    enum origin origin;
    struct block *block; /* of the caller's */
    bool locked;         /* pageable memory that was page-locked for the object */
    /* Streams of transfers that bring its contents, and that read them, unless the host has waited for them. */
    stream_set arriving, reading;
    stream_set filling; /* streams on which the caller's own work writes the contents to host memory */
};

struct object {
    synced_mem *mem; /* NULL: no object */
    unsigned references;
    size_t size;
    int device;
    size_t alignment;
    bool named;
    synced_mem_placement_kind placement; /* the requested placement */
    bool allocated[SIDES];               /* memory that is not handed in comes from a user allocator */
    unsigned head;
    bool defined; /* the contents are known: false after an overwrite, until all of them are written */
    struct copy copy[SIDES];

    /* The pointers that are valid: for the host, to read or also to write; for streams. */
    void *host;
    bool host_reads, host_writes;
    void *device_data;
    void *old;  /* a pointer requested without a stream: kernels may read through it until the memory is released */
    int writer; /* a stream, NO_STREAM, or NOBODY */
    stream_set readers; /* NO_STREAM is one of them */

    /* Streams with kernels that may be pending; "loose" ones use pointers requested without a stream. */
    stream_set writing, reading, loose_writing, loose_reading;
    /* The caller itself orders loose kernels. These are the ones since the last loose kernel on the legacy stream. */
    int loose_writer;
    stream_set loose_readers;

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
/* Returns the device that an object without a device takes when it needs one. */
int device_for(const struct object *object);

/* Returns whether one memory is both copies. Without a GPU the host has its own memory. */
bool is_shared(const struct object *object);

/* ---- Effects of calls that succeed ---- */

void ref_created(struct object *object, synced_mem *mem, size_t size);
/* ref_work() returns the work of an access. Call it before the access. */
enum work { NOTHING, ZERO, MOVE };
enum work ref_work(const struct object *object, enum side side, enum mode mode);
void ref_cpu(struct object *object, enum mode mode, void *data);
void ref_gpu(struct object *object, enum mode mode, int domain, void *data);
void ref_push(struct object *object, int stream);
void ref_pull(struct object *object, int stream);
void ref_cleared(struct object *object);
/* Return where the contents are read and written in a copy to the side. */
enum side ref_copied_from(const struct object *from, enum side side);
enum side ref_copied_to(const struct object *to, enum side side);
/* stream HOST: to the host. */
void ref_copied(struct object *to, struct object *from, enum side side, int stream);
void ref_end_use_on(struct object *object, int stream);
void ref_forget_stream(int stream);
/* The place now has a new stream. */
void ref_stream_renewed(int stream);
void ref_waited(struct object *object);
void ref_let_go(struct object *object, enum side side);
/* Hands in memory, borrowed or adopted. It holds the pattern. */
void ref_set(struct object *object, const bool sides[SIDES], struct block *const blocks[SIDES], bool adopted,
             unsigned pattern);
void ref_resized(struct object *object, size_t size, unsigned head, const size_t capacity[SIDES]);
void ref_discarded(struct object *object, size_t size, const size_t capacity[SIDES]);
void ref_released(struct object *object, enum side side);
void ref_no_pointers(struct object *object);

/* ---- Acts of the caller ---- */

bool ref_may_read(const struct object *object, int stream);
bool ref_may_write(const struct object *object, int stream);
void ref_kernel(struct object *object, int stream, bool writes);
void ref_wrote(struct object *object, size_t offset, size_t size, unsigned pattern);
/* A kernel reads through the pointer that was requested without a stream, even if the host has read since. Call it just
 * before the memory is released. */
void late_kernel(const struct op *op, const struct object *object);
void ref_stream_synced(int stream);
void ref_device_synced(int device);

/* ---- Work in flight ---- */

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
/* Returns whether the call succeeded. Fails if the status is not in the allowed set, 1 << status each. */
bool answered(const char *what, synced_mem_status status, unsigned allowed);
/* Memory that a failed call has obtained may stay as capacity, and its device too. */
void call_failed(struct object *object, int device);
void check_facts(struct object *object);
/* Takes over the object's device from the library, if more than one is possible. */
void take_device(struct object *object, int device, bool must);
void check_contents(const struct object *object, const void *data, const char *what);

enum { OK_ONLY = 1u << SYNCED_MEM_OK };

bool play_access(const struct op *op);
bool play_transfer(const struct op *op);
bool play_copy(const struct op *op);
bool play_set(const struct op *op);
bool play_share(const struct op *op);
bool play_size(const struct op *op);
bool play_life(const struct op *op);
bool play_stream(const struct op *op);
bool play_setting(const struct op *op);
bool play_mistake(const struct op *op);
bool play_act(const struct op *op);
bool play_failing(const struct op *op);

#endif
