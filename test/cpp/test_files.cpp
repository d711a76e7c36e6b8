// Files of synced_mem.hpp: their owner, and objects in them.
#include "kit.hpp"

#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

using synced::file;
using synced::memory;

namespace
{

constexpr std::size_t SIZE = 4096;

static_assert(!std::is_copy_constructible_v<file> && std::is_nothrow_move_assignable_v<file>);
static_assert(sizeof(file) == sizeof(void *));

// A file that goes with its descriptor.
int make_file()
{
    char path[] = "/tmp/test_cpp_XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, 2 * SIZE) == 0);
    return fd;
}

file open_file()
{
    const int fd = make_file();
    file result(fd);
    CHECK(close(fd) == 0);
    return result;
}

void contents_are_written_and_read()
{
    const file its = open_file();
    memory mem(SIZE);
    std::memset(mem.overwrite_cpu_data(), 7, SIZE);
    mem.async_write_file(its, SIZE);
    its.wait();
    CHECK(!mem.in_file());
    mem.async_store_in_file(its, 0);
    its.wait();
    CHECK(mem.in_file());
    mem.release_data();
    CHECK(mem.cpu_data<char>()[SIZE - 1] == 7);
    mem.overwrite_cpu_data();
    CHECK(!mem.in_file());
    memory zeros(SIZE);
    zeros.cpu_data();
    zeros.async_write_file(its, 0);
    memory other(SIZE);
    other.use_file(its, SIZE);
    CHECK(other.in_file() && other.head() == SYNCED_MEM_UNINITIALIZED);
    CHECK(other.cpu_data<char>()[SIZE - 1] == 7);
    other.use_file(its, 0);
    CHECK(other.cpu_data<char>()[SIZE - 1] == 0);
}

void contents_of_the_device_are_written()
{
    const Stream stream;
    const file its = open_file();
    memory mem(SIZE);
    CHECK(cudaMemsetAsync(mem.overwrite_gpu_data_on(stream), 5, SIZE, stream) == cudaSuccess);
    mem.async_write_file(its, 0, stream);
    its.wait();
    memory other(SIZE);
    other.use_file(its, 0);
    CHECK(other.cpu_data<char>()[0] == 5);
}

void owner_moves()
{
    file one = open_file();
    synced_mem_file *const raw = one.get();
    file two(std::move(one));
    CHECK(!one && two.get() == raw);
    file &same = two;
    two = std::move(same);
    CHECK(two.get() == raw);
    file three = open_file();
    three = std::move(two);
    CHECK(!two && three.get() == raw);
    file four = file::take(three.detach());
    CHECK(!three && four.get() == raw);
    const file second = four.retain();
    four = file();
    second.wait(); // the second reference is still there
}

// Objects in it keep it open.
void objects_keep_the_file()
{
    memory mem(SIZE);
    mem.use_file(open_file(), 0);
    CHECK(mem.cpu_data<char>()[0] == 0);
}

void files_are_refused()
{
    refuses([] { file never(-1); });
    int ends[2];
    CHECK(pipe(ends) == 0);
    refuses([&] { file never(ends[0]); });
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    memory mem(SIZE);
    refuses([&] { mem.use_file(file(), 0); });
    refuses([&] { mem.async_write_file(file(), 0); });
    refuses([&] { mem.async_store_in_file(file(), 0); });
    refuses([] { file().wait(); });
    refuses([] { (void)file().retain(); });
    const file its = open_file();
    throws(SYNCED_MEM_ERR_FILE, [&] { mem.use_file(its, SIZE + 1); });
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.async_write_file(its, 0); }); // no contents
}

const Test tests[] = {
    {"contents_are_written_and_read", contents_are_written_and_read, false},
    {"contents_of_the_device_are_written", contents_of_the_device_are_written, true},
    {"owner_moves", owner_moves, false},
    {"objects_keep_the_file", objects_keep_the_file, false},
    {"files_are_refused", files_are_refused, false},
};

} // namespace

int main()
{
    return run_tests(tests);
}
