// Contents in a file, by synced_mem.hpp.
#include "check.h"

#include <synced_mem.hpp>

#include <cstdio>

int main()
{
    const std::size_t size = 1000;
    std::FILE *const opened = std::tmpfile();
    CHECK(opened != NULL);
    // [file]
    synced::file file(fileno(opened)); // the descriptor stays the caller's
    synced::memory mem(size);
    mem.overwrite_cpu_data<char>()[size - 1] = 5;
    mem.async_write_file(file, 0); // goes on beside the program
    file.wait();                   // throws if a write has failed

    synced::memory other(size);
    other.use_file(file, 0); // reads nothing yet
    CHECK(other.in_file() && other.cpu_data<char>()[size - 1] == 5);
    // [end]
    CHECK(std::fclose(opened) == 0);
    file = synced::file();
    mem.release();
    other.release();
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
