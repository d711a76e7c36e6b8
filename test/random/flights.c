/* The work in flight on an object that is not in parts. */
#include "world.h"

unsigned sides_of(enum access access)
{
    switch (access) {
    case CELL_CPU_READ:
    case CELL_CPU_MUTABLE:
    case CELL_CPU_OVERWRITE:
    case CELL_SET_CPU:
    case CELL_RELEASE_CPU:
    case CELL_CPU_COPY:
        return 1u << CPU;
    case CELL_GPU_READ:
    case CELL_GPU_MUTABLE:
    case CELL_GPU_OVERWRITE:
    case CELL_SET_GPU:
    case CELL_RELEASE_GPU:
    case CELL_END_USE_ON:
    case CELL_COPY:
        return 1u << GPU;
    case CELL_PUSH:
    case CELL_PULL:
    case CELL_SET_BOTH:
    case CELL_RELEASE_DATA:
    case CELL_RESIZE:
    case CELL_DISCARD:
    case CELL_DESTROY:
    case CELL_COPY_OUT:
    case CELL_CPU_COPY_OUT:
    case CELL_CLEAR:
    case CELL_ACCESSES:
        break;
    }
    return 1u << CPU | 1u << GPU;
}

/* Returns the transfers at the copies that the access is about. */
static stream_set transfers(const struct part *part, enum access access, bool arriving)
{
    const stream_set host = arriving ? part->arriving[CPU] | part->filling : part->leaving[CPU];
    const stream_set device = arriving ? part->arriving[GPU] : part->leaving[GPU];
    const unsigned sides = sides_of(access);
    return (sides & 1u << CPU ? host : 0) | (sides & 1u << GPU ? device : 0);
}

/* `here` means the stream of the call. For a call without a stream it means pointers requested without one. */
static bool kernel(stream_set asked, stream_set loose, int stream, bool here)
{
    const stream_set same = stream == HOST ? 0 : stream == NO_STREAM ? loose : (asked | loose) & in_set(stream);
    const stream_set all = asked | loose;
    return here ? same != 0 : stream == NO_STREAM ? asked != 0 : (all & ~same) != 0;
}

bool in_flight(const struct object *object, enum access access, int stream, enum flight flight)
{
    const struct part *const part = object->part;
    switch (flight) {
    case IDLE:
        return !(transfers(part, CELL_DESTROY, true) | transfers(part, CELL_DESTROY, false) | part->writing |
                 part->reading | part->loose_writing | part->loose_reading);
    case ARRIVING:
        return transfers(part, access, true) != 0;
    case READING:
        return transfers(part, access, false) != 0;
    case WRITES_HERE:
    case WRITES_ELSEWHERE:
        return kernel(part->writing, part->loose_writing, stream, flight == WRITES_HERE);
    case READS_HERE:
    case READS_ELSEWHERE:
    case FLIGHTS:
        break;
    }
    return kernel(part->reading, part->loose_reading, stream, flight == READS_HERE);
}
