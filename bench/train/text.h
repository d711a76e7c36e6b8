/*
 * The text: its characters as numbers of a vocabulary, and the parts held out from training.
 *
 * A character is a byte. A window is "context" characters and the one after them, the target. The text is cut into
 * blocks of equal length; every TEXT_HELD_OUT_EVERY-th one is held out. Blocks alternate over the whole file because
 * the end of a document is rarely like its beginning. A window is used only if it lies completely inside held-out text
 * or inside training text: training never sees a held-out character, not even as context.
 */
#ifndef TRAIN_TEXT_H
#define TRAIN_TEXT_H

#include "rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_HELD_OUT_EVERY 10

struct text {
    unsigned char *codes; /* length numbers below vocabulary */
    size_t length;
    int context;
    int vocabulary;             /* distinct characters */
    unsigned char symbols[256]; /* the character of each number */
    size_t block;               /* characters in a block; more than context */
    double entropy;             /* of the single characters of the whole text, in nats */
};

/* Reads the file. Fails if the file cannot be read, is empty, is not text, or is too short for the context; fail()
 * keeps the reason. */
bool text_load(struct text *text, const char *path, int context);
void text_free(struct text *text);

/* Writes a random window of training text: context + 1 numbers. With window NULL it only draws one. */
void text_training_window(const struct text *text, struct rng *rng, int32_t *window);

/* Stores begin and length of held-out block i, from 0. Returns false if no such block holds a window. */
bool text_held_out_block(const struct text *text, size_t i, size_t *begin, size_t *length);

/* Stores the numbers of characters and windows of all held-out blocks together. */
void text_held_out_total(const struct text *text, size_t *characters, size_t *windows);

#endif
