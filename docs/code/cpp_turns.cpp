// Turns and slots of a shareable object as guards.
#include "check.h"

#include <synced_mem.hpp>

static float sum(synced::memory &batch)
{
    // [turn]
    synced::turn turn(batch, SYNCED_MEM_SIDE_CPU, SYNCED_MEM_TURN_READ, 1000); // waits for a second at most
    float result = 0;
    for (const float element : batch.cpu_data<float>())
        result += element;
    turn.release(); // ends the turn, and throws if that fails; without it the block's end does, and nobody hears of it
    // [end]
    return result;
}

static float read_next(synced::memory &batch, const synced::slot &reader)
{
    const synced::turn turn = synced::turn::begin_slot(batch, SYNCED_MEM_SIDE_CPU, reader.number(), 1000);
    return batch.cpu_data<float>()[0];
}

static void use_a_slot(synced::memory &batch)
{
    // [slot]
    synced::slot reader(batch); // begins with the next version
    {
        const synced::turn turn = synced::turn::begin_consumed(batch, SYNCED_MEM_SIDE_CPU, 1000); // every slot
        batch.mutable_cpu_data<float>()[0] = 4;
    }
    CHECK(read_next(batch, reader) == 4); // a turn by synced::turn::begin_slot(), which consumes the version
    reader.release();                     // writers wait for it no more
    // [end]
}

int main()
{
    // [maker]
    synced::options options;
    options.shareable = SYNCED_MEM_SHAREABLE_SAME_USER;
    synced::memory batch(100 * sizeof(float), options);
    synced::turn writing = synced::turn::adopt(batch); // an object is made in its maker's turn to write
    // [end]
    batch.mutable_cpu_data<float>()[99] = 3;
    writing.release();
    CHECK(sum(batch) == 3);
    use_a_slot(batch);
    batch.release();
    CHECK(synced_mem_shutdown() == SYNCED_MEM_OK);
    return 0;
}
