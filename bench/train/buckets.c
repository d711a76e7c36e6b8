/* Buckets: neighbouring gradients that are reduced together. */
#include "buckets.h"

#include "failure.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME = 32 };

static size_t begin_of(const struct blob *parameter)
{
    return synced_mem_offset(parameter->grad);
}

static size_t end_of(const struct blob *parameter)
{
    return begin_of(parameter) + synced_mem_size(parameter->grad);
}

static bool add_bucket(struct buckets *buckets, const struct blob *all, const struct blob *parameters, int first,
                       int last)
{
    const size_t begin = begin_of(&parameters[first]);
    const size_t length = end_of(&parameters[last]) - begin;
    struct bucket *const bucket = &buckets->list[buckets->count];
    char name[NAME];
    synced_mem_options options;
    synced_mem_options_init(&options);
    snprintf(name, NAME, "bucket %d", buckets->count);
    options.name = name;
    *bucket = (struct bucket){.first = first, .last = last, .count = (int)(length / BLOB_ELEMENT)};
    if (synced_mem_view(&bucket->grads, all->grad, begin, length, &options) != SYNCED_MEM_OK)
        return fail_library(name);
    buckets->count++;
    return true;
}

bool buckets_make(struct buckets *buckets, struct reduce *reduce, const struct blob *all, const struct blob *parameters,
                  int count, size_t bytes)
{
    *buckets = (struct buckets){.reduce = reduce, .list = calloc((size_t)count, sizeof *buckets->list)};
    if (!buckets->list)
        return fail("out of memory for buckets");
    for (int first = 0, last; first < count; first = last + 1) {
        last = first;
        while (last + 1 < count && end_of(&parameters[last]) - begin_of(&parameters[first]) < bytes)
            ++last;
        if (!add_bucket(buckets, all, parameters, first, last))
            return false;
    }
    return true;
}

void buckets_free(struct buckets *buckets)
{
    for (int i = 0; i < buckets->count; ++i)
        synced_mem_release(buckets->list[i].grads);
    free(buckets->list);
    *buckets = (struct buckets){0};
}

bool buckets_complete(const struct buckets *buckets, int parameter)
{
    for (int i = 0; i < buckets->count; ++i) {
        const struct bucket *const bucket = &buckets->list[i];
        if (bucket->last == parameter)
            return buckets->reduce->start(buckets->reduce, bucket->grads, bucket->count, REDUCE_FLOAT);
    }
    return true;
}

bool buckets_wait(const struct buckets *buckets, int parameter)
{
    for (int i = 0; i < buckets->count; ++i) {
        const struct bucket *const bucket = &buckets->list[i];
        if (bucket->first == parameter)
            return buckets->reduce->wait(buckets->reduce, bucket->grads);
    }
    return true;
}
