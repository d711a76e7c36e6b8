#include "trace_kit.h"

#include <stdio.h>
#include <unistd.h>

char path[64];
char text[16 << 20];

const char *summary(void)
{
    FILE *const file = fmemopen(text, sizeof text, "w");
    ck_assert_ptr_nonnull(file);
    OK(synced_mem_trace_summary(file));
    ck_assert_int_eq(fclose(file), 0);
    return text;
}

/* Removes a file that a killed test, in another process of the same number, may have left. */
void name_file(void)
{
    (void)snprintf(path, sizeof path, "/tmp/synced_mem_trace_%ld.json", (long)getpid());
    (void)unlink(path);
}

const char *read_file(const char *from)
{
    FILE *const file = fopen(from, "r");
    ck_assert_ptr_nonnull(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = 0;
    (void)fclose(file);
    return text;
}

void start(void)
{
    name_file();
    OK(synced_mem_trace_start(path));
}

void stop(void)
{
    OK(synced_mem_trace_stop());
    read_file(path);
    ck_assert_int_eq(unlink(path), 0);
}

unsigned count_of(const char *words)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        count++;
    return count;
}

void move(synced_mem *mem)
{
    ck_assert_ptr_nonnull(synced_mem_mutable_cpu_data(mem));
    ck_assert_ptr_nonnull(synced_mem_gpu_data_on(mem, NULL));
}

void *write_much(void *unused)
{
    synced_mem *const mem = make(SIZE);
    for (int i = 0; i < 2000; i++) {
        (void)synced_mem_mutable_cpu_data(mem);
        (void)synced_mem_resize_discard(mem, SIZE);
    }
    (void)synced_mem_release(mem);
    return unused;
}
