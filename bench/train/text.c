/* The text: reads it, numbers its characters, and divides it into training and held-out blocks. */
#include "text.h"

#include "failure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Positions are stored in int and int32_t. */
static const size_t largest = (size_t)1 << 30;

/* Long, so that most windows cross no edge; short, so that a small file has several held-out blocks. */
static const size_t usual_block = 256;

static bool is_text(unsigned char c)
{
    return (c >= 0x20 && c != 0x7f) || c == '\t' || c == '\n' || c == '\v' || c == '\f' || c == '\r';
}

/* Checks bytes as they are read, so that a device file of endless zeros is refused at once. */
static bool check_bytes(const unsigned char *bytes, size_t offset, size_t end, const char *path)
{
    for (; offset < end; ++offset) {
        if (!is_text(bytes[offset]))
            return fail("%s: not a text file (byte 0x%02x at offset %zu)", path, bytes[offset], offset);
    }
    return true;
}

static bool grow(struct text *text, size_t *capacity, const char *path)
{
    if (text->length < *capacity)
        return true;
    const size_t wanted = *capacity ? 2 * *capacity : 65536;
    if (wanted > largest)
        return fail("%s: longer than %zu bytes", path, largest);
    unsigned char *const codes = realloc(text->codes, wanted);
    if (!codes)
        return fail("%s: out of memory for %zu bytes", path, wanted);
    text->codes = codes;
    *capacity = wanted;
    return true;
}

static bool read_stream(struct text *text, FILE *stream, const char *path)
{
    size_t capacity = 0;
    size_t got = 0;
    do {
        if (!grow(text, &capacity, path))
            return false;
        errno = 0;
        got = fread(text->codes + text->length, 1, capacity - text->length, stream);
        if (!check_bytes(text->codes, text->length, text->length + got, path))
            return false;
        text->length += got;
    } while (got > 0 && !ferror(stream));
    if (ferror(stream))
        return fail("%s: cannot be read: %s", path, strerror(errno));
    if (text->length == 0)
        return fail("%s: empty", path);
    return true;
}

static bool read_file(struct text *text, const char *path)
{
    FILE *const stream = fopen(path, "rb");
    if (!stream)
        return fail("%s: cannot be opened: %s", path, strerror(errno));
    const bool done = read_stream(text, stream, path);
    fclose(stream);
    return done;
}

static void number_characters(struct text *text)
{
    size_t counts[256] = {0};
    for (size_t i = 0; i < text->length; ++i)
        counts[text->codes[i]]++;

    unsigned char code_of[256] = {0};
    for (int c = 0; c < 256; ++c) {
        if (counts[c] == 0)
            continue;
        const double share = (double)counts[c] / (double)text->length;
        text->entropy -= share * log(share);
        code_of[c] = (unsigned char)text->vocabulary;
        text->symbols[text->vocabulary++] = (unsigned char)c;
    }
    for (size_t i = 0; i < text->length; ++i)
        text->codes[i] = code_of[text->codes[i]];
}

static bool divide(struct text *text, const char *path)
{
    const size_t context = (size_t)text->context;
    const size_t wanted = 4 * context > usual_block ? 4 * context : usual_block;
    const size_t most = text->length / TEXT_HELD_OUT_EVERY;
    text->block = wanted < most ? wanted : most;
    if (text->block <= context)
        return fail("%s: %zu characters are too few for a context of %zu, which needs %zu", path, text->length, context,
                    TEXT_HELD_OUT_EVERY * (context + 1));
    return true;
}

static bool is_held_out(const struct text *text, size_t position)
{
    return position / text->block % TEXT_HELD_OUT_EVERY == TEXT_HELD_OUT_EVERY - 1;
}

bool text_load(struct text *text, const char *path, int context)
{
    *text = (struct text){.context = context};
    if (read_file(text, path)) {
        number_characters(text);
        if (divide(text, path))
            return true;
    }
    text_free(text);
    return false;
}

void text_free(struct text *text)
{
    free(text->codes);
    *text = (struct text){0};
}

void text_training_window(const struct text *text, struct rng *rng, int32_t *window)
{
    const size_t context = (size_t)text->context;
    size_t first;
    /* A window is no longer than a block, so it touches only the blocks of its two ends. */
    do {
        first = (size_t)rng_below(rng, text->length - context);
    } while (is_held_out(text, first) || is_held_out(text, first + context));
    for (size_t i = 0; window && i <= context; ++i)
        window[i] = text->codes[first + i];
}

bool text_held_out_block(const struct text *text, size_t i, size_t *begin, size_t *length)
{
    *begin = (i * TEXT_HELD_OUT_EVERY + TEXT_HELD_OUT_EVERY - 1) * text->block;
    if (*begin >= text->length)
        return false;
    const size_t rest = text->length - *begin;
    *length = rest < text->block ? rest : text->block;
    return *length > (size_t)text->context;
}

void text_held_out_total(const struct text *text, size_t *characters, size_t *windows)
{
    size_t begin, length;
    *characters = 0;
    *windows = 0;
    for (size_t i = 0; text_held_out_block(text, i, &begin, &length); ++i) {
        *characters += length;
        *windows += length - (size_t)text->context;
    }
}
