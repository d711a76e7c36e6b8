/* The ranks of a run: MPI's if its launcher has started this process, else this process alone. */
#include "ranks.h"

#include <stdlib.h>

static int one_first_failed(bool failed)
{
    return failed ? 0 : -1;
}

static bool one_broadcast(void *data, size_t size)
{
    (void)data, (void)size;
    return true;
}

static void one_abort(int code)
{
    exit(code);
}

static void one_close(void)
{
}

/* Not every MPI library starts fast, or at all, in a process without a launcher. So the environment decides. */
int ranks_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}; /* Open MPI, MPICH, both */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        const char *const rank = getenv(names[i]);
        if (rank)
            return atoi(rank);
    }
    return -1;
}

bool ranks_open(struct ranks *ranks, int *count, char ***arguments)
{
    *ranks = (struct ranks){
        .count = 1,
        .local_count = 1,
        .first_failed = one_first_failed,
        .broadcast = one_broadcast,
        .abort = one_abort,
        .close = one_close,
    };
    return ranks_launched() < 0 || ranks_open_mpi(ranks, count, arguments);
}
