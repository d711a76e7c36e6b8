/* The reference: what the caller's side of the world is, as the one rule has it. */
#ifndef MODEL_WORLD_H
#define MODEL_WORLD_H

#include "model.h"
#include "use_memory.h"

enum side { CPU, GPU, SIDES };
enum mode { READ, MUTABLE, OVERWRITE };

/* ---- Memory of the caller ---- */

enum block_kind { PAGEABLE_BLOCK, PINNED_BLOCK, DEVICE_BLOCK };
enum block_state { BLOCK_FREE, BLOCK_BORROWED, BLOCK_ADOPTED, BLOCK_LET_GO /* and its callback is awaited */ };
/* Of the pageable ones a few are large. */
enum { BLOCK_SIZE = 4096, BLOCKS_OF_A_KIND = 6, LARGE_BLOCKS = 3 };
enum { SMALL_BLOCKS = (2 + DEVICES) * BLOCKS_OF_A_KIND, BLOCKS = SMALL_BLOCKS + LARGE_BLOCKS };

struct block {
    size_t size;
    void *base;          /* as the runtime gave it */
    unsigned char *data; /* in it, aligned to a page */
    enum block_kind kind;
    enum block_state state;
    int device;
    bool going; /* a call is being made that may let go of it */
    bool poisoned;
    bool locked;        /* by the library; no more when it is free */
    stream_set busy;    /* where work of the caller's on it may be pending */
    unsigned long used; /* when it was given back last */
};

/* ---- Objects ---- */

enum origin { NONE, OWN, BORROWED, ADOPTED };

struct copy {
    enum origin origin;
    struct block *block; /* of the caller's */
    bool locked;         /* pageable memory that was page-locked for the object */
    /* Transfers that bring its contents, and that read them; what of them the host has waited for is left out. */
    stream_set arriving, reading;
    stream_set filling; /* the caller's own work that brings them to host memory */
};

struct object {
    synced_mem *mem; /* NULL: there is none */
    unsigned references;
    size_t size;
    int device;
    size_t alignment;
    bool named;
    synced_mem_placement_kind placement; /* that was asked for */
    bool allocated[SIDES];               /* by an allocator of the caller's, what is not handed in */
    unsigned head;
    bool defined; /* the contents: not after an overwrite, until all has been written */
    struct copy copy[SIDES];

    /* The pointers that are good: for the host, to read or to write too; for streams. */
    void *host;
    bool host_reads, host_writes;
    void *device_data;
    void *old;  /* a pointer that was asked for without a stream: kernels may read by it until the memory goes */
    int writer; /* a stream, NO_STREAM, or NOBODY */
    stream_set readers; /* NO_STREAM is one of them */

    /* Kernels that may be pending, by stream, and those on pointers that were asked for without one. */
    stream_set writing, reading, loose_writing, loose_reading;
    /* Of kernels on such pointers the caller keeps the order itself: those since the last one on the legacy stream. */
    int loose_writer;
    stream_set loose_readers;

    unsigned char bytes[MAX_SIZE];
};

/* The smallest that the library takes. */
enum { STAGING_BUFFER = 65536 };

struct world {
    struct object objects[OBJECTS];
    struct block blocks[BLOCKS];
    synced_mem_stream streams[STREAMS];
    int current[THREADS];  /* device of each thread */
    int thread;            /* that plays */
    bool staged;           /* transfers of pageable memory, all of them; else only pushes of more than a buffer */
    unsigned copy_threads; /* once staging is set */
    bool staging_set;
    bool helped;           /* there may be copy threads, which take memory of the pool's when they will */
    bool allocated[SIDES]; /* an allocator for all objects was set, some time since the shutdown */
    unsigned long time;
    int alive;
};
extern struct world world;

/* The stream that an object's call means; -1: none on this machine. */
int resolve(const struct object *object, int stream);
/* What an object without a device takes if it has to. */
int device_for(const struct object *object);

/* Whether one memory is both copies; without a GPU the host has its own. */
bool is_shared(const struct object *object);

/* ---- Effects of calls that succeed ---- */

void ref_created(struct object *object, synced_mem *mem, size_t size);
/* The access; what it moves is told before. */
enum work { NOTHING, ZERO, MOVE };
enum work ref_work(const struct object *object, enum side side, enum mode mode);
void ref_cpu(struct object *object, enum mode mode, void *data);
void ref_gpu(struct object *object, enum mode mode, int domain, void *data);
void ref_push(struct object *object, int stream);
void ref_pull(struct object *object, int stream);
void ref_cleared(struct object *object);
/* Where the contents are read and written when they are copied to the side. */
enum side ref_copied_from(const struct object *from, enum side side);
enum side ref_copied_to(const struct object *to, enum side side);
/* stream HOST: to the host. */
void ref_copied(struct object *to, struct object *from, enum side side, int stream);
void ref_end_use_on(struct object *object, int stream);
void ref_forget_stream(int stream);
/* The stream is another one from now on. */
void ref_stream_renewed(int stream);
void ref_waited(struct object *object);
void ref_let_go(struct object *object, enum side side);
/* The memory, and whose it is; the contents are the pattern's. */
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
/* A kernel uses the pointer that was asked for without a stream, though the host may have read since: just before the
 * memory goes. */
void late_kernel(const struct op *op, const struct object *object);
void ref_stream_synced(int stream);
void ref_device_synced(int device);

/* ---- What is in flight ---- */

bool in_flight(const struct object *object, enum access access, int stream, enum flight flight);

/* ---- Blocks ---- */

void blocks_make(void);
void blocks_unmake(void);
/* A free one that may be used on the stream at once, or by the host; NULL: none, though the device was waited for. */
struct block *block_take(enum block_kind kind, int device, int stream, size_t size);
/* The caller has it back, with work of its own pending there. */
void block_return(struct block *block, stream_set busy);
/* Memory that the library had page-locked is not so any more. */
void block_check_unlocked(struct block *block);
/* Writes over host memory that the library must not look at any more. */
void block_poison(struct block *block);
void block_callback(void *data, void *user, synced_mem_stream stream);

/* ---- Allocators of the caller's ---- */

const synced_mem_allocator *allocator_of_host(bool pinned);
const synced_mem_allocator *allocator_of_device(void);
/* Everything must have been given back to them. */
void allocators_unmake(void);

/* ---- The player ---- */

/* Does it, if it can be done, and checks all there is to check. */
void perform(const struct op *op);
/* What a test that repeats it would say. */
void code_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern bool code_wanted;

/* Around each call: how many transfers of each direction it has to make; -1 leaves it open. */
void call_meets(const struct object *object, int code, int stream);
void call_begins(const struct object *object, int code, int stream);
void call_ends(int up, int down);
/* Whether the call succeeded; fails if the status is none of the allowed set, 1 << status each. */
bool answered(const char *what, synced_mem_status status, unsigned allowed);
/* Memory that a failed call has obtained may stay as capacity, and the device for it. */
void call_failed(struct object *object, int device);
void check_facts(struct object *object);
/* A device that may be another one is taken as the library says. */
void take_device(struct object *object, int device, bool must);
void check_contents(const struct object *object, const void *data, const char *what);

enum { OK_ONLY = 1u << SYNCED_MEM_OK };

bool play_access(const struct op *op);
bool play_transfer(const struct op *op);
bool play_copy(const struct op *op);
bool play_set(const struct op *op);
bool play_size(const struct op *op);
bool play_life(const struct op *op);
bool play_stream(const struct op *op);
bool play_setting(const struct op *op);
bool play_mistake(const struct op *op);
bool play_act(const struct op *op);
bool play_failing(const struct op *op);

#endif
