/* Checks files in traces and in text: spans of their reads and writes, and the facts of objects in them. */
#include "trace_kit.h"

enum { BYTES = 700001 };

static FILE *contents;

static synced_mem_file *open_contents(void)
{
    static unsigned char bytes[BYTES];
    synced_mem_file *file = NULL;
    contents = tmpfile();
    pattern_write(bytes, BYTES, 1);
    ck_assert_uint_eq(fwrite(bytes, 1, BYTES, contents), BYTES);
    ck_assert_int_eq(fflush(contents), 0);
    OK(synced_mem_file_open(&file, fileno(contents)));
    return file;
}

static void close_contents(synced_mem_file *file)
{
    OK(synced_mem_file_release(file));
    (void)fclose(contents);
}

/* Each chunk is a span on the track of the thread that moves it, with its object and its place in the file. */
START_TEST(spans)
{
    synced_mem_file *const file = open_contents();
    synced_mem *const mem = make_named("weights", BYTES - 10), *const other = make_named("bias", 10);
    start();
    OK(synced_mem_use_file(mem, file, 0));
    OK(synced_mem_use_file(other, file, BYTES - 10));
    if (gpu_expected())
        (void)given(synced_mem_gpu_data(mem));
    else
        (void)given(synced_mem_cpu_data(mem));
    (void)given(synced_mem_cpu_data(other));
    host_fill(given(synced_mem_mutable_cpu_data(other)), 10, 2);
    OK(synced_mem_async_write_file(other, file, BYTES - 10, SYNCED_MEM_NO_STREAM));
    OK(synced_mem_file_wait(file));
    stop();
    HAS("\"name\":\"read file weights#1\",\"cat\":\"file\"");
    HAS("\"bytes\":262144,\"file_offset\":262144");
    HAS("\"name\":\"read file bias#2\"");
    HAS("\"name\":\"write file bias#2\"");
    HAS("\"bytes\":10,\"file_offset\":699991");
    ck_assert_uint_eq(count_of("\"cat\":\"file\""), 5);
    ck_assert_uint_eq(count_of("\"cat\":\"transfer\""), gpu_expected() ? 3 : 0);
    ck_assert_uint_eq(count_of("\"direction\":\"h2d\""), gpu_expected() ? 3 : 0);
    RELEASE_EACH(mem, other);
    close_contents(file);
}
END_TEST

static void print_to_text(const synced_mem *mem)
{
    FILE *const file = tmpfile();
    if (mem)
        OK(synced_mem_print(mem, file));
    else
        OK(synced_mem_print_stats(file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    (void)fclose(file);
}

START_TEST(as_text)
{
    synced_mem_file *const file = open_contents();
    synced_mem *const mem = make_named("weights", BYTES);
    synced_mem *view = NULL;
    print_to_text(NULL);
    HAS_NOT("\nfiles");
    OK(synced_mem_use_file(mem, file, 0));
    print_to_text(mem);
    HAS("UNINITIALIZED, in a file, no device yet");
    OK(synced_mem_view(&view, mem, 10, 100, NULL));
    (void)given(synced_mem_mutable_cpu_data(view));
    print_to_text(mem);
    HAS("MIXED, in a file in parts, ");
    print_to_text(view);
    HAS("AT_CPU, no device yet");
    print_to_text(NULL);
    HAS("\nfiles");
    HAS("reads                                                             1");
    RELEASE_EACH(view, mem);
    close_contents(file);
}
END_TEST

Suite *suite(void)
{
    name_file();
    Suite *const made = suite_create("trace_files");
    add_tests(add_case(made, "files"), spans, as_text);
    return made;
}
