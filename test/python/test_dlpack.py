"""
test_dlpack.py LIBRARY CONSUMER [RUNTIME]: exchanges tensors between synced_mem and CONSUMER: numpy, torch, cupy or jax.
RUNTIME is a CUDA runtime whose memory the test may use, in place of a consumer on the device. Exits with 77 and a
reason if the consumer is not installed.
"""
import ctypes
import gc
import importlib
import os
import subprocess
import sys
import threading
import unittest
import weakref

os.environ["SYNCED_MEM_LIBRARY"] = sys.argv[1]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/code"))
import synced_mem_dlpack as sm  # noqa: E402  the library's name must be known
from synced_mem_dlpack import CPU, GPU, Error, Memory  # noqa: E402

SKIPPED = 77
CONSUMER = sys.argv[2]
try:
    consumer = importlib.import_module(CONSUMER)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)
if CONSUMER == "jax":
    importlib.import_module("jax.dlpack")
runtime = ctypes.CDLL(sys.argv[3]) if len(sys.argv) > 3 else None


def objects():
    """The number of objects alive."""
    gc.collect()
    sm.call("reap")
    text = ctypes.create_string_buffer(4096)
    stats = (ctypes.c_uint64 * 28).from_buffer(text)
    ctypes.c_size_t.from_buffer(text).value = stats_size
    sm.call("get_stats", text)
    return stats[1]


def find_stats_size():
    """The size of the library's struct of numbers, all of 8 bytes."""
    text = ctypes.create_string_buffer(4096)
    for size in range(8, 4096, 8):
        ctypes.c_size_t.from_buffer(text).value = size
        if sm.library.synced_mem_get_stats(text) == 0:
            return size
    raise AssertionError("no size is known")


stats_size = find_stats_size()
has_gpu = sm.library.synced_mem_device_count() > 0


class Device:
    """An array on the device, of a library that the test plays."""

    def __init__(self, mem, versioned=True):
        self.mem, self.versioned, self.streams = mem, versioned, []

    def __dlpack_device__(self):
        return self.mem.__dlpack_device__()

    def __dlpack__(self, **arguments):
        if not self.versioned and "max_version" in arguments:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.streams.append(arguments.get("stream"))
        return self.mem.__dlpack__(**arguments)


class Out(unittest.TestCase):
    """Capsules, without a consumer."""

    def tearDown(self):
        self.assertEqual(objects(), 0)

    def tensor_of(self, capsule):
        name, address = sm.take(capsule)
        return name, sm.STRUCTS[name].from_address(address)

    def test_the_version_is_the_consumer_s(self):
        mem = Memory((2, 3), "int16")
        for version, name in ((None, b"dltensor"), ((0, 8), b"dltensor"), ((1, 0), b"dltensor_versioned"),
                              ((2, 1), b"dltensor_versioned")):
            capsule = mem.__dlpack__(max_version=version)
            found, struct = self.tensor_of(capsule)
            self.assertEqual(found, name)
            tensor = struct.tensor
            self.assertEqual((tensor.device_type, tensor.device_id, tensor.ndim), (CPU, 0, 2))
            self.assertEqual((tensor.code, tensor.bits, tensor.lanes), (0, 16, 1))
            self.assertEqual((tensor.shape[:2], tensor.strides[:2]), ([2, 3], [3, 1]))
            self.assertEqual(tensor.byte_offset, 0)

    def test_an_unused_capsule_ends_its_tensor(self):
        mem = Memory((4,))
        capsule = mem.__dlpack__()
        del mem
        self.assertEqual(objects(), 1)
        del capsule

    def test_a_used_capsule_does_not(self):
        mem = Memory((4,))
        for version in (None, (1, 0)):
            capsule = mem.__dlpack__(max_version=version)
            name, struct = self.tensor_of(capsule)
            sm.python.PyCapsule_SetName(id(capsule), sm.USED[name])
            self.assertRaises(BufferError, sm.take, capsule)
            del capsule
            with self.assertRaisesRegex(Error, "exported as a tensor"):
                sm.call("release_data", mem.handle)
            struct.deleter(ctypes.addressof(struct))
            sm.call("release_data", mem.handle)

    def test_reads_are_read_only(self):
        mem = Memory((4,), mode="read")
        self.assertRaises(BufferError, mem.__dlpack__)
        capsule = mem.__dlpack__(max_version=(1, 0))
        self.assertEqual(self.tensor_of(capsule)[1].flags, 1)
        capsule = mem.seen(CPU, "mutable").__dlpack__(max_version=(1, 0))
        self.assertEqual(self.tensor_of(capsule)[1].flags, 0)

    def test_what_is_refused(self):
        mem = Memory((4,))
        self.assertRaises(BufferError, mem.__dlpack__, copy=True)
        self.assertRaises(BufferError, mem.__dlpack__, dl_device=(10, 0))
        self.assertRaises(ValueError, mem.__dlpack__, stream=1)
        self.assertRaises(ValueError, mem.gpu.__dlpack__, stream=0)
        self.assertRaises(TypeError, Memory, (4,), "text")
        self.assertRaises(BufferError, sm.take, object())

    def test_streams(self):
        self.assertEqual([sm.stream_of(stream, GPU) for stream in (None, 1, 2, -1, 4096)],
                         [1, 1, 2, sm.NO_STREAM, 4096])

    def test_the_end_of_the_process(self):
        """The interpreter ends with a capsule, with an array, and with an object."""
        program = ("import sys; sys.argv = ['', sys.argv[1], 'ctypes']\n"
                   "import numpy, synced_mem_dlpack as sm\n"
                   "mem = sm.Memory((4,)); capsule = mem.__dlpack__(); array = numpy.from_dlpack(mem)\n"
                   "back = sm.Memory.from_dlpack(numpy.zeros(4)); print('reached')")
        path = os.path.dirname(sm.__file__)
        if CONSUMER != "numpy":
            self.skipTest("the program uses NumPy")
        result = subprocess.run([sys.executable, "-c", program, sys.argv[1]], capture_output=True, text=True,
                                check=False, env={**os.environ, "PYTHONPATH": path})
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "reached\n", ""))


@unittest.skipUnless(has_gpu and runtime, "no device of a runtime that the test can use")
class OnTheDevice(unittest.TestCase):
    """The device copy, with the test as producer and consumer."""

    def tearDown(self):
        runtime.cudaDeviceSynchronize()
        self.assertEqual(objects(), 0)

    def stream(self):
        stream = ctypes.c_void_p()
        self.assertEqual(runtime.cudaStreamCreateWithFlags(ctypes.byref(stream), 1), 0)
        return stream

    def end(self, stream):
        self.assertEqual(runtime.cudaStreamSynchronize(stream), 0)
        sm.call("forget_stream", stream)
        self.assertEqual(runtime.cudaStreamDestroy(stream), 0)

    def test_the_device(self):
        mem = Memory((4,), side=GPU)
        self.assertEqual(mem.__dlpack_device__()[0], GPU)
        capsule = mem.__dlpack__(stream=None, max_version=(1, 0))
        tensor = sm.Versioned.from_address(sm.take(capsule)[1]).tensor
        self.assertEqual((tensor.device_type, tensor.device_id), mem.__dlpack_device__())
        self.assertEqual(mem.head, "AT_GPU")
        self.assertEqual(mem.seen(None).__dlpack_device__()[0], GPU)

    def test_an_order_of_streams(self):
        """A consumer fills the memory on its stream. The host reads it after that."""
        stream = self.stream()
        mem = Memory((1000,), "uint8", side=GPU, mode="overwrite")
        capsule = mem.__dlpack__(stream=stream.value, max_version=(1, 0))
        tensor = sm.Versioned.from_address(sm.take(capsule)[1]).tensor
        self.assertEqual(runtime.cudaMemsetAsync(ctypes.c_void_p(tensor.data), 7, ctypes.c_size_t(1000), stream), 0)
        host = mem.seen(CPU, "read").__dlpack__(max_version=(1, 0))
        data = sm.Versioned.from_address(sm.take(host)[1]).tensor.data
        self.assertEqual(ctypes.string_at(data, 1000), b"\7" * 1000)
        self.assertEqual(mem.head, "SYNCED")
        del capsule, host
        self.end(stream)

    def test_every_stream_of_dlpack(self):
        mem = Memory((4,), side=GPU)
        for stream in (None, 1, 2, -1):
            del_me = mem.__dlpack__(stream=stream)
            del del_me

    def test_back(self):
        for versioned in (True, False):
            stream = self.stream()
            producer = Device(Memory((2, 5), "float16", side=GPU), versioned)
            mem = Memory.from_dlpack(producer, stream.value)
            self.assertEqual(producer.streams, [stream.value])
            self.assertEqual((mem.shape, mem.dtype, mem.head), ((2, 5), "float16", "AT_GPU"))
            del producer
            self.assertEqual(objects(), 2)
            del mem
            self.end(stream)


@unittest.skipUnless(CONSUMER == "numpy", "it is for NumPy")
class WithNumPy(unittest.TestCase):
    """Arrays of the host."""

    def tearDown(self):
        self.assertEqual(objects(), 0)

    def test_out(self):
        for dtype in ("float32", "float64", "int8", "int64", "uint16", "complex64", "bool"):
            if dtype == "bool" and consumer.lib.NumpyVersion(consumer.__version__) < "1.25.0":
                continue  # earlier versions know no such tensors
            mem = Memory((3, 4), dtype)
            array = consumer.from_dlpack(mem)
            self.assertEqual((array.shape, array.dtype, mem.head), ((3, 4), consumer.dtype(dtype), "AT_CPU"))
            self.assertEqual(array.any(), False)
            del mem
            self.assertEqual(objects(), 1)
            self.assertEqual(array.any(), False)
            del array
            self.assertEqual(objects(), 0)

    def test_back(self):
        array = consumer.arange(12, dtype="float32").reshape(3, 4)
        mem = Memory.from_dlpack(array)
        self.assertEqual((mem.shape, mem.dtype, mem.head), ((3, 4), "float32", "AT_CPU"))
        array[1, 1] = 99
        again = consumer.from_dlpack(mem)
        self.assertEqual(again.ctypes.data, array.ctypes.data)
        self.assertEqual(again[1, 1], 99)

    def test_the_array_lives_as_long_as_the_object(self):
        class Array(consumer.ndarray):
            """An array with weak references."""
        array = consumer.zeros(100).view(Array)
        alive = weakref.ref(array)
        mem = Memory.from_dlpack(array)
        del array
        gc.collect()
        self.assertIsNotNone(alive())
        del mem
        self.assertEqual(objects(), 0)
        self.assertIsNone(alive())

    def test_arrays_that_are_not_compact(self):
        array = consumer.zeros((4, 4))
        for bad in (array.T[1:], array[:, ::2], array[::-1], consumer.broadcast_to(consumer.zeros(1), (3,))):
            with self.assertRaises((Error, BufferError, TypeError)):
                Memory.from_dlpack(bad)
        self.assertEqual(consumer.from_dlpack(array).shape, (4, 4))  # nothing of it was taken

    def test_no_elements(self):
        mem = Memory.from_dlpack(consumer.zeros((0, 3)))
        self.assertEqual(consumer.from_dlpack(mem).shape, (0, 3))

    def test_threads(self):
        mem, wrong = Memory((64,)), []

        def exchange():
            for _ in range(200):
                array = consumer.from_dlpack(mem)
                back = Memory.from_dlpack(consumer.ones(64))
                if array.any() or back.shape != (64,):
                    wrong.append(array)

        threads = [threading.Thread(target=exchange) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class WithAnother(unittest.TestCase):
    """PyTorch, CuPy or JAX, on the sides that it has."""

    def setUp(self):
        if CONSUMER == "numpy":
            self.skipTest("it is for the other consumers")
        self.sides = {"torch": [CPU], "cupy": [], "jax": [CPU]}[CONSUMER]
        usable = {"torch": lambda: consumer.cuda.is_available(),
                  "cupy": lambda: consumer.cuda.runtime.getDeviceCount() > 0,
                  "jax": lambda: any(device.platform == "gpu" for device in consumer.devices())}[CONSUMER]
        if has_gpu and usable():
            self.sides = self.sides + [GPU]
        if not self.sides:
            self.skipTest("no device")
        self.from_dlpack = consumer.dlpack.from_dlpack if CONSUMER == "jax" else consumer.from_dlpack

    def tearDown(self):
        if GPU in self.sides and CONSUMER == "torch":
            consumer.cuda.synchronize()
        self.assertEqual(objects(), 0)

    def test_out(self):
        for side in self.sides:
            mem = Memory((3, 4), "float32", side)
            tensor = self.from_dlpack(mem)
            self.assertEqual((tuple(tensor.shape), float(tensor.sum())), ((3, 4), 0.0))
            del mem
            self.assertEqual(float(tensor.sum()), 0.0)
            del tensor
            self.assertEqual(objects(), 0)

    def test_back(self):
        for side in self.sides:
            mem = Memory((3, 4), "float32", side)
            tensor = self.from_dlpack(mem) + 2
            back = Memory.from_dlpack(tensor)
            self.assertEqual(back.head, "AT_CPU" if side == CPU else "AT_GPU")
            self.assertEqual((back.shape, back.dtype), ((3, 4), "float32"))
            self.assertEqual(float(self.from_dlpack(back.seen(side)).sum()), 24.0)
            del mem, tensor, back

    def test_the_other_side(self):
        """The consumer's work on the device is before the host's read."""
        if GPU not in self.sides or CONSUMER == "jax":
            self.skipTest("no device, or arrays that can't be written")
        mem = Memory((1 << 20,), "float32", GPU)
        tensor = self.from_dlpack(mem)
        tensor += 3
        del tensor
        data = sm.take(mem.seen(CPU, "mutable").__dlpack__())
        self.assertEqual(data[0], b"dltensor")
        host = mem.seen(CPU, "read").__dlpack__(max_version=(1, 0))
        first = sm.Versioned.from_address(sm.take(host)[1]).tensor.data
        self.assertEqual(ctypes.c_float.from_address(first + 4 * ((1 << 20) - 1)).value, 3.0)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=1).result
    if sm.library.synced_mem_shutdown():
        print(sm.library.synced_mem_last_error_message().decode())
        sys.exit(1)
    sys.exit(not result.wasSuccessful())
