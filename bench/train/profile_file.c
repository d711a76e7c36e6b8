/* The file and the summary of the measured parts of a step. */
#include "profile.h"

#include "failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[PROFILE_KINDS] = {"alone", "overlapped", "after"};

/* ---- JSON ---- */

static void write_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; ++text) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
    fputc('"', file);
}

static void write_summary(FILE *file, const char *name, const struct summary *s)
{
    fprintf(file, "\"%s\":{\"median\":%.7g,\"least\":%.7g,\"most\":%.7g}", name, s->median, s->least, s->most);
}

/* The name of a part before the first gradient. */
static void name_forward(const struct model *model, int part, char name[MODEL_NAME])
{
    const int layers = model->shape.layers;
    if (part == 0 || part > layers)
        snprintf(name, MODEL_NAME, "%s", part == 0 ? "embedding" : part == layers + 1 ? "scores" : "loss");
    else
        snprintf(name, MODEL_NAME, "hidden %d", part);
}

static void write_run(FILE *file, const struct profile_run *run)
{
    const struct model_shape *const shape = &run->model->shape;
    fprintf(file, "{\"profile\":1,\n\"device\":");
    write_text(file, run->backend->name);
    fprintf(file,
            ",\"on_gpu\":%s,\"ranks\":%d,\"local_ranks\":%d,\"reducer\":", run->backend->on_gpu ? "true" : "false",
            run->ranks->count, run->ranks->local_count);
    write_text(file, run->reducer);
    fprintf(file,
            ",\n\"model\":{\"context\":%d,\"embed\":%d,\"layers\":%d,\"hidden\":%d,\"vocabulary\":%d,"
            "\"parameters\":%zu},\n\"rows\":%d,\"bucket_bytes\":%zu,\"buckets\":%d",
            shape->context, shape->embed, shape->layers, shape->hidden, shape->vocabulary,
            model_shape_parameters(shape), run->rows, (size_t)run->settings->bucket * 1024, run->buckets);
}

static void write_steps(FILE *file, const struct profile_run *run, const struct profile_times *times)
{
    fprintf(file, ",\n\"steps_per_round\":%d", times->steps);
    for (int kind = 0; kind < PROFILE_KINDS && (kind == PROFILE_ALONE || run->ranks->count > 1); ++kind) {
        fprintf(file, ",\n\"%s\":{", kind_names[kind]);
        write_summary(file, "ms", &times->step[kind]);
        if (kind != PROFILE_ALONE) {
            fputc(',', file);
            write_summary(file, "waited_ms", &times->waited[kind]);
            fputc(',', file);
            write_summary(file, "share_not_hidden", &times->unhidden[kind]);
        }
        fprintf(file, ",\"characters_per_second\":%.7g}",
                1e3 * run->rows * run->ranks->count / times->step[kind].median);
    }
}

static void write_parts(FILE *file, const struct profile_run *run, const struct profile_times *times)
{
    const struct model *const model = run->model;
    const int first = model_gradient_part(model, 0);
    char name[MODEL_NAME];
    for (int part = 0; part < first; ++part) {
        name_forward(model, part, name);
        fprintf(file, "%s\n{\"name\":\"%s\",", part ? "," : ",\n\"forward\":[", name);
        write_summary(file, "ms", &times->parts[part]);
        fputc('}', file);
    }
    for (int i = 0; i < model->count; ++i) {
        fprintf(file, "%s\n{\"name\":\"%s\",\"bytes\":%zu,", i ? "," : "],\n\"backward\":[", model->names[i],
                synced_mem_size(model->parameters[i].grad));
        write_summary(file, "ms", &times->parts[first + i]);
        fputc('}', file);
    }
    fprintf(file, "],\n\"optimizer\":{");
    write_summary(file, "ms", &times->parts[first + model->count]);
    fputc('}', file);
}

static void write_reductions(FILE *file, const struct profile_run *run, const struct profile_times *times)
{
    for (int i = 0; i < PROFILE_SIZES; ++i) {
        fprintf(file, "%s\n{\"bytes\":%d,", i ? "," : ",\n\"reductions\":[", PROFILE_FIRST_SIZE << i);
        write_summary(file, "ms", &times->reductions[i]);
        fputc('}', file);
    }
    fprintf(file, "],\n\"flat\":{\"bytes\":%zu,", synced_mem_size(run->model->all.grad));
    write_summary(file, "library_ms", &times->library);
    fputc(',', file);
    write_summary(file, "plain_ms", &times->plain);
    fputc(',', file);
    write_summary(file, "ratio", &times->ratio);
    fputc('}', file);
}

static bool fail_at(const char *path)
{
    return fail("%s: %s", path, strerror(errno));
}

bool profile_can_write(const char *path)
{
    FILE *const file = fopen(path, "a");
    if (!file)
        return fail_at(path);
    return fclose(file) == 0 || fail_at(path);
}

bool profile_write(const struct profile_run *run, const struct profile_times *times, const char *path)
{
    FILE *const file = fopen(path, "w");
    if (!file)
        return fail_at(path);
    write_run(file, run);
    write_steps(file, run, times);
    write_parts(file, run, times);
    if (run->ranks->count > 1)
        write_reductions(file, run, times);
    fprintf(file, "}\n");
    const bool written = !ferror(file);
    return (fclose(file) == 0 && written) || fail_at(path);
}

/* ---- The summary ---- */

static void print_steps(const struct profile_run *run, const struct profile_times *times)
{
    static const char *const words[PROFILE_KINDS] = {"without reductions", "reductions beside the backward pass",
                                                     "one reduction after it"};
    printf("\nms per step                              median       least        most  characters/s  not hidden\n");
    for (int kind = 0; kind < PROFILE_KINDS && (kind == PROFILE_ALONE || run->ranks->count > 1); ++kind) {
        const struct summary *const step = &times->step[kind];
        printf("%-35s %11.4f %11.4f %11.4f %13.0f", words[kind], step->median, step->least, step->most,
               1e3 * run->rows * run->ranks->count / step->median);
        if (kind != PROFILE_ALONE)
            printf("   %7.2f %%", 100 * times->unhidden[kind].median);
        printf("\n");
    }
}

void profile_print(const struct profile_run *run, const struct profile_times *times)
{
    const struct model_shape *const shape = &run->model->shape;
    printf("device      %s\n", run->backend->name);
    printf("model       context %d, embedding %d, hidden %d x %d: %zu parameters\n", shape->context, shape->embed,
           shape->layers, shape->hidden, model_shape_parameters(shape));
    printf("ranks       %d of %d windows each; %d steps a round\n", run->ranks->count, run->rows, times->steps);
    print_steps(run, times);
    if (run->ranks->count == 1)
        return;
    printf("\nreductions  by %s, %d bucket%s\n", run->reducer, run->buckets, run->buckets == 1 ? "" : "s");
    for (int i = 0; i < PROFILE_SIZES; ++i) {
        const double bytes = PROFILE_FIRST_SIZE << i;
        const double ms = times->reductions[i].median;
        printf("%10.0f bytes %11.4f ms %9.3f GB/s\n", bytes, ms, ms > 0 ? bytes / ms / 1e6 : 0.0);
    }
    printf("all gradients, %zu bytes: %.4f ms by the library's pointers, %.4f ms in other memory, ratio %.4f\n",
           synced_mem_size(run->model->all.grad), times->library.median, times->plain.median, times->ratio.median);
}
