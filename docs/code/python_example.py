"""The package synced_mem: the program of docs/guide/python.md. It needs NumPy."""
import contextlib
import os
import tempfile

import numpy
import synced_mem

have_gpu = synced_mem.device_count() > 0


def start():
    # [start]
    mem = synced_mem.Memory((3, 4), "float32", name="weights")
    array = numpy.asarray(mem.cpu("mutable"))  # the host copy, without a copy of its bytes
    array[:] = 1
    assert mem.head == "AT_CPU"
    print(numpy.asarray(mem.cpu()).sum())
    # [end]


def stale():
    # [stale]
    mem = synced_mem.Memory(4, "float32")
    old = numpy.asarray(mem.cpu())
    mem.gpu("mutable")  # conflicts with the access to the host copy
    assert mem.head == "AT_GPU" and old.shape == (4,)  # old has its memory, but no longer the contents
    new = numpy.asarray(mem.cpu())  # moved back
    # [end]
    return new


def exports():
    # [exports]
    mem = synced_mem.Memory((4, 4), "int32")
    array = numpy.asarray(mem.cpu("mutable"))
    try:
        mem.resize((8, 4))
    except BufferError as error:
        print(error)  # "1 exports of the memory exist: ..."
    del array
    mem.resize((8, 4))

    array = numpy.asarray(mem)  # the host copy to write, as the object was made without side= and mode=
    del mem
    array[0, 0] = 5  # the array keeps the object
    # [end]


def types():
    # [types]
    mem = synced_mem.Memory((2, 3), "bfloat16")
    bits = numpy.asarray(mem.cpu("mutable").view("uint16"))  # buffers have no such type, so take its bits
    bits[:] = 0x3f80  # 1.0
    # [end]


def parts():
    # [parts]
    mem = synced_mem.Memory((10, 4), "float32")
    numpy.asarray(mem[2:4].cpu("overwrite"))[:] = 7  # a view: its bytes alone are accessed
    assert mem[2].shape == (4,) and mem.reshape((4, -1)).shape == (4, 10)
    assert numpy.asarray(mem.cpu()).sum() == 56
    # [end]


def back():
    # [back]
    array = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    mem = synced_mem.from_dlpack(array)  # the object adopts the array's memory
    assert mem.shape == (3, 4) and mem.dtype == "float32" and mem.head == "AT_CPU"
    array[0, 0] = 5  # both are one memory
    assert numpy.asarray(mem.cpu())[0, 0] == 5
    # [end]


def files():
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "model.safetensors")
    # [files]
    tensors = {"a": synced_mem.Memory((2, 2), "float32"), "b": synced_mem.Memory(3, "bfloat16")}
    synced_mem.save_safetensors(tensors, path, {"format": "pt"})
    loaded = synced_mem.load_safetensors(path)  # views of one object; reads the header alone
    assert loaded["a"].shape == (2, 2) and loaded.metadata == {"format": "pt"}
    if have_gpu:
        synced_mem.push(loaded.values())  # reads all tensors to the device, without a host copy
    # [end]

    # [file]
    mem, other = synced_mem.Memory((2, 2), "float32"), synced_mem.Memory(2, "float32")
    numpy.asarray(mem.cpu("overwrite"))[:] = 3
    with open(path, "r+b") as opened:
        file = synced_mem.File(opened)
    mem.write_file(file, 1000)  # goes on beside the program; mem.wait() and calls that change mem wait for it
    file.wait()  # raises what has failed
    other.use_file(file, 1008)  # reads nothing yet
    assert other.in_file and other.head == "UNINITIALIZED"
    assert numpy.asarray(other.cpu()).tolist() == [3, 3]  # the second row
    # [end]
    folder.cleanup()


def turns():
    # [turns]
    mem = synced_mem.Memory((4,), "float32", shareable=True)  # in this process's turn to write
    mem.end_turn()
    with mem.turn("cpu", "write", timeout=10):
        numpy.asarray(mem.cpu("mutable"))[:] = 1  # the array is gone before the block ends
    # [end]

    # [slots]
    slot = mem.take_slot()  # of a reader, which begins with the next version
    with mem.turn("cpu", "write", timeout=10, consumed=True):  # waits until each slot has consumed the contents
        numpy.asarray(mem.cpu("mutable"))[:] = 2
    with contextlib.suppress(OSError), mem.turn("cpu", "read", timeout=10, slot=slot):
        raise OSError("no space for the results")  # abandons the turn: the slot has consumed nothing
    with mem.turn("cpu", "read", timeout=10, slot=slot):  # waits for contents that the slot has not consumed
        assert numpy.asarray(mem.cpu())[0] == 2 and mem.version == 3
    assert mem.slot_version(slot) == 3
    mem.end_slot(slot)
    # [end]


def holds():
    # [holds]
    layers = [synced_mem.Memory((64, 64), "float32", device=0, evictable=True) for _ in range(4)]
    for layer in layers:
        numpy.asarray(layer.cpu("overwrite"))[:] = 1
    if have_gpu:
        synced_mem.gpu_set_budget(0, 2 * layers[0].nbytes)  # room for two of them
        for i, layer in enumerate(layers):
            with synced_mem.hold(layers[i:i + 2], "gpu", "read"):  # the next one too: a prefetch
                assert layer.gpu().ptr  # kernels are queued here
        synced_mem.gpu_set_budget(0, None)
    # [end]


def errors():
    # [errors]
    mem = synced_mem.Memory(4, name="batch")
    try:
        mem.push()  # there is nothing to push
    except synced_mem.Error as error:  # InvalidStateError; without a GPU NoGpuError
        print(error.status_name, error)
    # [end]


start()
if have_gpu:
    stale()
exports()
types()
parts()
back()
files()
turns()
holds()
errors()
synced_mem.shutdown()
