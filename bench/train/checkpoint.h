/*
 * Checkpoints: a file with the parameters, the seed and the number of steps done. Training goes on from it as if it had
 * not ended, with any number of ranks.
 *
 * The file: a header of 64-bit numbers with a checksum of its own, the parameters in the model's order, and a checksum
 * of all before it. It has the byte order of the machine.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "model.h"
#include "ranks.h"
#include "text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct checkpoint {
    uint64_t seed;
    uint64_t batches; /* the state of the random numbers that draw the batches */
    int step;         /* steps done */
    float *parameters;
    size_t count; /* of them */
};

/* Reads a checkpoint of a model of this shape and of a text with the same characters. Fails if the file is anything
 * else, cut short or damaged; fail() keeps the reason. There is nothing to free then. */
bool checkpoint_read(struct checkpoint *checkpoint, const char *path, const struct model_shape *shape,
                     const struct text *text);
void checkpoint_free(struct checkpoint *checkpoint);

/* Gives the checkpoint of rank 0 to all ranks. All of them call it. */
bool checkpoint_share(struct checkpoint *checkpoint, const struct ranks *ranks, const struct model_shape *shape);

/* Overwrites the parameters of the model, on the host. */
bool checkpoint_apply(const struct checkpoint *checkpoint, struct model *model);

/* Checks before a long training whether a checkpoint can be written at path: that it names no file but a regular one,
 * and that files can be made in its folder. */
bool checkpoint_can_write(const char *path);

/* A checkpoint that is being written; NULL: none. */
struct checkpoint_writing;

/* Begins to write the parameters of the model, as they are after the steps that are queued; those of the checkpoint are
 * not used. Later steps may be queued meanwhile. Ends an earlier writing first. The file at path is replaced as a
 * whole, or not at all: the new one is written beside it, as path.partial, and renamed when it is on the disk. */
bool checkpoint_begin_write(const struct checkpoint *checkpoint, const char *path, struct model *model,
                            const struct text *text, struct checkpoint_writing **out);
/* Waits until the checkpoint is written, if there is one, and frees it. Fails if the file was not replaced. */
bool checkpoint_end_write(struct checkpoint_writing **writing);

#endif
