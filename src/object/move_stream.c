/* The stream of a push, pull or copy. */
#include "object/move_stream.h"

#include "base/status.h"
#include "copy/transfer.h"
#include "object/fetch_parts.h"

/* Picks an internal stream for the objects' transfers, which may come after a caller's work. */
static synced_mem_status find_internal_stream(struct synced_mem *const *mems, size_t count, int device,
                                              enum sm_side side, struct sm_stream **stream)
{
    bool follows = false;
    for (size_t i = 0; i < count && !follows; i++)
        follows = sm_moves_follow_work(mems[i], side);
    SM_TRY(sm_device_resolve(device, &device));
    return sm_transfer_stream(device, side == SM_GPU ? SM_H2D : SM_D2H, follows, stream);
}

synced_mem_status sm_move_stream(struct synced_mem *const *mems, size_t count, size_t which, enum sm_side side,
                                 synced_mem_stream handle, struct sm_stream **stream)
{
    const int device = sm_device(mems[which]);
    if (*stream && device >= 0 && device != (*stream)->device)
        return sm_fail(SYNCED_MEM_ERR_INVALID_DEVICE, "the stream is used on device %d, but the object is on device %d",
                       (*stream)->device, device);
    if (*stream)
        return SYNCED_MEM_OK;
    return handle == SM_HANDLE_OF_LIBRARY ? find_internal_stream(mems, count, device, side, stream)
                                          : sm_callers_stream(device, handle, stream);
}
