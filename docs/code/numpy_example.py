"""NumPy and back: an object as an array, and an array as an object, without a copy."""
import numpy

from synced_mem_dlpack import Memory, library


def out():
    # [out]
    mem = Memory((3, 4), "float32")
    array = numpy.from_dlpack(mem)  # the host copy, without a copy of its bytes
    assert array.shape == (3, 4) and array.dtype == numpy.float32
    assert mem.head == "AT_CPU" and array.sum() == 0
    del mem  # the array keeps the object alive
    assert array.sum() == 0
    # [end]


def back():
    # [back]
    array = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    mem = Memory.from_dlpack(array)  # the object adopts the array's memory
    assert mem.shape == (3, 4) and mem.dtype == "float32" and mem.head == "AT_CPU"
    array[0, 0] = 5  # both are one memory
    assert numpy.from_dlpack(mem)[0, 0] == 5
    # [end]


out()
back()
assert library.synced_mem_shutdown() == 0
