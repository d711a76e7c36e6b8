/* Replaces ranks_mpi.c in a build without MPI. */
#include "failure.h"
#include "ranks.h"

bool ranks_open_mpi(struct ranks *ranks, int *count, char ***arguments)
{
    (void)count, (void)arguments;
    ranks->rank = ranks_launched();
    return fail("a launcher of MPI has started this program, which was built without MPI");
}
