/**
 * @file
 * More than fits in memory, in C++: holds as guards. Defaults: synced_mem.hpp. Details: docs/guide/budget.md.
 */
#ifndef SYNCED_MEM_BUDGET_HPP
#define SYNCED_MEM_BUDGET_HPP

#include "../synced_mem.hpp"

#include <iterator>

namespace synced
{

inline namespace SYNCED_MEM_FAILURES
{

/** The guard of a hold of objects on a side, with references to them. Its end ends the hold: kernels that use their
 * pointers are queued before. @since 0.2 */
class hold
{
  public:
    /** Makes an empty guard. */
    hold() noexcept = default;

    /** Holds an object. After a failure the guard holds nothing. */
    hold(const memory &mem, synced_mem_side side, synced_mem_mode mode, synced_mem_stream stream = library_stream())
        : hold({mem.get()}, side, mode, stream)
    {
    }
    /** Holds objects in one call. After a failure the guard holds nothing; if there was no memory for a list of the
     * objects, synced_mem_last_error() is as before. */
    hold(std::initializer_list<synced_mem *> mems, synced_mem_side side, synced_mem_mode mode,
         synced_mem_stream stream = library_stream())
        : side_(side)
    {
        begin(mems, mode, stream);
    }
    /** Holds the objects of an array or container in one call, likewise.
     * @param mems  of owners or handles */
    template <class Mems>
    hold(const Mems &mems, synced_mem_side side, synced_mem_mode mode, synced_mem_stream stream = library_stream())
        : side_(side)
    {
        begin(mems, mode, stream);
    }

    /** Takes the other guard's hold. */
    hold(hold &&other) noexcept { swap(other); }
    /** Ends the guard's own hold, if any, and takes the other's. */
    hold &operator=(hold &&other) noexcept
    {
        hold(std::move(other)).swap(*this);
        return *this;
    }
    /** Ends the hold. If that fails, nobody hears of it: release() reports it. */
    ~hold()
    {
        if (handles_ != nullptr)
            (void)synced_mem_unhold_n(handles_, count_, side_);
        drop();
    }

    /** Ends the hold now; after a failure all objects stay held, and the hold is the guard's. Does nothing to an empty
     * guard. */
    outcome release()
    {
        const synced_mem_status status =
            handles_ != nullptr ? synced_mem_unhold_n(handles_, count_, side_) : SYNCED_MEM_OK;
        if (status == SYNCED_MEM_OK)
            drop();
        return check(status);
    }

    /** Returns whether there is a hold. */
    explicit operator bool() const noexcept { return handles_ != nullptr; }
    /** Exchanges the holds of two guards. */
    void swap(hold &other) noexcept
    {
        std::swap(handles_, other.handles_);
        std::swap(count_, other.count_);
        std::swap(side_, other.side_);
    }

  private:
    static synced_mem *handle_of(const memory &mem) noexcept { return mem.get(); }
    static synced_mem *handle_of(synced_mem *mem) noexcept { return mem; }

    template <class Mems> void begin(const Mems &mems, synced_mem_mode mode, synced_mem_stream stream)
    {
        handles_ = new (std::nothrow) synced_mem *[std::size(mems)];
        if (handles_ == nullptr)
            return detail::fail(SYNCED_MEM_ERR_OUT_OF_HOST_MEMORY);
        if (retain(mems) && synced_mem_hold_n(handles_, count_, side_, mode, stream) == SYNCED_MEM_OK)
            return;
        drop();
        detail::fail();
    }

    template <class Mems> bool retain(const Mems &mems) noexcept
    {
        for (const auto &each : mems) {
            if (synced_mem_retain(handle_of(each)) != SYNCED_MEM_OK)
                return false;
            handles_[count_++] = handle_of(each);
        }
        return true;
    }

    void drop() noexcept
    {
        while (count_ > 0)
            (void)synced_mem_release(handles_[--count_]);
        delete[] std::exchange(handles_, nullptr);
    }

    synced_mem **handles_ = nullptr; /* of references */
    std::size_t count_ = 0;
    synced_mem_side side_ = SYNCED_MEM_SIDE_GPU;
};

} // namespace SYNCED_MEM_FAILURES

} // namespace synced

#endif
