"""Memory that other packages have: buffers, capsules of DLPack, and arrays of NumPy as the oracle."""
from kit import *  # noqa: F403
import random
import subprocess
import threading

from synced_mem import Memory

python = ctypes.pythonapi
for function in (python.PyCapsule_IsValid, python.PyCapsule_SetName, python.PyCapsule_GetPointer):
    function.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"
USED = {VERSIONED: b"used_dltensor_versioned", LEGACY: b"used_dltensor"}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


STRUCTS = {VERSIONED: Versioned, LEGACY: Legacy}


def open_capsule(capsule, use=False):
    """Returns the capsule's name and struct. use: takes the tensor, as a consumer does."""
    name = VERSIONED if python.PyCapsule_IsValid(capsule, VERSIONED) else LEGACY
    address = python.PyCapsule_GetPointer(capsule, name)
    if use:
        python.PyCapsule_SetName(capsule, USED[name])
    return name, STRUCTS[name].from_address(address)


class Buffers(Case):
    def test_formats(self):
        for dtype, format_, size in (("float32", "f", 4), ("float16", "e", 2), ("float64", "d", 8), ("bool", "?", 1),
                                     ("uint8", "B", 1), ("int8", "b", 1), ("int64", "l", 8), ("complex64", "Zf", 8)):
            view = memoryview(Memory((3, 4), dtype).cpu())
            self.assertEqual((view.format, view.itemsize, view.nbytes, view.shape, view.strides, view.readonly),
                             (format_, size, 12 * size, (3, 4), (4 * size, size), True))
            self.assertEqual(view.c_contiguous, True)

    def test_modes(self):
        mem = Memory(4, "uint8")
        self.assertTrue(memoryview(mem.cpu()).readonly)
        for mode in ("mutable", "overwrite"):
            view = memoryview(mem.cpu(mode))
            view[0] = 5
        self.assertFalse(memoryview(mem).readonly)
        self.assertTrue(memoryview(Memory(4, mode="read")).readonly)
        with self.assertRaisesRegex((BufferError, TypeError), "can't be written|read-write"):
            io_read_into(mem.cpu())
        io_read_into(mem.cpu("mutable"))

    def test_an_overwrite_becomes_a_mutable_access(self):
        access = Memory(4, "uint8").cpu("overwrite")
        self.assertEqual(access.mode, "overwrite")
        memoryview(access)[:] = b"abcd"
        self.assertEqual(access.mode, "mutable")
        self.assertEqual(bytes(access), b"abcd")
        for export in (lambda each: each.__dlpack__(), lambda each: each.__dlpack__(max_version=(1, 0))):
            access = Memory(4, "uint8").cpu("overwrite")
            export(access)
            self.assertEqual(access.mode, "mutable")
        access = Memory(4, "uint8").cpu("overwrite")
        self.assertRaises(ValueError, access.__dlpack__, stream=5)
        self.assertEqual(access.mode, "overwrite")

    def test_no_type(self):
        for dtype, view in (("bfloat16", "uint16"), ("float8_e4m3fn", "uint8"), ("float4_e2m1fn", "uint8")):
            mem = Memory((2, 4), dtype)
            with self.assertRaisesRegex(BufferError, dtype):
                memoryview(mem.cpu())
            self.assertRaises(BufferError, memoryview, mem)
            self.assertTrue(memoryview(mem.cpu().view(view)).readonly)
            self.assertEqual(mem.exports, 0)

    def test_requests(self):
        """Every combination of flags of a request, by the C interface."""
        class Buffer(ctypes.Structure):
            _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                        ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                        ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.c_void_p),
                        ("internal", ctypes.c_void_p)]
        python.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int]
        python.PyBuffer_Release.argtypes = [ctypes.POINTER(Buffer)]
        WRITABLE, FORMAT, ND, STRIDES, C, F, ANY = 1, 4, 8, 0x18, 0x38, 0x58, 0x98
        for shape in ((), (5,), (2, 3), (0, 2)):
            for mode in ("read", "mutable"):
                access = Memory(shape, "int16").cpu(mode)
                for flags in (base | extra for base in (0, ND, STRIDES, C, F, ANY)
                              for extra in (0, FORMAT, WRITABLE, FORMAT | WRITABLE)):
                    buffer = Buffer()
                    if (flags & WRITABLE and mode == "read") or (flags & F == F and len(shape) > 1):
                        self.assertRaises(BufferError, python.PyObject_GetBuffer, access, buffer, flags)
                        self.assertIsNone(buffer.obj)
                        continue
                    python.PyObject_GetBuffer(access, buffer, flags)
                    self.assertTrue(buffer.buf)
                    self.assertEqual((buffer.len, buffer.itemsize), (access.nbytes, 2))
                    self.assertEqual(buffer.format, b"h" if flags & FORMAT else None)
                    self.assertEqual(bool(buffer.shape), bool(flags & ND) and len(shape) > 0)
                    self.assertEqual(bool(buffer.strides), flags & STRIDES == STRIDES and len(shape) > 0)
                    if buffer.shape:
                        self.assertEqual(tuple(buffer.shape[:buffer.ndim]), shape)
                    python.PyBuffer_Release(buffer)
                self.assertEqual(access.memory.exports, 0)

    def test_exports_keep_the_memory(self):
        mem = Memory(4, "uint8")
        views = [memoryview(mem.cpu()), memoryview(mem), memoryview(mem.cpu("mutable"))]
        self.assertEqual(mem.exports, 3)
        for call in (lambda: mem.resize(8), mem.release_data, lambda: mem.release_data("cpu"),
                     lambda: mem.resize(8, discard=True)):
            with self.assertRaisesRegex(BufferError, "^3 exports"):
                call()
        self.assertEqual((mem.shape, mem.head), ((4,), "AT_CPU"))
        views.pop().release()
        with self.assertRaisesRegex(BufferError, "^2 exports"):
            mem.resize(8)
        del views[:]
        mem.resize(8)
        self.assertEqual(mem.exports, 0)

    def test_exports_of_views_count(self):
        mem = Memory((4, 4), "uint8")
        view = memoryview(mem[1].cpu())
        with self.assertRaisesRegex(BufferError, "^1 exports"):
            mem.release_data()
        del view
        mem.release_data()

    def test_the_object_dies_first(self):
        mem = Memory(4, "uint8")
        view = memoryview(mem.cpu("mutable"))
        bare = memoryview(mem)
        del mem
        view[0] = 7
        self.assertEqual((bare[0], objects()), (7, 1))
        del view, bare
        self.assertEqual(objects(), 0)

    def test_threads(self):
        mem, wrong = Memory((64,), "uint8"), []

        def exchange():
            for i in range(500):
                try:
                    view = memoryview(mem.cpu("mutable"))
                    back = Memory(10)
                    capsule = mem.__dlpack__(max_version=(1, 0))
                    other = memoryview(mem[i % 60:][1].view("uint8") if i % 2 else mem)
                    del view, back, capsule, other
                except Exception as error:
                    wrong.append(error)
        threads = [threading.Thread(target=exchange) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, mem.exports), ([], 0))


def io_read_into(target):
    """Writes into a buffer."""
    with open(os.devnull, "rb") as file:
        file.readinto(target)


class Capsules(Case):
    def test_the_version_is_the_consumer_s(self):
        mem = Memory((2, 3), "int16")
        for version, name in ((None, LEGACY), ((0, 8), LEGACY), ((1, 0), VERSIONED), ((2, 1), VERSIONED)):
            found, struct = open_capsule(mem.__dlpack__(max_version=version))
            self.assertEqual(found, name)
            found, struct = open_capsule(keep := mem.__dlpack__(max_version=version))
            tensor = struct.tensor
            self.assertEqual((tensor.device_type, tensor.device_id, tensor.ndim), (CPU, 0, 2))
            self.assertEqual((tensor.code, tensor.bits, tensor.lanes), (0, 16, 1))
            self.assertEqual((tensor.shape[:2], tensor.strides[:2]), ([2, 3], [3, 1]))
            self.assertEqual(tensor.byte_offset, 0)
            if name == VERSIONED:
                self.assertEqual(struct.major, 1)
            del keep

    def test_an_unused_capsule_ends_its_tensor(self):
        for version in (None, (1, 0)):
            mem = Memory((4,))
            capsule = mem.__dlpack__(max_version=version)
            self.assertEqual(mem.exports, 1)
            del mem
            self.assertEqual(objects(), 1)
            del capsule
            self.assertEqual(objects(), 0)

    def test_a_used_capsule_does_not(self):
        mem = Memory((4,))
        for version in (None, (1, 0)):
            capsule = mem.__dlpack__(max_version=version)
            name, struct = open_capsule(capsule, use=True)
            del capsule
            with self.assertRaisesRegex(BufferError, "^1 exports.*tensor"):
                mem.release_data()
            struct.deleter(ctypes.addressof(struct))
            mem.release_data()

    def test_a_deleter_in_any_thread(self):
        for version in (None, (1, 0)):
            mem = Memory((4,))
            capsule = mem.__dlpack__(max_version=version)
            name, struct = open_capsule(capsule, use=True)
            del capsule, mem
            # ctypes calls it without the interpreter's lock; PyDLL with it.
            address, offset = ctypes.addressof(struct), STRUCTS[name].deleter.offset
            deleter = ctypes.c_void_p.from_address(address + offset).value
            prototype = ctypes.PYFUNCTYPE if version else ctypes.CFUNCTYPE
            thread = threading.Thread(target=prototype(None, ctypes.c_void_p)(deleter), args=(address,))
            thread.start()
            thread.join()
            self.assertEqual(objects(), 0)

    def test_an_exception_on_its_way(self):
        """A consumer that refuses a tensor raises, and the capsule goes while that exception is set."""
        mem = Memory((4,), "bfloat16")

        def refuse(version):
            capsule = mem.__dlpack__(max_version=version)
            raise KeyError(python.PyCapsule_IsValid(capsule, b"other"))
        for version in (None, (1, 0)):
            for _ in range(10):
                with self.assertRaises(KeyError) as caught:
                    refuse(version)
                del caught
            gc.collect()
            self.assertEqual(mem.exports, 0)
        if numpy:
            with self.assertRaises((RuntimeError, BufferError)) as caught:
                numpy.from_dlpack(mem)
            self.assertNotIsInstance(caught.exception, SystemError)
            self.assertEqual(mem.exports, 0)

    def test_reads_are_read_only(self):
        mem = Memory((4,))
        self.assertRaisesRegex(BufferError, "mutable", mem.cpu().__dlpack__)
        for access, flags in ((mem.cpu(), 1), (mem.cpu("mutable"), 0)):
            self.assertEqual(open_capsule(capsule := access.__dlpack__(max_version=(1, 0)))[1].flags, flags)
            del capsule

    def test_copies(self):
        mem = Memory((4,), "uint8")
        memoryview(mem.cpu("overwrite"))[:] = b"abcd"
        capsule = mem.cpu().__dlpack__(max_version=(1, 0), copy=True)
        tensor = open_capsule(capsule)[1]
        self.assertEqual((tensor.flags, ctypes.string_at(tensor.tensor.data, 4)), (2, b"abcd"))
        self.assertNotEqual(tensor.tensor.data, mem.cpu().ptr)
        self.assertEqual(mem.exports, 0)
        del mem
        self.assertEqual(ctypes.string_at(tensor.tensor.data, 4), b"abcd")
        del capsule
        mem = Memory((4,), "uint8")
        self.assertRaises(BufferError, mem.__dlpack__, copy=True)
        self.assertTrue(mem.__dlpack__(copy=False))

    def test_wrong_arguments(self):
        """None is a TypeError, which would make consumers try again without a version."""
        mem = Memory((4,))
        for producer in (mem, mem.cpu("mutable")):
            for wrong in ({"stream": 1}, {"dl_device": (10, 0)}, {"dl_device": (1, 5)}, {"dl_device": 1},
                          {"dl_device": ("a", 0)}, {"max_version": 1}, {"max_version": ("1", 0)}, {"other": 1},
                          {"max_version": (1, 0, 0)}, {"max_version": (1 << 70, 0)}):
                with self.assertRaises((ValueError, BufferError), msg=str(wrong)):
                    producer.__dlpack__(**wrong)
            self.assertRaises(ValueError, producer.__dlpack__, None)
            self.assertTrue(producer.__dlpack__(stream=None, max_version=None, dl_device=None, copy=None))
            self.assertEqual(producer.__dlpack_device__(), (1, 0))
        self.assertEqual(mem.exports, 0)

    def test_no_interface(self):
        mem = Memory((4,))
        self.assertFalse(hasattr(mem, "__cuda_array_interface__"))
        self.assertFalse(hasattr(mem.cpu(), "__cuda_array_interface__"))


@unittest.skipUnless(numpy, "no NumPy")
class WithNumPy(Case):
    def test_out(self):
        for dtype in ("float32", "float64", "int8", "int64", "uint16", "complex64", "bool"):
            for take in (numpy.asarray, numpy.from_dlpack):
                if dtype == "bool" and numpy.lib.NumpyVersion(numpy.__version__) < "1.25.0":
                    continue  # earlier versions know no such tensors
                mem = Memory((3, 4), dtype)
                array = take(mem)
                self.assertEqual((array.shape, array.dtype, mem.head), ((3, 4), numpy.dtype(dtype), "AT_CPU"))
                self.assertEqual(array.any(), False)
                if take is numpy.asarray:
                    array[:] = 1
                del mem
                self.assertEqual((objects(), array.any()), (1, take is numpy.asarray))
                del array
                self.assertEqual(objects(), 0)

    def test_read_only_arrays(self):
        array = numpy.asarray(Memory(4).cpu())
        self.assertFalse(array.flags.writeable)
        del array

    def test_without_dimensions_and_elements(self):
        self.assertEqual(numpy.asarray(Memory((), "int32")).shape, ())
        self.assertEqual(numpy.asarray(Memory((0, 3), "int32")).shape, (0, 3))
        self.assertEqual(numpy.from_dlpack(Memory((0, 3), "int32")).shape, (0, 3))

    def test_back(self):
        array = numpy.arange(12, dtype="float32").reshape(3, 4)
        mem = synced_mem.from_dlpack(array, name="back")
        self.assertEqual((mem.shape, mem.dtype, mem.head, mem.side, mem.name, mem.cpu_source),
                         ((3, 4), "float32", "AT_CPU", "cpu", "back", "adopted"))
        array[1, 1] = 99
        self.assertEqual(numpy.asarray(mem)[1, 1], 99)
        self.assertEqual(mem.cpu().ptr, array.ctypes.data)

    def test_the_array_lives_as_long_as_the_object(self):
        import weakref

        class Array(numpy.ndarray):
            """An array with weak references."""
        array = numpy.zeros(100).view(Array)
        alive = weakref.ref(array)
        mem = synced_mem.from_dlpack(array)
        del array
        gc.collect()
        self.assertIsNotNone(alive())
        del mem
        self.assertEqual(objects(), 0)
        self.assertIsNone(alive())

    def test_what_is_refused(self):
        array = numpy.zeros((4, 4))
        for bad in (array.T[1:], array[:, ::2], array[::-1], numpy.broadcast_to(numpy.zeros(1), (3,))):
            with self.assertRaises((synced_mem.Error, BufferError, TypeError, ValueError)):
                synced_mem.from_dlpack(bad)
        self.assertEqual(numpy.from_dlpack(array).shape, (4, 4))  # nothing of it was taken
        self.assertRaises(AttributeError, synced_mem.from_dlpack, 5)

        class Wrong:
            def __init__(self, capsule):
                self.capsule = capsule

            def __dlpack_device__(self):
                return CPU, 0

            def __dlpack__(self, **arguments):
                if isinstance(self.capsule, Exception):
                    raise self.capsule
                return self.capsule
        self.assertRaises(BufferError, synced_mem.from_dlpack, Wrong(5))
        self.assertRaises(KeyError, synced_mem.from_dlpack, Wrong(KeyError()))
        self.assertRaises(TypeError, synced_mem.from_dlpack, Wrong(TypeError()))
        used = Wrong(numpy.zeros(3).__dlpack__())
        self.assertEqual(synced_mem.from_dlpack(used).shape, (3,))
        self.assertRaises(BufferError, synced_mem.from_dlpack, used)
        for change in ("lanes = 3", "code = 99", "bits = 7", "ndim = 65", "ndim = -1", "shape = None", "data = None",
                       "device_type = 10"):
            other = numpy.zeros(3).__dlpack__()
            exec(f"tensor.{change}", {"tensor": open_capsule(other)[1].tensor})
            with self.assertRaises((BufferError, ValueError), msg=change):
                synced_mem.from_dlpack(Wrong(other))
            self.assertTrue(python.PyCapsule_IsValid(other, LEGACY))

    def test_another_version(self):
        """Of a tensor of another major version nothing is read, and the capsule ends it."""
        capsule = Memory(3).__dlpack__(max_version=(1, 0))
        struct = open_capsule(capsule)[1]
        struct.major = 2

        class Future:
            def __dlpack_device__(self):
                return CPU, 0

            def __dlpack__(self, **arguments):
                return capsule
        with self.assertRaisesRegex(BufferError, "version 2"):
            synced_mem.from_dlpack(Future())
        del capsule

    def test_leaks_of_imports(self):
        for _ in range(10000):
            synced_mem.from_dlpack(numpy.zeros(3))
        self.assertEqual(objects(), 0)

    def test_oracle(self):
        """Random calls on objects and views, against arrays of NumPy."""
        for seed in range(20):
            choose = random.Random(seed)
            mem, oracle = Memory((8, 5), "int32"), numpy.zeros((8, 5), "int32")
            views = [(mem, slice(None))]
            for step in range(60):
                what = choose.randrange(7)
                view, place = choose.choice(views)
                if what == 0:
                    value = choose.randrange(1000)
                    numpy.asarray(view.cpu("mutable"))[...] += value
                    oracle[place] += value
                elif what == 1:
                    values = numpy.array([choose.randrange(1000) for _ in range(oracle[place].size)], "int32")
                    numpy.asarray(view.cpu("overwrite"))[...] = values.reshape(oracle[place].shape)
                    oracle[place] = values.reshape(oracle[place].shape)
                elif what == 2:
                    begin, end = sorted(choose.sample(range(9), 2))
                    views.append((mem[begin:end], slice(begin, end)))
                elif what == 3:
                    view.clear()
                    oracle[place] = 0
                elif what == 4 and len(views) > 1:
                    views.pop()
                elif what == 5 and has_gpu:
                    device = view.gpu("overwrite")
                    fill(device, step)
                    oracle[place].view("uint8")[...] = step
                elif what == 6 and has_gpu and view.head != "UNINITIALIZED":
                    view.push() if view.head == "AT_CPU" else view.gpu()
                view, place = choose.choice(views)
                self.assertTrue((numpy.asarray(view.cpu()) == oracle[place]).all(), (seed, step))
            del view, views


@on_the_device
class OnTheDevice(Case):
    def test_the_device(self):
        mem = Memory((4,), side="gpu")
        self.assertEqual(mem.__dlpack_device__()[0], GPU)
        capsule = mem.__dlpack__(stream=None, max_version=(1, 0))
        tensor = open_capsule(capsule)[1].tensor
        self.assertEqual((tensor.device_type, tensor.device_id), mem.__dlpack_device__())
        self.assertEqual((mem.head, mem.device, mem.gpu_source), ("AT_GPU", mem.__dlpack_device__()[1], "device"))
        with self.assertRaisesRegex(BufferError, "^1 exports"):
            mem.release_data("gpu")
        self.assertRaisesRegex(BufferError, "device memory", memoryview, mem)
        del capsule
        mem.release_data("gpu")

    def test_an_order_of_streams(self):
        """A consumer fills the memory on its stream. The host reads it after that."""
        stream = Stream()
        mem = Memory((1000,), "uint8")
        capsule = mem.gpu("overwrite").__dlpack__(stream=stream.handle, max_version=(1, 0))
        tensor = open_capsule(capsule)[1].tensor
        self.assertEqual(runtime.cudaMemsetAsync(ctypes.c_void_p(tensor.data), 7, ctypes.c_size_t(1000),
                                                 ctypes.c_void_p(stream.handle)), 0)
        self.assertEqual(bytes(mem.cpu()), b"\7" * 1000)
        self.assertEqual(mem.head, "SYNCED")
        del capsule
        synced_mem.forget_stream(stream.handle)

    def test_every_stream_of_dlpack(self):
        mem = Memory((4,))
        for stream in (None, 1, 2, -1):
            for version in (None, (1, 0)):
                self.assertTrue(mem.gpu("mutable").__dlpack__(stream=stream, max_version=version))
        for stream in (0, -2, True, "1", 1.5, 1 << 70):
            self.assertRaises(ValueError, mem.gpu().__dlpack__, stream=stream)

    def test_the_other_side(self):
        mem = Memory((4,), "uint8")
        memoryview(mem.cpu("overwrite"))[:] = b"abcd"
        access = mem.gpu()
        capsule = access.__dlpack__(dl_device=(1, 0), max_version=(1, 0), stream=1)
        self.assertEqual(ctypes.string_at(open_capsule(capsule)[1].tensor.data, 4), b"abcd")
        self.assertRaises(BufferError, access.__dlpack__, dl_device=(1, 0), copy=False)
        capsule = mem.cpu().__dlpack__(dl_device=(2, mem.device), max_version=(1, 0), stream=1)
        self.assertEqual(open_capsule(capsule)[1].tensor.device_type, GPU)
        self.assertRaises(BufferError, mem.cpu().__dlpack__, dl_device=(2, 77))
        capsule = access.__dlpack__(copy=True, max_version=(1, 0))
        self.assertEqual(open_capsule(capsule)[1].flags, 2)
        self.assertNotEqual(open_capsule(capsule)[1].tensor.data, access.ptr)
        del capsule

    def test_back(self):
        class Producer:
            """An array on the device, of a package that the test plays."""

            def __init__(self, mem, versioned):
                self.mem, self.versioned, self.streams = mem, versioned, []

            def __dlpack_device__(self):
                return self.mem.__dlpack_device__()

            def __dlpack__(self, **arguments):
                if not self.versioned and "max_version" in arguments:
                    raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
                self.streams.append(arguments.get("stream"))
                return self.mem.__dlpack__(**arguments)
        for versioned in (True, False):
            stream = Stream()
            for given, asked in ((stream.handle, stream.handle), (stream, stream.handle), (None, 1), (0, 1), (2, 2)):
                producer = Producer(Memory((2, 5), "float16", side="gpu"), versioned)
                mem = synced_mem.from_dlpack(producer, stream=given)
                self.assertEqual(producer.streams, [asked])
                self.assertEqual((mem.shape, mem.dtype, mem.head, mem.side), ((2, 5), "float16", "AT_GPU", "gpu"))
                del producer
                self.assertEqual(objects(), 2)
                del mem
                self.assertEqual(objects(), 0)
            synced_mem.forget_stream(stream.handle)

    def test_the_cuda_array_interface(self):
        stream = Stream()
        mem = Memory((2, 3), "float32")
        for arguments, readonly, number in ((("read",), True, 1), (("mutable", 0), False, 1),
                                            (("overwrite", stream), False, stream.handle), (("mutable", 2), False, 2)):
            access = mem.gpu(*arguments)
            found = access.__cuda_array_interface__
            self.assertEqual(found, {"shape": (2, 3), "typestr": "<f4", "data": (access.ptr, readonly), "version": 3,
                                     "strides": None, "stream": number})
            self.assertEqual(mem.exports, 1)
            self.assertEqual(access.__cuda_array_interface__, found)
            self.assertEqual(mem.exports, 1)
            self.assertIn(access.mode, ("read", "mutable"))
            del access
            self.assertEqual(mem.exports, 0)
        self.assertFalse(hasattr(Memory(2, "bfloat16").gpu(), "__cuda_array_interface__"))


class Ends(Case):
    def test_the_end_of_the_process(self):
        """The interpreter ends with a capsule, arrays, buffers, a stream's block and objects."""
        program = ("import synced_mem, threading, time\n"
                   "mem = synced_mem.Memory((4,)); capsule = mem.__dlpack__(); view = memoryview(mem)\n"
                   "block = synced_mem.stream(1); block.__enter__()\n"
                   "def use():\n"
                   "    while True: memoryview(synced_mem.Memory(3).cpu())\n"
                   "threading.Thread(target=use, daemon=True).start()\n"
                   "time.sleep(0.05)\n"
                   + ("import numpy; array = numpy.from_dlpack(mem); back = synced_mem.from_dlpack(numpy.zeros(4))\n"
                      if numpy else "") + "print('reached')")
        for _ in range(3):
            result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                                    timeout=300)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "reached\n", ""))


main()
