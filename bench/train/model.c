/* The network: its layers forward and backward, and gradient descent. */
#include "model.h"

#include "failure.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

/* Each parameter begins at a multiple of this many elements, and so of 256 bytes: on the GPU a view is aligned as an
 * object is. */
enum { ALIGNMENT = 64 };

/* The layer of the scores, among the numbers of hidden layers. */
enum { SCORES = -1 };

/* The places of the parameters in their order. Hidden layers count from 0. */
static struct blob *weight_of(struct model *model, int layer)
{
    return &model->parameters[layer == SCORES ? 0 : 2 * (model->shape.layers - layer)];
}

static struct blob *bias_of(struct model *model, int layer)
{
    return weight_of(model, layer) + 1;
}

static struct blob *embedding_of(struct model *model)
{
    return &model->parameters[model->count - 1];
}

/* The blob that a hidden layer or the scores read. */
static struct blob *input_of(struct model *model, int layer)
{
    if (layer == SCORES)
        layer = model->shape.layers;
    return layer == 0 ? &model->input : &model->units[layer - 1];
}

/* Fills the blob with uniform numbers of this standard deviation. */
static bool fill_random(struct blob *blob, float deviation, struct rng *rng)
{
    float *const data = synced_mem_overwrite_cpu_data(blob->data);
    if (!data)
        return fail_library(blob->name);
    const float limit = deviation * sqrtf(3.0F);
    for (int i = 0; i < blob->count; ++i)
        data[i] = limit * rng_symmetric(rng);
    return true;
}

/* Without elements yet. */
static struct blob make_blob(const struct model *model, const char *name)
{
    struct blob blob = blob_make(name, model->backend->device);
    blob.evictable = model->holds.on;
    return blob;
}

static void name_parameters(struct model *model)
{
    const int layers = model->shape.layers;
    for (int i = 0; i < model->count; ++i) {
        const char *const part = i % 2 == 0 ? "weight" : "bias";
        if (i + 1 == model->count)
            snprintf(model->names[i], MODEL_NAME, "embedding");
        else if (i < 2)
            snprintf(model->names[i], MODEL_NAME, "score %s", part);
        else
            snprintf(model->names[i], MODEL_NAME, "hidden %s %d", part, layers - i / 2 + 1);
        model->parameters[i] = make_blob(model, model->names[i]);
    }
}

struct extent {
    int dims;
    int shape[2];
};

/* Returns how many parameters, which are matrices and vectors, a model has. */
static int count_of(const struct model_shape *s)
{
    return 2 * s->layers + 3;
}

static struct extent extent_of(const struct model_shape *s, int parameter)
{
    if (parameter + 1 == count_of(s))
        return (struct extent){2, {s->vocabulary, s->embed}};
    const int outputs = parameter < 2 ? s->vocabulary : s->hidden;
    if (parameter % 2 == 1)
        return (struct extent){1, {outputs, 1}};
    const bool first = parameter / 2 == s->layers;
    return (struct extent){2, {first ? s->context * s->embed : s->hidden, outputs}};
}

/* Views can't be evicted one by one. */
static bool make_separate_parameters(struct model *model)
{
    for (int i = 0; i < model->count; ++i) {
        const struct extent e = extent_of(&model->shape, i);
        if (!blob_reshape(&model->parameters[i], e.dims, e.shape))
            return false;
    }
    return true;
}

/* Makes all parameters one blob, and each a view of it. */
static bool make_parameters(struct model *model)
{
    size_t first[MODEL_MAX_PARAMETERS + 1] = {0};
    name_parameters(model);
    if (model->holds.on)
        return make_separate_parameters(model);
    for (int i = 0; i < model->count; ++i) {
        const struct extent e = extent_of(&model->shape, i);
        const size_t end = first[i] + (size_t)e.shape[0] * (size_t)e.shape[1];
        first[i + 1] = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (first[model->count] > INT_MAX)
        return fail("the model: more than %d parameters", INT_MAX);
    if (!blob_vector(&model->all, (int)first[model->count]))
        return false;
    for (int i = 0; i < model->count; ++i) {
        const struct extent e = extent_of(&model->shape, i);
        if (!blob_view(&model->parameters[i], &model->all, (int)first[i], e.dims, e.shape))
            return false;
    }
    return true;
}

/* Initially a unit's input has unit variance. The scores start small, so that the first probabilities are nearly
 * equal. */
static bool fill_layer(struct model *model, int layer, float scale, struct rng *rng)
{
    struct blob *const weight = weight_of(model, layer);
    return fill_random(weight, scale / sqrtf((float)weight->shape[0]), rng) &&
           fill_random(bias_of(model, layer), 0.0F, rng);
}

static bool fill_parameters(struct model *model, struct rng *rng)
{
    if (!fill_random(embedding_of(model), 1.0F, rng))
        return false;
    for (int layer = 0; layer < model->shape.layers; ++layer) {
        if (!fill_layer(model, layer, 1.0F, rng))
            return false;
    }
    return fill_layer(model, SCORES, 0.1F, rng);
}

static void make_blobs(struct model *model, const synced_mem_allocator *gradients)
{
    const int device = model->backend->device;
    model->all = blob_make("parameters", device);
    model->all.gpu_allocator = gradients;
    model->input = make_blob(model, "input");
    for (int i = 0; i < model->shape.layers; ++i)
        model->units[i] = make_blob(model, "units");
    model->scores = make_blob(model, "scores");
    model->row_loss = blob_make("row loss", device);
    model->totals[0] = blob_make("even total loss", device);
    model->totals[1] = blob_make("odd total loss", device);
}

bool model_make(struct model *model, const struct backend *backend, const struct model_shape *shape,
                const synced_mem_allocator *gradients, uint64_t budget, struct rng *rng)
{
    *model = (struct model){.backend = backend, .shape = *shape, .count = count_of(shape)};
    if (budget != SYNCED_MEM_NO_BUDGET && !holds_start(&model->holds, backend->device, budget, backend->stream))
        return false;
    make_blobs(model, gradients);
    if (make_parameters(model) && fill_parameters(model, rng) &&
        blob_vector(&model->totals[0], sizeof(double) / BLOB_ELEMENT) &&
        blob_vector(&model->totals[1], sizeof(double) / BLOB_ELEMENT) &&
        backend->zero(model->totals[0].data, sizeof(double)))
        return true;
    model_free(model);
    return false;
}

void model_free(struct model *model)
{
    holds_end(&model->holds);
    for (int i = 0; i < model->count; ++i)
        blob_free(&model->parameters[i]);
    blob_free(&model->all);
    blob_free(&model->input);
    for (int i = 0; i < model->shape.layers; ++i)
        blob_free(&model->units[i]);
    blob_free(&model->scores);
    blob_free(&model->row_loss);
    blob_free(&model->totals[0]);
    blob_free(&model->totals[1]);
}

size_t model_shape_parameters(const struct model_shape *shape)
{
    size_t parameters = 0;
    for (int i = 0; i < count_of(shape); ++i) {
        const struct extent e = extent_of(shape, i);
        parameters += (size_t)e.shape[0] * (size_t)e.shape[1];
    }
    return parameters;
}

/* ---- Stages: what is held together ---- */

static struct blob *output_of(struct model *model, int layer)
{
    return layer == SCORES ? &model->scores : &model->units[layer];
}

/* The hidden layer after another, or the scores. */
static int layer_after(const struct model *model, int layer)
{
    return layer + 1 < model->shape.layers ? layer + 1 : SCORES;
}

static struct uses uses_of_embed(struct model *model)
{
    return (struct uses){
        .objects = {[SYNCED_MEM_READ] = {embedding_of(model)->data}, [SYNCED_MEM_OVERWRITE] = {model->input.data}}};
}

static struct uses uses_of_linear(struct model *model, int layer)
{
    return (struct uses){.objects = {[SYNCED_MEM_READ] = {input_of(model, layer)->data, weight_of(model, layer)->data,
                                                          bias_of(model, layer)->data},
                                     [SYNCED_MEM_OVERWRITE] = {output_of(model, layer)->data}}};
}

static struct uses uses_of_loss(struct model *model, synced_mem *scores_grad)
{
    return (struct uses){.objects = {[SYNCED_MEM_READ] = {model->scores.data}, [SYNCED_MEM_OVERWRITE] = {scores_grad}}};
}

static struct uses uses_of_linear_backward(struct model *model, int layer)
{
    struct blob *const x = input_of(model, layer), *const weight = weight_of(model, layer);
    struct blob *const y = output_of(model, layer);
    return (struct uses){.objects = {[SYNCED_MEM_READ] = {x->data, weight->data, y->data},
                                     [SYNCED_MEM_MUTABLE] = {y->grad},
                                     [SYNCED_MEM_OVERWRITE] = {weight->grad, bias_of(model, layer)->grad, x->grad}},
                         .dead = {y->data, y->grad}};
}

static struct uses uses_of_embed_backward(struct model *model)
{
    return (struct uses){
        .objects = {[SYNCED_MEM_READ] = {model->input.grad}, [SYNCED_MEM_OVERWRITE] = {embedding_of(model)->grad}},
        .dead = {model->input.data, model->input.grad}};
}

static struct uses uses_of_descent(struct model *model, int parameter)
{
    struct blob *const p = &model->parameters[parameter];
    return (struct uses){.objects = {[SYNCED_MEM_READ] = {p->grad}, [SYNCED_MEM_MUTABLE] = {p->data}},
                         .dead = {p->grad}};
}

static bool begin_stage(struct model *model, struct uses uses)
{
    return holds_begin_stage(&model->holds, &uses);
}

static bool end_stage(struct model *model, struct uses next)
{
    return holds_end_stage(&model->holds, &next);
}

/* ---- The linear layer: y = x * weight + bias ---- */

static bool linear(struct model *model, int layer, struct blob *y)
{
    const struct backend *const backend = model->backend;
    struct blob *const x = input_of(model, layer), *const weight = weight_of(model, layer);
    const int rows = x->shape[0], inputs = weight->shape[0], outputs = weight->shape[1];
    return blob_matrix(y, rows, outputs) && begin_stage(model, uses_of_linear(model, layer)) &&
           backend->multiply(false, false, rows, outputs, inputs, x->data, weight->data, y->data) &&
           backend->add_bias(rows, outputs, bias_of(model, layer)->data, y->data);
}

int model_gradient_part(const struct model *model, int parameter)
{
    return model->shape.layers + 3 + parameter;
}

/* Called when a part of a step is queued. */
static bool queued(struct model *model, int part)
{
    return !model->probe || model->probe->queued(model->probe, part);
}

/* Called when the gradient of the parameter is queued. */
static bool complete(struct model *model, const struct blob *parameter)
{
    const int number = (int)(parameter - model->parameters);
    return queued(model, model_gradient_part(model, number)) &&
           (!model->buckets || buckets_complete(model->buckets, number));
}

/* The gradients of the parameters come first, so that their reduction runs beside the gradient of x. */
static bool linear_backward(struct model *model, int layer, struct blob *y)
{
    const struct backend *const backend = model->backend;
    struct blob *const x = input_of(model, layer), *const weight = weight_of(model, layer);
    struct blob *const bias = bias_of(model, layer);
    const int rows = x->shape[0], inputs = weight->shape[0], outputs = weight->shape[1];
    return backend->multiply(true, false, inputs, outputs, rows, x->data, y->grad, weight->grad) &&
           complete(model, weight) && backend->bias_backward(rows, outputs, y->grad, bias->grad) &&
           complete(model, bias) &&
           backend->multiply(false, true, rows, inputs, outputs, y->grad, weight->data, x->grad);
}

/* ---- The network ---- */

static bool forward(struct model *model, const struct windows *windows)
{
    const struct backend *const backend = model->backend;
    const struct model_shape *const s = &model->shape;
    if (!blob_matrix(&model->input, windows->rows, s->context * s->embed) ||
        !begin_stage(model, uses_of_embed(model)) ||
        !backend->embed(windows, s->embed, embedding_of(model)->data, model->input.data) || !queued(model, 0) ||
        !end_stage(model, uses_of_linear(model, 0)))
        return false;
    for (int layer = 0; layer < s->layers; ++layer) {
        struct blob *const units = &model->units[layer];
        if (!linear(model, layer, units) || !backend->squash(units->count, units->data) || !queued(model, 1 + layer) ||
            !end_stage(model, uses_of_linear(model, layer_after(model, layer))))
            return false;
    }
    return linear(model, SCORES, &model->scores) && queued(model, 1 + s->layers) &&
           end_stage(model, uses_of_loss(model, NULL));
}

static bool add_loss(struct model *model, const struct windows *windows, synced_mem *scores_grad)
{
    return blob_vector(&model->row_loss, windows->rows) && begin_stage(model, uses_of_loss(model, scores_grad)) &&
           model->backend->softmax_loss(windows, model->shape.vocabulary, model->scores.data, scores_grad,
                                        model->row_loss.data, model->totals[model->total].data);
}

static bool backward(struct model *model, const struct windows *windows)
{
    const struct backend *const backend = model->backend;
    const struct model_shape *const s = &model->shape;
    if (!begin_stage(model, uses_of_linear_backward(model, SCORES)) ||
        !linear_backward(model, SCORES, &model->scores) ||
        !end_stage(model, uses_of_linear_backward(model, s->layers - 1)))
        return false;
    for (int layer = s->layers - 1; layer >= 0; --layer) {
        struct blob *const units = &model->units[layer];
        if (!begin_stage(model, uses_of_linear_backward(model, layer)) ||
            !backend->squash_backward(units->count, units->data, units->grad) ||
            !linear_backward(model, layer, units) ||
            !end_stage(model, layer > 0 ? uses_of_linear_backward(model, layer - 1) : uses_of_embed_backward(model)))
            return false;
    }
    struct blob *const embedding = embedding_of(model);
    return begin_stage(model, uses_of_embed_backward(model)) &&
           backend->embed_backward(windows, s->embed, s->vocabulary, model->input.grad, embedding->grad) &&
           complete(model, embedding) && end_stage(model, uses_of_descent(model, 0));
}

static bool descend(struct model *model, float rate, float decay)
{
    for (int i = 0; i < model->count; ++i) {
        struct blob *const p = &model->parameters[i];
        /* Biases do not decay: they are few, and cannot memorize inputs. */
        const float kept = p->dims > 1 ? decay : 0.0F;
        if (model->buckets && !buckets_wait(model->buckets, i))
            return false;
        if (!begin_stage(model, uses_of_descent(model, i)) ||
            !model->backend->descend(p->count, rate, kept, p->grad, p->data) ||
            !end_stage(model, i + 1 < model->count ? uses_of_descent(model, i + 1) : uses_of_embed(model)))
            return false;
    }
    return true;
}

bool model_train(struct model *model, const struct windows *windows, float rate, float decay)
{
    struct reduce *const reduce = model->buckets ? model->buckets->reduce : NULL;
    return (!reduce || reduce->begin_step(reduce)) && queued(model, MODEL_BEGIN) && forward(model, windows) &&
           add_loss(model, windows, model->scores.grad) && queued(model, 2 + model->shape.layers) &&
           end_stage(model, uses_of_linear_backward(model, SCORES)) && backward(model, windows) &&
           descend(model, rate, decay) && queued(model, model_gradient_part(model, model->count));
}

bool model_test(struct model *model, const struct windows *windows)
{
    return forward(model, windows) && add_loss(model, windows, NULL) && end_stage(model, uses_of_embed(model));
}

bool model_draw(struct model *model, const struct windows *windows)
{
    return forward(model, windows) && begin_stage(model, uses_of_loss(model, NULL)) &&
           model->backend->draw(windows, model->shape.vocabulary, model->scores.data) &&
           end_stage(model, uses_of_embed(model));
}

bool model_end_loss(struct model *model)
{
    const struct backend *const backend = model->backend;
    const int ended = model->total;
    model->total = 1 - ended;
    if (model->buckets &&
        !model->buckets->reduce->start(model->buckets->reduce, model->totals[ended].data, 1, REDUCE_DOUBLE))
        return false;
    return backend->fetch(model->totals[ended].data) && backend->zero(model->totals[model->total].data, sizeof(double));
}

/* Waits for the sum over all ranks and for its transfer. A rank that waits without end because another has failed
 * finds that out here. */
static bool await_ranks(struct reduce *reduce, synced_mem *total)
{
    static const struct timespec pause = {.tv_nsec = 20000};
    int pending = 1;
    if (!reduce->wait(reduce, total))
        return false;
    while (reduce->check(reduce)) {
        if (synced_mem_query(total, &pending) != SYNCED_MEM_OK)
            return fail_library("loss");
        if (!pending)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

bool model_read_loss(struct model *model, double *sum)
{
    synced_mem *const object = model->totals[1 - model->total].data;
    if (model->buckets && !await_ranks(model->buckets->reduce, object))
        return false;
    const double *const total = synced_mem_cpu_data(object);
    if (!total)
        return fail_library("loss");
    *sum = *total;
    return true;
}
