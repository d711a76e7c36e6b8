/* The two batches that training uses in turn. */
#include "batches.h"

#include "failure.h"

bool batches_make(struct blob batches[2], int device, const struct rows *rows, int context)
{
    batches[0] = blob_make("even batch", device);
    batches[1] = blob_make("odd batch", device);
    return blob_matrix(&batches[0], rows->count, context + 1) && blob_matrix(&batches[1], rows->count, context + 1);
}

void batches_free(struct blob batches[2])
{
    blob_free(&batches[0]);
    blob_free(&batches[1]);
}

bool batch_fill(struct blob *batch, const struct rows *rows, const struct text *text, struct rng *rng)
{
    int32_t *const windows = synced_mem_overwrite_cpu_data(batch->data);
    if (!windows)
        return fail_library(batch->name);
    for (int row = 0; row < rows->all; ++row) {
        const bool own = row >= rows->first && row < rows->first + rows->count;
        text_training_window(text, rng, own ? windows + (size_t)(row - rows->first) * (size_t)batch->shape[1] : NULL);
    }
    return true;
}

bool batch_train(struct blob *batch, const struct rows *rows, struct model *model, float rate, float decay)
{
    const struct windows windows = {
        .characters = batch->data,
        .stride = batch->shape[1],
        .rows = rows->count,
        .mean_rows = rows->all,
        .context = model->shape.context,
    };
    return model_train(model, &windows, rate, decay) && model->backend->done(batch->data);
}
