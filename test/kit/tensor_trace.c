/* Allocations and frees in the pattern of training. */
#include "tensor_trace.h"

#include <assert.h>
#include <stdint.h>

enum { MOST_LIVE = 8192, KIB = 1024, FLOAT = 4 };

struct tensor {
    void *data;
    void *owner;
    size_t size;
    size_t asked; /* before the division by `shrink` */
};

static struct {
    const struct trace_user *user;
    uint64_t random;
    unsigned left; /* events */
    struct tensor live[MOST_LIVE];
    unsigned count;
} play;

static unsigned draw(unsigned below)
{
    play.random = play.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(play.random >> 33) % below;
}

/* Allocates a tensor. Does nothing once all events are used up; tensors that are live are still freed then. */
static void take(size_t size)
{
    if (play.left == 0 || play.count == MOST_LIVE)
        return;
    play.left--;
    struct tensor *const tensor = &play.live[play.count++];
    tensor->asked = size;
    tensor->size = play.user->shrink > 1 ? size / play.user->shrink + 1 : size;
    tensor->data = play.user->alloc(tensor->size, &tensor->owner);
}

static void give(unsigned index)
{
    const struct tensor tensor = play.live[index];
    play.live[index] = play.live[--play.count];
    play.user->free(tensor.data, tensor.size, tensor.owner);
    play.left -= play.left > 0;
}

static void give_down_to(unsigned count)
{
    while (play.count > count)
        give(play.count - 1);
}

/* ---- ResNet-50 ---- */

struct stage {
    unsigned blocks;
    unsigned width; /* of the 3 by 3 convolutions; four times that between the blocks */
    unsigned side;  /* of the picture */
};
static const struct stage stages[] = {{3, 64, 56}, {4, 128, 28}, {6, 256, 14}, {3, 512, 7}};

/* Scale and shift, mean and variance. */
static void norm_weights(unsigned channels)
{
    for (int i = 0; i < 4; i++)
        take((size_t)channels * FLOAT);
}

static void convolution_weights(unsigned from, unsigned to, unsigned kernel)
{
    take((size_t)from * to * kernel * kernel * FLOAT);
    norm_weights(to);
}

static void resnet_weights(void)
{
    unsigned from = 64;
    convolution_weights(3, 64, 7);
    for (unsigned s = 0; s < 4; s++)
        for (unsigned b = 0; b < stages[s].blocks; b++) {
            const unsigned width = stages[s].width;
            convolution_weights(from, width, 1);
            convolution_weights(width, width, 3);
            convolution_weights(width, 4 * width, 1);
            if (b == 0)
                convolution_weights(from, 4 * width, 1);
            from = 4 * width;
        }
    take((size_t)2048 * 1000 * FLOAT);
    take((size_t)1000 * FLOAT);
}

static void picture(unsigned batch, unsigned channels, unsigned side)
{
    take((size_t)batch * channels * side * side * FLOAT);
}

static void resnet_activations(unsigned batch)
{
    picture(batch, 3, 224);
    picture(batch, 64, 112);
    picture(batch, 64, 56);
    for (unsigned s = 0; s < 4; s++)
        for (unsigned b = 0; b < stages[s].blocks; b++) {
            picture(batch, stages[s].width, stages[s].side);
            picture(batch, stages[s].width, stages[s].side);
            picture(batch, 4 * stages[s].width, stages[s].side);
        }
    take((size_t)batch * 2048 * FLOAT);
    take((size_t)batch * 1000 * FLOAT);
    take((size_t)batch * sizeof(int64_t));
}

/* ---- A GPT ---- */

enum { LAYERS = 12, WIDTH = 768, HEADS = 12, WORDS = 50257 };

static void linear_weights(unsigned from, unsigned to)
{
    take((size_t)from * to * FLOAT);
    take((size_t)to * FLOAT);
}

static void gpt_weights(void)
{
    take((size_t)WORDS * WIDTH * FLOAT);
    take((size_t)1024 * WIDTH * FLOAT);
    for (int i = 0; i < LAYERS; i++) {
        linear_weights(2, WIDTH);
        linear_weights(WIDTH, 3 * WIDTH);
        linear_weights(WIDTH, WIDTH);
        linear_weights(2, WIDTH);
        linear_weights(WIDTH, 4 * WIDTH);
        linear_weights(4 * WIDTH, WIDTH);
    }
    linear_weights(2, WIDTH);
}

static void gpt_activations(unsigned batch)
{
    const size_t length = 64 + draw(193); /* of the longest text in the batch */
    const size_t tokens = batch * length;
    take(tokens * sizeof(int64_t));
    take(tokens * WIDTH * FLOAT);
    for (int i = 0; i < LAYERS; i++) {
        take(tokens * WIDTH * FLOAT);
        take(tokens * 3 * WIDTH * FLOAT);
        take(batch * HEADS * length * length * FLOAT);
        take(tokens * WIDTH * FLOAT);
        take(tokens * 4 * WIDTH * FLOAT);
        take(tokens * WIDTH * FLOAT);
        take(tokens * 2 * FLOAT);
    }
    take(tokens * WORDS / 8 * FLOAT);
}

/* ---- Training ---- */

/* Buffers of any size that a loader has decoded and that are not used yet. */
static void loader(void)
{
    const unsigned pieces = draw(4);
    for (unsigned i = 0; i < pieces; i++)
        take((20 + draw(600)) * (size_t)KIB + draw(1024));
}

/* Gradients of activations live for a short time. Tensors of the forward pass are freed last first. */
static void backward(unsigned weights)
{
    while (play.count > weights && play.left > 0) {
        const unsigned last = play.count - 1;
        const size_t size = play.live[last].asked;
        take(size);
        give(last);
        if (play.count > weights && draw(3) > 0)
            give(play.count - 1);
    }
    give_down_to(weights);
}

static void in_any_order(unsigned weights)
{
    while (play.count > weights + 8 && play.left > 0)
        give(weights + draw(play.count - weights));
}

static void train(enum trace_kind kind, bool pictures)
{
    const unsigned steps = 3 + draw(20);
    const unsigned copies = 1 + draw(3); /* the weights, their gradients, moments */
    const unsigned before = kind == TRACE_MIXED ? play.count : 0;
    for (unsigned i = 0; i < copies; i++)
        pictures ? resnet_weights() : gpt_weights();
    const unsigned weights = play.count;
    for (unsigned i = 0; i < steps && play.left > 0; i++) {
        const unsigned batch = 1 + draw(8);
        loader();
        pictures ? resnet_activations(batch) : gpt_activations(batch);
        kind == TRACE_TRAINING ? backward(weights) : in_any_order(weights);
    }
    if (kind == TRACE_TRAINING)
        give_down_to(before);
    else
        while (play.count > 200 && play.left > 0)
            give(draw(play.count));
}

void trace_play(enum trace_kind kind, unsigned events, const struct trace_user *user)
{
    play.user = user;
    play.random = 1;
    play.left = events;
    for (bool pictures = true; play.left > 0; pictures = !pictures)
        train(kind, pictures);
    give_down_to(0);
}
