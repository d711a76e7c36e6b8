/*
 * Builds without ThreadSanitizer report no order; see order_tsan.c.
 */
#include "emu.h"

void emu_hide(void)
{
}

void emu_show(void)
{
}

void emu_order_queued(struct emu_op *op)
{
    (void)op;
}

void emu_order_function_begins(struct emu_op *op)
{
    (void)op;
}

void emu_order_function_ended(struct emu_op *op)
{
    (void)op;
}

void emu_order_saw(const struct emu_op *op)
{
    (void)op;
}

void emu_order_saw_stream(const struct emu_stream *stream)
{
    (void)stream;
}

void emu_order_saw_device(int device)
{
    (void)device;
}

void emu_order_saw_uses(const struct emu_alloc *alloc)
{
    (void)alloc;
}

void emu_order_given_back(const void *start)
{
    (void)start;
}

void emu_order_handed_out(const void *start)
{
    (void)start;
}

void emu_order_read(const void *start, size_t size)
{
    (void)start;
    (void)size;
}

void emu_order_written(const void *start, size_t size)
{
    (void)start;
    (void)size;
}

void emu_order_after(struct emu_stream *stream, struct emu_op *before)
{
    (void)stream;
    (void)before;
}

void emu_order_begins(struct emu_stream *stream, struct emu_op *op)
{
    (void)stream;
    (void)op;
}

void emu_order_done(struct emu_stream *stream, struct emu_op *op)
{
    (void)stream;
    (void)op;
}

void emu_order_stream_gone(struct emu_stream *stream)
{
    (void)stream;
}
