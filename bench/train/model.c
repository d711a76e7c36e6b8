/* The network: its layers forward and backward, and gradient descent. */
#include "model.h"

#include "failure.h"

#include <limits.h>
#include <math.h>

/* Each parameter begins at a multiple of this many elements, and so of 256 bytes: on the GPU a view is aligned as an
 * object is. */
enum { ALIGNMENT = 64 };

static const char *const names[MODEL_PARAMETERS] = {
    [MODEL_EMBEDDING] = "embedding",       [MODEL_HIDDEN_WEIGHT] = "hidden weight", [MODEL_HIDDEN_BIAS] = "hidden bias",
    [MODEL_SCORE_WEIGHT] = "score weight", [MODEL_SCORE_BIAS] = "score bias",
};

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

/* Makes all parameters one blob, and each a view of it. */
static bool make_parameters(struct model *model)
{
    const int inputs = model->context * model->embed;
    const struct {
        int dims;
        int shape[2];
    } parameters[MODEL_PARAMETERS] = {
        [MODEL_EMBEDDING] = {2, {model->vocabulary, model->embed}},
        [MODEL_HIDDEN_WEIGHT] = {2, {inputs, model->hidden}},
        [MODEL_HIDDEN_BIAS] = {1, {model->hidden, 1}},
        [MODEL_SCORE_WEIGHT] = {2, {model->hidden, model->vocabulary}},
        [MODEL_SCORE_BIAS] = {1, {model->vocabulary, 1}},
    };
    size_t first[MODEL_PARAMETERS + 1] = {0};
    for (int i = 0; i < MODEL_PARAMETERS; ++i) {
        const size_t end = first[i] + (size_t)parameters[i].shape[0] * (size_t)parameters[i].shape[1];
        first[i + 1] = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (first[MODEL_PARAMETERS] > INT_MAX)
        return fail("the model: more than %d parameters", INT_MAX);
    if (!blob_vector(&model->all, (int)first[MODEL_PARAMETERS]))
        return false;
    for (int i = 0; i < MODEL_PARAMETERS; ++i) {
        if (!blob_view(&model->parameters[i], &model->all, (int)first[i], parameters[i].dims, parameters[i].shape))
            return false;
    }
    return true;
}

static bool fill_parameters(struct model *model, struct rng *rng)
{
    const int inputs = model->context * model->embed;
    struct blob *const p = model->parameters;
    /* Initially a unit's input has unit variance. The scores start small, so that the first probabilities are nearly
     * equal. */
    return fill_random(&p[MODEL_EMBEDDING], 1.0F, rng) &&
           fill_random(&p[MODEL_HIDDEN_WEIGHT], 1.0F / sqrtf((float)inputs), rng) &&
           fill_random(&p[MODEL_HIDDEN_BIAS], 0.0F, rng) &&
           fill_random(&p[MODEL_SCORE_WEIGHT], 0.1F / sqrtf((float)model->hidden), rng) &&
           fill_random(&p[MODEL_SCORE_BIAS], 0.0F, rng);
}

bool model_make(struct model *model, const struct backend *backend, int vocabulary, int context, int embed, int hidden,
                struct rng *rng)
{
    const int device = backend->device;
    *model = (struct model){
        .backend = backend,
        .vocabulary = vocabulary,
        .context = context,
        .embed = embed,
        .hidden = hidden,
        .all = blob_make("parameters", device),
        .input = blob_make("input", device),
        .units = blob_make("units", device),
        .scores = blob_make("scores", device),
        .row_loss = blob_make("row loss", device),
        .totals = {blob_make("even total loss", device), blob_make("odd total loss", device)},
    };
    for (int i = 0; i < MODEL_PARAMETERS; ++i)
        model->parameters[i] = blob_make(names[i], device);
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
    for (int i = 0; i < MODEL_PARAMETERS; ++i)
        blob_free(&model->parameters[i]);
    blob_free(&model->all);
    blob_free(&model->input);
    blob_free(&model->units);
    blob_free(&model->scores);
    blob_free(&model->row_loss);
    blob_free(&model->totals[0]);
    blob_free(&model->totals[1]);
}

size_t model_parameter_bytes(const struct model *model)
{
    size_t bytes = 0;
    for (int i = 0; i < MODEL_PARAMETERS; ++i)
        bytes += (size_t)model->parameters[i].count * BLOB_ELEMENT;
    return bytes;
}

/* ---- The linear layer: y = x * weight + bias ---- */

static bool linear(const struct backend *backend, struct blob *x, struct blob *weight, struct blob *bias,
                   struct blob *y)
{
    const int rows = x->shape[0], inputs = weight->shape[0], outputs = weight->shape[1];
    return blob_matrix(y, rows, outputs) &&
           backend->multiply(false, false, rows, outputs, inputs, x->data, weight->data, y->data) &&
           backend->add_bias(rows, outputs, bias->data, y->data);
}

static bool linear_backward(const struct backend *backend, struct blob *x, struct blob *weight, struct blob *bias,
                            struct blob *y)
{
    const int rows = x->shape[0], inputs = weight->shape[0], outputs = weight->shape[1];
    return backend->multiply(true, false, inputs, outputs, rows, x->data, y->grad, weight->grad) &&
           backend->bias_backward(rows, outputs, y->grad, bias->grad) &&
           backend->multiply(false, true, rows, inputs, outputs, y->grad, weight->data, x->grad);
}

/* ---- The network ---- */

static bool forward(struct model *model, const struct windows *windows)
{
    const struct backend *const backend = model->backend;
    struct blob *const p = model->parameters;
    return blob_matrix(&model->input, windows->rows, model->context * model->embed) &&
           backend->embed(windows, model->embed, p[MODEL_EMBEDDING].data, model->input.data) &&
           linear(backend, &model->input, &p[MODEL_HIDDEN_WEIGHT], &p[MODEL_HIDDEN_BIAS], &model->units) &&
           backend->squash(model->units.count, model->units.data) &&
           linear(backend, &model->units, &p[MODEL_SCORE_WEIGHT], &p[MODEL_SCORE_BIAS], &model->scores);
}

static bool add_loss(struct model *model, const struct windows *windows, synced_mem *scores_grad)
{
    return blob_vector(&model->row_loss, windows->rows) &&
           model->backend->softmax_loss(windows, model->vocabulary, model->scores.data, scores_grad,
                                        model->row_loss.data, model->totals[model->total].data);
}

static bool backward(struct model *model, const struct windows *windows)
{
    const struct backend *const backend = model->backend;
    struct blob *const p = model->parameters;
    return linear_backward(backend, &model->units, &p[MODEL_SCORE_WEIGHT], &p[MODEL_SCORE_BIAS], &model->scores) &&
           backend->squash_backward(model->units.count, model->units.data, model->units.grad) &&
           linear_backward(backend, &model->input, &p[MODEL_HIDDEN_WEIGHT], &p[MODEL_HIDDEN_BIAS], &model->units) &&
           backend->embed_backward(windows, model->embed, model->vocabulary, model->input.grad,
                                   p[MODEL_EMBEDDING].grad);
}

static bool descend(struct model *model, float rate, float decay)
{
    for (int i = 0; i < MODEL_PARAMETERS; ++i) {
        struct blob *const p = &model->parameters[i];
        /* Biases do not decay: they are few, and cannot memorize inputs. */
        const float kept = p->dims > 1 ? decay : 0.0F;
        if (!model->backend->descend(p->count, rate, kept, p->grad, p->data))
            return false;
    }
    return true;
}

bool model_train(struct model *model, const struct windows *windows, float rate, float decay)
{
    return forward(model, windows) && add_loss(model, windows, model->scores.grad) && backward(model, windows) &&
           descend(model, rate, decay);
}

bool model_test(struct model *model, const struct windows *windows)
{
    return forward(model, windows) && add_loss(model, windows, NULL);
}

bool model_draw(struct model *model, const struct windows *windows)
{
    return forward(model, windows) && model->backend->draw(windows, model->vocabulary, model->scores.data);
}

bool model_end_loss(struct model *model)
{
    const struct backend *const backend = model->backend;
    const int ended = model->total;
    model->total = 1 - ended;
    return backend->fetch(model->totals[ended].data) && backend->zero(model->totals[model->total].data, sizeof(double));
}

bool model_read_loss(struct model *model, double *sum)
{
    const double *const total = synced_mem_cpu_data(model->totals[1 - model->total].data);
    if (!total)
        return fail_library("loss");
    *sum = *total;
    return true;
}
