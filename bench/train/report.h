/* The report of a run, on stdout. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "backend.h"
#include "ranks.h"
#include "settings.h"
#include "text.h"
#include "train.h"

/* The last line is for programs: "held-out loss X nat/char, unigram Y, gain Z". */
void report(const struct settings *settings, const struct text *text, const struct ranks *ranks,
            const struct backend *backend, const struct result *result);

#endif
