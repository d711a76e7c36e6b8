/* Measures how far the pushes of the next batches hide behind the kernels of this one. */
#ifndef TRAIN_OVERLAP_H
#define TRAIN_OVERLAP_H

#include "backend.h"
#include "settings.h"
#include "text.h"

#include <stdbool.h>

/* Measures with the model and batch of the settings, and prints the results. */
bool overlap(const struct settings *settings, const struct text *text, const struct backend *backend);

#endif
