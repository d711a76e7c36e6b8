/* The ranks that MPI's launcher has started. */
#include "failure.h"
#include "mpi_error.h"
#include "ranks.h"

#include <mpi.h>

bool mpi_succeeded(const char *what, int code)
{
    if (code == MPI_SUCCESS)
        return true;
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, words, &length) != MPI_SUCCESS)
        return fail_peer("%s: MPI error %d", what, code);
    return fail_peer("%s: %s", what, words);
}

static int mpi_first_failed(bool failed)
{
    int rank, count;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    int first = failed ? rank : count;
    const int code = MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!mpi_succeeded("agreement of the ranks", code))
        return rank;
    return first < count ? first : -1;
}

static bool mpi_broadcast(void *data, size_t size)
{
    static const size_t most = (size_t)1 << 30; /* MPI counts in int */
    char *bytes = data;
    for (size_t part; size > 0; bytes += part, size -= part) {
        part = size < most ? size : most;
        if (!mpi_succeeded("broadcast", MPI_Bcast(bytes, (int)part, MPI_BYTE, 0, MPI_COMM_WORLD)))
            return false;
    }
    return true;
}

static void mpi_abort(int code)
{
    MPI_Abort(MPI_COMM_WORLD, code);
}

static void mpi_close(void)
{
    MPI_Finalize();
}

static int count_local(struct ranks *ranks)
{
    MPI_Comm local;
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, ranks->rank, MPI_INFO_NULL, &local);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Comm_rank(local, &ranks->local_rank);
    MPI_Comm_size(local, &ranks->local_count);
    return MPI_Comm_free(&local);
}

/* MPI_ERRORS_RETURN: errors are returned as codes, which the program prints with its rank. By default an error ends the
 * process. */
bool ranks_open_mpi(struct ranks *ranks, int *count, char ***arguments)
{
    int level;
    ranks->rank = ranks_launched();
    if (!mpi_succeeded("MPI does not start", MPI_Init_thread(count, arguments, MPI_THREAD_SERIALIZED, &level)))
        return false;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks->count);
    ranks->first_failed = mpi_first_failed;
    ranks->broadcast = mpi_broadcast;
    ranks->abort = mpi_abort;
    ranks->close = mpi_close;
    return mpi_succeeded("ranks of this machine", count_local(ranks));
}
