// Turns and slots of shareable objects as guards.
#include "kit.hpp"

#include "../../docs/code/dlpack/dlpack.h"

#include <sys/socket.h>
#include <unistd.h>
#include <utility>

using synced::memory;
using synced::slot;
using synced::turn;

namespace
{

constexpr std::size_t SIZE = 24 * sizeof(float);

static_assert(!std::is_copy_constructible_v<turn> && std::is_nothrow_move_assignable_v<turn>);
static_assert(!std::is_copy_constructible_v<slot> && std::is_nothrow_move_assignable_v<slot>);

// ---- Turns ----

memory make_shareable()
{
    synced::options options;
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    return memory(SIZE, options);
}

bool is_in_turn(memory &mem)
{
    return synced_mem_cpu_data(mem.get()) != nullptr;
}

void turn_ends()
{
    memory mem = make_shareable();
    {
        const turn making = turn::adopt(mem);
        mem.mutable_cpu_data<char>()[0] = 5;
    }
    CHECK(!is_in_turn(mem));
    {
        const turn reading(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 0);
        CHECK(reading && mem.cpu_data<char>()[0] == 5);
        throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.mutable_cpu_data(); });
        // The process has its turn already, and the failed guard holds nothing.
        throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { turn again(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 0); });
        CHECK(is_in_turn(mem));
    }
    CHECK(!is_in_turn(mem));
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { turn::adopt(mem).release(); });
}

std::uint64_t version_of(const memory &mem)
{
    std::uint64_t version;
    synced::check(synced_mem_contents_version(mem.get(), &version));
    return version;
}

// Returns the version that a slot has consumed; -1: it is not taken.
long consumed_by(const memory &mem, int number)
{
    std::uint64_t version;
    return synced_mem_slot_version(mem.get(), number, &version) == SYNCED_MEM_OK ? static_cast<long>(version) : -1;
}

// Ends a turn of its own while an exception is on its way: it leaves no block of this one.
struct EndsTurnLater {
    memory &mem;
    ~EndsTurnLater()
    {
        turn writing(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_WRITE, 0);
        mem.mutable_cpu_data<char>()[0] = 8;
        turn moved = std::move(writing);
        writing = std::move(moved);
    }
};

void turn_ends_with_an_exception()
{
    memory mem = make_shareable();
    const slot reader(mem, 0);
    turn::adopt(mem).release();
    try {
        turn first = turn::begin_slot(mem, SYNCED_MEM_SIDE_CPU, 0, 0);
        const turn reading = std::move(first);
        throw 1;
    } catch (int) {
        CHECK(!is_in_turn(mem) && consumed_by(mem, 0) == 0);
    }
    turn::begin_slot(mem, SYNCED_MEM_SIDE_CPU, 0, 0).release();
    CHECK(consumed_by(mem, 0) == 1);
    try {
        turn writing;
        writing = turn(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_WRITE, 0);
        mem.mutable_cpu_data<char>()[0] = 7;
        throw 1;
    } catch (int) {
        CHECK(!is_in_turn(mem) && version_of(mem) == 1);
    }
    try {
        const EndsTurnLater later{mem};
        throw 1;
    } catch (int) {
        CHECK(!is_in_turn(mem) && version_of(mem) == 2);
    }
    turn next(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_WRITE, 0);
    CHECK(mem.cpu_data<char>()[0] == 8);
    next.release();
    CHECK(!next && !is_in_turn(mem));
    next.release();
}

void turn_is_abandoned()
{
    memory mem = make_shareable();
    turn writing = turn::adopt(mem);
    synced::tensor tensor = mem.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {1});
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { writing.abandon(); });
    CHECK(writing && is_in_turn(mem));
    tensor = synced::tensor();
    writing.abandon();
    CHECK(!writing && !is_in_turn(mem) && version_of(mem) == 0);
    writing.abandon();
    turn::begin_consumed(mem, SYNCED_MEM_SIDE_CPU, 0).release();
    CHECK(version_of(mem) == 1);
}

// A tensor keeps the turn. release() reports it, and a destructor can't.
void turn_goes_on_after_a_failure()
{
    memory mem = make_shareable();
    turn writing = turn::adopt(mem);
    synced::tensor tensor = mem.to_dlpack<float>(SYNCED_MEM_SIDE_CPU, SYNCED_MEM_MUTABLE, {1});
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { writing.release(); });
    CHECK(writing && is_in_turn(mem));
    {
        const turn lost = std::move(writing);
    }
    CHECK(is_in_turn(mem)); // nobody has heard of it
    writing = turn::adopt(mem);
    tensor = synced::tensor();
    writing.release();
    CHECK(!is_in_turn(mem));
}

void turn_moves()
{
    memory one = make_shareable();
    memory two = make_shareable();
    turn first = turn::adopt(one);
    turn second(std::move(first));
    CHECK(!first && second && is_in_turn(one));
    turn &same = second;
    second = std::move(same);
    CHECK(second && is_in_turn(one));
    second = turn::adopt(two); // ends the turn of one
    CHECK(!is_in_turn(one) && is_in_turn(two));
    second = turn();
    CHECK(!is_in_turn(two));
}

// The guard has a reference of its own.
void turn_outlives_the_owner()
{
    memory mem = make_shareable();
    turn writing = turn::adopt(mem);
    mem = memory();
    CHECK(objects() == 1);
    writing.release();
    CHECK(objects() == 0);
    CHECK(turn::adopt(make_shareable()));
}

void turn_is_refused()
{
    memory mem(SIZE); // not shareable
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { turn never(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 0); });
    mem.resize(1);
    mem = make_shareable();
    turn::adopt(mem).release();
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.share(-1, 0); });
    CHECK(!is_in_turn(mem));
    const turn writing(mem, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_WRITE, 0);
    refuses([&] { mem.share(-1, 0); });
}

// Another object of the same bytes, as another process would have it.
void turn_waits_for_another()
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    memory mine = make_shareable();
    turn writing = turn::adopt(mine);
    throws(SYNCED_MEM_ERR_TIMEOUT, [&] { (void)memory::receive(ends[1], 0); });
    mine.share(ends[0], 0);
    memory theirs = memory::receive(ends[1], 1000);
    mine.mutable_cpu_data<char>()[0] = 6;
    throws(SYNCED_MEM_ERR_TIMEOUT, [&] { turn late(theirs, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 1); });
    writing.release();
    writing = turn(theirs, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 0);
    CHECK(theirs.cpu_data<char>()[0] == 6);
    throws(SYNCED_MEM_ERR_TIMEOUT, [&] { turn late(mine, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_WRITE, 1); });
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

// ---- Versions and slots ----

void write(memory &mem, char value)
{
    const turn writing = turn::begin_consumed(mem, SYNCED_MEM_SIDE_CPU, 0);
    mem.mutable_cpu_data<char>()[0] = value;
}

void slot_gets_each_version()
{
    memory mem = make_shareable();
    const slot reader(mem);
    CHECK(reader && reader.number() == 0);
    turn::adopt(mem).release();
    for (int version = 1; version < 4; version++) {
        throws(SYNCED_MEM_ERR_TIMEOUT, [&] { (void)turn::begin_consumed(mem, SYNCED_MEM_SIDE_CPU, 0); });
        {
            const turn reading = turn::begin_slot(mem, SYNCED_MEM_SIDE_CPU, reader.number(), 0);
            CHECK(reading && consumed_by(mem, 0) == version - 1);
            throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { mem.mutable_cpu_data(); });
        }
        CHECK(consumed_by(mem, 0) == version && !is_in_turn(mem));
        throws(SYNCED_MEM_ERR_TIMEOUT, [&] { (void)turn::begin_slot(mem, SYNCED_MEM_SIDE_CPU, 0, 0); });
        write(mem, static_cast<char>(version));
    }
}

void newer_versions()
{
    memory mem = make_shareable();
    turn::adopt(mem).release();
    throws(SYNCED_MEM_ERR_TIMEOUT, [&] { (void)turn::begin_newer(mem, SYNCED_MEM_SIDE_CPU, 1, 0); });
    CHECK(turn::begin_newer(mem, SYNCED_MEM_SIDE_CPU, 0, 0));
    write(mem, 3);
    const turn reading = turn::begin_newer(mem, SYNCED_MEM_SIDE_CPU, 1, 0);
    CHECK(reading && version_of(mem) == 2 && mem.cpu_data<char>()[0] == 3);
}

void slot_ends()
{
    memory mem = make_shareable();
    {
        slot reader(mem, 7);
        CHECK(consumed_by(mem, 7) == 0);
        throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { slot again(mem, 7); }); // and the failed guard ends nothing
        CHECK(consumed_by(mem, 7) == 0);
    }
    CHECK(consumed_by(mem, 7) == -1);
    slot reader(mem);
    reader.release();
    CHECK(!reader && consumed_by(mem, 0) == -1);
    reader.release();
    reader = slot(mem);
    CHECK(synced_mem_end_slot(mem.get(), 0) == SYNCED_MEM_OK); // behind the guard's back
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { reader.release(); });
    CHECK(reader);
}

void slot_moves()
{
    memory mem = make_shareable();
    slot one(mem);
    slot two(std::move(one));
    CHECK(!one && two && two.number() == 0 && consumed_by(mem, 0) == 0);
    slot &same = two;
    two = std::move(same);
    CHECK(two && consumed_by(mem, 0) == 0);
    two = slot(mem); // takes the next, and ends the first
    CHECK(two.number() == 1 && consumed_by(mem, 0) == -1 && consumed_by(mem, 1) == 0);
    two = slot();
    CHECK(consumed_by(mem, 1) == -1);
}

// A slot is left to a later reader.
void slot_is_handed_on()
{
    memory mem = make_shareable();
    int number;
    {
        slot reader(mem, 5);
        number = reader.detach();
        CHECK(!reader && number == 5);
    }
    CHECK(consumed_by(mem, 5) == 0);
    {
        const slot reader = slot::adopt(mem, number);
        mem = memory();
        CHECK(reader && objects() == 1);
    }
    CHECK(objects() == 0);
}

void slot_is_refused()
{
    memory mem(SIZE); // not shareable
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { slot never(mem); });
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { (void)turn::begin_slot(mem, SYNCED_MEM_SIDE_CPU, 0, 0); });
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { (void)turn::begin_newer(mem, SYNCED_MEM_SIDE_CPU, 0, 0); });
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { (void)turn::begin_consumed(mem, SYNCED_MEM_SIDE_CPU, 0); });
    mem.resize(1); // none is in a turn
    refuses([&] { (void)turn::begin_consumed(memory(), SYNCED_MEM_SIDE_CPU, 0); });
    refuses([&] { slot never{memory()}; });
    mem = make_shareable();
    refuses([&] { slot never(mem, 64); });
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { (void)turn::begin_slot(mem, SYNCED_MEM_SIDE_CPU, 0, 0); });
    throws(SYNCED_MEM_ERR_INVALID_STATE, [&] { slot::adopt(mem, 0).release(); });
}

const Test tests[] = {
    {"turn_ends", turn_ends, false},
    {"turn_ends_with_an_exception", turn_ends_with_an_exception, false},
    {"turn_goes_on_after_a_failure", turn_goes_on_after_a_failure, false},
    {"turn_is_abandoned", turn_is_abandoned, false},
    {"turn_moves", turn_moves, false},
    {"turn_outlives_the_owner", turn_outlives_the_owner, false},
    {"turn_is_refused", turn_is_refused, false},
    {"turn_waits_for_another", turn_waits_for_another, false},
    {"slot_gets_each_version", slot_gets_each_version, false},
    {"newer_versions", newer_versions, false},
    {"slot_ends", slot_ends, false},
    {"slot_moves", slot_moves, false},
    {"slot_is_handed_on", slot_is_handed_on, false},
    {"slot_is_refused", slot_is_refused, false},
};

} // namespace

int main()
{
    return run_tests(tests);
}
