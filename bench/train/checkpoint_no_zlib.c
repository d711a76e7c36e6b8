/* Replaces checkpoint.c in a build without zlib. */
#include "checkpoint.h"
#include "failure.h"

bool checkpoint_read(struct checkpoint *checkpoint, const char *path, const struct model_shape *shape,
                     const struct text *text)
{
    (void)checkpoint, (void)shape, (void)text;
    return fail("%s: this program was built without zlib, which checkpoints need", path);
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    (void)checkpoint;
}

bool checkpoint_share(struct checkpoint *checkpoint, const struct ranks *ranks, const struct model_shape *shape)
{
    (void)checkpoint, (void)ranks, (void)shape;
    return true;
}

bool checkpoint_apply(const struct checkpoint *checkpoint, struct model *model)
{
    (void)checkpoint, (void)model;
    return true;
}

bool checkpoint_can_write(const char *path)
{
    return fail("%s: this program was built without zlib, which checkpoints need", path);
}

bool checkpoint_begin_write(const struct checkpoint *checkpoint, const char *path, struct model *model,
                            const struct text *text, struct checkpoint_writing **out)
{
    (void)checkpoint, (void)model, (void)text, (void)out;
    return fail("%s: this program was built without zlib, which checkpoints need", path);
}

bool checkpoint_end_write(struct checkpoint_writing **writing)
{
    (void)writing;
    return true;
}
