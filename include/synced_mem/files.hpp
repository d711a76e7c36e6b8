/**
 * @file
 * Files in C++: their owner, and the calls of an object with it. Defaults: synced_mem.hpp. Details:
 * docs/guide/files.md.
 */
#ifndef SYNCED_MEM_FILES_HPP
#define SYNCED_MEM_FILES_HPP

#include "../synced_mem.hpp"

namespace synced
{

inline namespace SYNCED_MEM_FAILURES
{

/** The owner of one reference to a file, which its end gives up. Objects in the file, and writes that go on, keep it
 * open. It moves and does not copy. @since 0.2 */
class file
{
  public:
    /** Makes an empty owner. */
    file() noexcept = default;

    /** Opens the file of a descriptor once more; the descriptor stays the caller's. */
    explicit file(int descriptor)
    {
        if (synced_mem_file_open(&file_, descriptor) != SYNCED_MEM_OK)
            detail::fail();
    }

    /** Takes the other's reference; the other is empty. */
    file(file &&other) noexcept : file_(other.detach()) {}
    /** Gives up the owner's own reference, if any, and takes the other's. */
    file &operator=(file &&other) noexcept
    {
        file(std::move(other)).swap(*this);
        return *this;
    }
    /** Gives up the reference, and with it the failures that wait() has not returned. */
    ~file() { (void)synced_mem_file_release(file_); }

    /** Makes the owner of a reference that C code owned; NULL: an empty one. */
    [[nodiscard]] static file take(synced_mem_file *handle) noexcept
    {
        file result;
        result.file_ = handle;
        return result;
    }
    /** Makes the owner of a new reference to this owner's file. */
    [[nodiscard]] file retain() const
    {
        if (synced_mem_file_retain(file_) == SYNCED_MEM_OK)
            return take(file_);
        detail::fail();
        return file();
    }
    /** Returns the handle, and its reference with it; the owner is empty. */
    [[nodiscard]] synced_mem_file *detach() noexcept { return std::exchange(file_, nullptr); }

    /** Waits for the writes to the file that were begun before, and returns why the first one failed, once. */
    outcome wait() const { return check(synced_mem_file_wait(file_)); }

    /** Returns the handle, for the functions of C. */
    synced_mem_file *get() const noexcept { return file_; }
    /** Returns whether there is a file. */
    explicit operator bool() const noexcept { return file_ != nullptr; }
    /** Exchanges the files of two owners. */
    void swap(file &other) noexcept { std::swap(file_, other.file_); }

  private:
    synced_mem_file *file_ = nullptr;
};

inline outcome memory::use_file(const file &in, std::uint64_t offset)
{
    return check(synced_mem_use_file(mem_, in.get(), offset));
}

inline outcome memory::async_write_file(const file &to, std::uint64_t offset, synced_mem_stream stream)
{
    return check(synced_mem_async_write_file(mem_, to.get(), offset, stream));
}

inline outcome memory::async_store_in_file(const file &to, std::uint64_t offset, synced_mem_stream stream)
{
    return check(synced_mem_async_store_in_file(mem_, to.get(), offset, stream));
}

} // namespace SYNCED_MEM_FAILURES

} // namespace synced

#endif
