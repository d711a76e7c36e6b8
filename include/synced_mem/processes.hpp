/**
 * @file
 * Shareable objects in C++: turns and slots as guards. Defaults: synced_mem.hpp. Details: docs/guide/processes.md.
 */
#ifndef SYNCED_MEM_PROCESSES_HPP
#define SYNCED_MEM_PROCESSES_HPP

#include "../synced_mem.hpp"

#if SYNCED_MEM_EXCEPTIONS
#include <exception>
#endif

namespace synced
{

inline namespace SYNCED_MEM_FAILURES
{

/** The guard of a turn of the process, with a reference to the object. Its end ends the turn; if an exception leaves
 * the guard's block, it abandons the turn. In what follows a timeout of 0 tries once, a negative one waits for ever,
 * and an end by timeout is ERR_TIMEOUT. @since 0.2 */
class turn
{
  public:
    /** Makes an empty guard. */
    turn() noexcept = default;

    /** Begins a turn by synced_mem_begin_turn(). After a failure the guard has no turn. */
    turn(const memory &mem, synced_mem_side side, synced_mem_turn kind, int timeout_ms)
        : turn(begin(mem, [=](synced_mem *of) { return synced_mem_begin_turn(of, side, kind, timeout_ms); }))
    {
    }
    /** Begins a turn to read contents that are newer than a version. */
    [[nodiscard]] static turn begin_newer(const memory &mem, synced_mem_side side, std::uint64_t version,
                                          int timeout_ms)
    {
        return begin(mem, [=](synced_mem *of) { return synced_mem_begin_newer_turn(of, side, version, timeout_ms); });
    }
    /** Begins a turn to read what a slot has not consumed. Its end consumes it. */
    [[nodiscard]] static turn begin_slot(const memory &mem, synced_mem_side side, int number, int timeout_ms)
    {
        return begin(mem, [=](synced_mem *of) { return synced_mem_begin_slot_turn(of, side, number, timeout_ms); });
    }
    /** Begins a turn to write, once every slot has consumed the contents. */
    [[nodiscard]] static turn begin_consumed(const memory &mem, synced_mem_side side, int timeout_ms)
    {
        return begin(mem, [=](synced_mem *of) { return synced_mem_begin_consumed_turn(of, side, timeout_ms); });
    }
    /** Guards the turn that the process has already, as that in which it made the object. */
    [[nodiscard]] static turn adopt(const memory &mem)
    {
        turn result;
        result.mem_ = mem.retain();
        return result;
    }

    /** Takes the other guard's turn. */
    turn(turn &&) noexcept = default;
    /** Ends the guard's own turn, if any, and takes the other's. */
    turn &operator=(turn &&other) noexcept
    {
        turn taken(std::move(other));
        mem_.swap(taken.mem_);
        std::swap(exceptions_, taken.exceptions_);
        return *this;
    }
    /** Ends the turn, or abandons it if an exception leaves the block. If that fails, the turn goes on, and nobody
     * hears of it: release() and abandon() report it. */
    ~turn()
    {
        if (mem_)
            (void)(count_exceptions() > exceptions_ ? synced_mem_abandon_turn : synced_mem_end_turn)(mem_.get());
    }

    /** Ends the turn now; after a failure the turn goes on, and is the guard's. Does nothing to an empty guard. */
    outcome release() { return finish(synced_mem_end_turn); }
    /** Ends the turn now by synced_mem_abandon_turn(): nothing is consumed, and what was written is lost. Otherwise as
     * release(). */
    outcome abandon() { return finish(synced_mem_abandon_turn); }

    /** Returns whether there is a turn. */
    explicit operator bool() const noexcept { return static_cast<bool>(mem_); }

  private:
    template <class Begin> static turn begin(const memory &mem, Begin call)
    {
        turn result;
        memory its = mem.retain();
        if (!its)
            return result;
        if (call(its.get()) == SYNCED_MEM_OK)
            result.mem_ = std::move(its);
        else
            detail::fail();
        return result;
    }

    outcome finish(synced_mem_status (*call)(synced_mem *))
    {
        const synced_mem_status status = mem_ ? call(mem_.get()) : SYNCED_MEM_OK;
        if (status == SYNCED_MEM_OK)
            mem_ = memory();
        return check(status);
    }

    /* Counts the exceptions on their way in this thread. */
    static int count_exceptions() noexcept
    {
#if SYNCED_MEM_EXCEPTIONS
        return std::uncaught_exceptions();
#else
        return 0;
#endif
    }

    memory mem_;
    int exceptions_ = count_exceptions(); /* when the guard was made */
};

/** The guard of a reader's slot, with a reference to the object. Its end ends the slot; detach() leaves the slot to a
 * later reader, which may be another process. @since 0.2 */
class slot
{
  public:
    /** Makes an empty guard. */
    slot() noexcept = default;

    /** Takes a slot by synced_mem_take_slot(). After a failure the guard has none.
     * @param wanted  its number, or SYNCED_MEM_ANY_SLOT */
    explicit slot(const memory &mem, int wanted = SYNCED_MEM_ANY_SLOT) : mem_(mem.retain())
    {
        if (mem_ && synced_mem_take_slot(mem_.get(), wanted, &number_) != SYNCED_MEM_OK) {
            mem_ = memory();
            detail::fail();
        }
    }
    /** Guards a slot that is taken. */
    [[nodiscard]] static slot adopt(const memory &mem, int number)
    {
        slot result;
        result.mem_ = mem.retain();
        result.number_ = number;
        return result;
    }

    /** Takes the other guard's slot. */
    slot(slot &&) noexcept = default;
    /** Ends the guard's own slot, if any, and takes the other's. */
    slot &operator=(slot &&other) noexcept
    {
        slot(std::move(other)).swap(*this);
        return *this;
    }
    /** Ends the slot. If that fails, the slot stays taken, and writers wait for it: release() reports it. */
    ~slot()
    {
        if (mem_)
            (void)synced_mem_end_slot(mem_.get(), number_);
    }

    /** Ends the slot now; after a failure it stays the guard's. Does nothing to an empty guard. */
    outcome release()
    {
        const synced_mem_status status = mem_ ? synced_mem_end_slot(mem_.get(), number_) : SYNCED_MEM_OK;
        if (status == SYNCED_MEM_OK)
            mem_ = memory();
        return check(status);
    }
    /** Returns the number of the slot, which stays taken; the guard is empty. */
    [[nodiscard]] int detach() noexcept
    {
        mem_ = memory();
        return number_;
    }

    /** Returns the number, for turn::begin_slot(). */
    int number() const noexcept { return number_; }
    /** Returns whether there is a slot. */
    explicit operator bool() const noexcept { return static_cast<bool>(mem_); }
    /** Exchanges the slots of two guards. */
    void swap(slot &other) noexcept
    {
        mem_.swap(other.mem_);
        std::swap(number_, other.number_);
    }

  private:
    memory mem_;
    int number_ = SYNCED_MEM_ANY_SLOT;
};

} // namespace SYNCED_MEM_FAILURES

} // namespace synced

#endif
