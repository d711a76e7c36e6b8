/* A loader process fills batches, and this process uses them. The batches are one object that both have. */
#include "check.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, BATCHES = 5, USER = 0, TIMEOUT_MS = 20000 };

static void load_batch(void *data, int number)
{
    memset(data, number, BYTES);
}

static int use_batch(const void *data)
{
    const char *const bytes = data;
    return bytes[0] == bytes[BYTES - 1] ? bytes[0] : -1;
}

/* [loader] */
static void run_loader(int socket)
{
    synced_mem *batch;
    synced_mem_options options;
    synced_mem_options_init(&options);
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    CHECK(synced_mem_create(&batch, BYTES, &options) == SYNCED_MEM_OK); /* in this process's turn to write */
    CHECK(synced_mem_take_slot(batch, USER, NULL) == SYNCED_MEM_OK);    /* for the reader, before the first batch */
    CHECK(synced_mem_share(batch, socket, TIMEOUT_MS) == SYNCED_MEM_OK);
    for (int i = 1; i <= BATCHES; i++) {
        if (i > 1) /* waits until the reader has consumed the batch before */
            CHECK(synced_mem_begin_consumed_turn(batch, SYNCED_MEM_SIDE_CPU, TIMEOUT_MS) == SYNCED_MEM_OK);
        void *const data = synced_mem_overwrite_cpu_data(batch);
        CHECK(data);
        load_batch(data, i);
        CHECK(synced_mem_end_turn(batch) == SYNCED_MEM_OK); /* the pointer expires */
    }
    CHECK(synced_mem_release(batch) == SYNCED_MEM_OK); /* a release in a turn would end it */
}
/* [end] */

/* [user] */
static int run_user(int socket)
{
    synced_mem *batch;
    int sum = 0;
    CHECK(synced_mem_receive(&batch, socket, TIMEOUT_MS) == SYNCED_MEM_OK); /* the same bytes, and no turn */
    CHECK(synced_mem_cpu_data(batch) == NULL && synced_mem_last_error() == SYNCED_MEM_ERR_INVALID_STATE);
    for (int i = 1; i <= BATCHES; i++) {
        CHECK(synced_mem_begin_slot_turn(batch, SYNCED_MEM_SIDE_CPU, USER, TIMEOUT_MS) == SYNCED_MEM_OK);
        CHECK(synced_mem_mutable_cpu_data(batch) == NULL); /* a turn to read */
        sum += use_batch(synced_mem_cpu_data(batch));
        CHECK(synced_mem_end_turn(batch) == SYNCED_MEM_OK); /* the batch is consumed */
    }
    CHECK(synced_mem_release(batch) == SYNCED_MEM_OK);
    return sum;
}
/* [end] */

static void finish_loader(pid_t loader)
{
    int how;
    CHECK(waitpid(loader, &how, 0) == loader && WIFEXITED(how) && WEXITSTATUS(how) == EXIT_SUCCESS);
}

int main(void)
{
    /* [start] */
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const pid_t loader = fork(); /* before either process uses a GPU */
    CHECK(loader >= 0);
    if (loader == 0) {
        close(ends[1]);
        run_loader(ends[0]);
        exit(EXIT_SUCCESS);
    }
    close(ends[0]);
    const int sum = run_user(ends[1]);
    /* [end] */
    close(ends[1]);
    finish_loader(loader);
    CHECK(sum == BATCHES * (BATCHES + 1) / 2); /* each batch, once */
    return EXIT_SUCCESS;
}
