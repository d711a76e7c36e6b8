"""
What the tests of the package share. A test file begins with "from kit import *" and ends with "main()". The environment
has the package in PYTHONPATH, the library in LD_PRELOAD, and in SYNCED_MEM_TEST_RUNTIME the CUDA runtime on which the
library is, if tests may call it.
"""
import ctypes
import gc
import os
import sys
import unittest

import synced_mem

CPU, GPU = 1, 2  # DLPack's types of devices
SKIPPED = 77


def open_runtime():
    """Returns the runtime, or None without a device. That of a path must be there, as the emulated one is."""
    name = os.environ.get("SYNCED_MEM_TEST_RUNTIME")
    if not name:
        return None
    must_be_there = os.path.isabs(name)
    try:
        found = ctypes.CDLL(name)
    except OSError:
        if must_be_there:
            raise
        return None
    assert synced_mem.device_count() > 0 or not must_be_there, "the library is not on that runtime"
    return found if synced_mem.device_count() > 0 else None


runtime = open_runtime()
has_gpu = runtime is not None
on_the_device = unittest.skipUnless(has_gpu, "no device of a runtime that the test may use")
try:
    synced_mem.Memory(1, shareable=True)
    can_share = True
except synced_mem.FileError:
    can_share = False
on_linux = unittest.skipUnless(can_share, "no objects for other processes")
try:
    import numpy
except ImportError:
    numpy = None


def objects():
    """The number of objects alive."""
    gc.collect()
    if has_gpu:
        runtime.cudaDeviceSynchronize()
    synced_mem.reap()
    return synced_mem.stats()["objects"]


class Case(unittest.TestCase):
    """Checks that nothing is left."""

    def setUp(self):
        self.assertEqual(objects(), 0)

    def tearDown(self):
        self.assertEqual(objects(), 0)


class Stream:
    """A stream of the runtime, as an object of another package. Destroys itself, as the packages' do."""
    destroyed = []

    def __init__(self, attribute="cuda_stream"):
        handle = ctypes.c_void_p()
        assert runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
        self.handle = handle.value
        if attribute == "__cuda_stream__":
            self.__cuda_stream__ = lambda: (0, handle.value)
        else:
            setattr(self, attribute, handle.value)

    def __del__(self):
        handle = ctypes.c_void_p(self.handle)
        assert runtime.cudaStreamSynchronize(handle) == 0
        assert runtime.cudaStreamDestroy(handle) == 0
        Stream.destroyed.append(self.handle)


def fill(access, value, stream=None):
    """Fills device memory on a stream."""
    handle = ctypes.c_void_p(stream.handle if stream else None)
    pointer, size = ctypes.c_void_p(access.ptr), ctypes.c_size_t(access.nbytes)
    assert runtime.cudaMemsetAsync(pointer, value, size, handle) == 0


def main():
    program = unittest.main(argv=sys.argv[:1], exit=False, verbosity=1)
    try:
        synced_mem.shutdown()
    except synced_mem.Error as error:
        print(error)
        sys.exit(1)
    sys.exit(not program.result.wasSuccessful())
