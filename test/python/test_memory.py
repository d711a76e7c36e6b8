"""Objects: types, shapes, views, sizes, copies, errors and reports."""
from kit import *  # noqa: F403
import json
import re
import tempfile
import weakref

from synced_mem import Memory


class Creation(Case):
    def test_shapes(self):
        for shape, expected in ((3, (3,)), ((), ()), ([2, 3], (2, 3)), ((0, 5), (0, 5)), (range(1, 4), (1, 2, 3))):
            mem = Memory(shape, "int16")
            self.assertEqual((mem.shape, mem.ndim), (expected, len(expected)))
            size = 1
            for number in expected:
                size *= number
            self.assertEqual((mem.size, mem.nbytes), (size, 2 * size))

    def test_wrong_shapes(self):
        for shape in (-1, (2, -3), (1 << 62, 4), (1,) * 65, (1 << 61,)):
            self.assertRaises(ValueError, Memory, shape, "int64")
        for shape in ("ab", 1.5, None, (1, "2")):
            self.assertRaises(TypeError, Memory, shape)
        self.assertRaises(OverflowError, Memory, 1 << 70)

    def test_types(self):
        for dtype, name in (("float32", "float32"), ("torch.bfloat16", "bfloat16"), (float, "float64"), (int, "int64"),
                            (bool, "bool"), (complex, "complex128"), ("<f2", "float16"), ("float8_e4m3fn",) * 2):
            self.assertEqual(Memory(1, dtype).dtype, name)
        for dtype in ("text", "", None, object(), 5, str, "float\0"):
            with self.assertRaisesRegex(TypeError, "no data type"):
                Memory(1, dtype)

    def test_sizes_of_small_types(self):
        for dtype, count, size in (("float4_e2m1fn", 3, 2), ("float6_e2m3fn", 4, 3), ("float8_e5m2", 5, 5)):
            self.assertEqual(Memory(count, dtype).nbytes, size)

    @unittest.skipUnless(numpy, "no NumPy")
    def test_types_of_numpy(self):
        for dtype in (numpy.float32, numpy.dtype("float32"), numpy.zeros(1, "f4").dtype, "float32"):
            self.assertEqual(Memory(1, dtype).dtype, "float32")

    def test_options(self):
        mem = Memory(4, name="weights", side="gpu", mode="read", alignment=4096)
        self.assertEqual((mem.name, mem.side, mem.mode, mem.device), ("weights", "gpu", "read", None))
        self.assertEqual(Memory(4, name="a" * 60).name, "a" * 47)
        self.assertEqual(Memory(4, name="\u00e4" * 40).name, "\u00e4" * 23 + "\ufffd")
        for wrong in ({"side": "tpu"}, {"mode": "overwrite"}, {"mode": "x"}, {"alignment": 3}, {"alignment": -1},
                      {"placement": "near"}, {"shareable": "all"}, {"shareable": 7}, {"device": -5}):
            with self.assertRaises((ValueError, synced_mem.Error), msg=str(wrong)):
                Memory(4, **wrong)
        self.assertRaises(TypeError, Memory)
        self.assertRaises(TypeError, Memory, 1, "int8", "name")

    def test_weak_references(self):
        mem = Memory(4)
        weak = weakref.ref(mem)
        self.assertIs(weak(), mem)
        del mem
        self.assertIsNone(weak())

    def test_ten_thousand(self):
        """Objects and accesses are all gone afterwards, and so is their memory."""
        mems = [Memory((5, 7), "float64", name=f"object {i}") for i in range(10000)]
        views = [mem[1:3] for mem in mems]
        self.assertEqual(objects(), 20000)
        accesses = [mem.cpu() for mem in mems[:100]]
        del mems
        self.assertEqual(objects(), 20000)  # views keep their roots
        del views
        self.assertEqual(objects(), 100)
        del accesses

    def test_references(self):
        """The counts of references of what calls use and return."""
        name, shape, dtype, mode = "n" * 3, (3, 4), "int32", "mutable"
        mem = Memory(shape, dtype, name=name)
        things = [name, shape, dtype, mode, None, mem, synced_mem.Access]
        before = [sys.getrefcount(thing) for thing in things]
        for _ in range(1000):
            Memory(shape, dtype, name=name, mode=mode)
            access = mem.cpu(mode)
            access.view("uint8"), access.reshape((12,)), access.shape, access.memory, access.stream, repr(access)
            mem[0], mem[1:], mem.reshape(shape), mem.view(dtype), mem.part(4, shape[:1], dtype), mem.device, repr(mem)
            memoryview(access), memoryview(mem), mem.__dlpack__(), mem.__dlpack_device__()
            mem.query(), mem.wait(), mem.clear(), mem.describe()
            for wrong in ((mem.cpu, "x"), (mem.gpu, "x"), (mem.__getitem__, 9), (mem.reshape, 5), (mem.view, "x"),
                          (mem.push, mode), (Memory, "x")):
                try:
                    wrong[0](wrong[1])
                except Exception:
                    pass
            access = None
        after = [sys.getrefcount(thing) for thing in things]
        for thing, a, b in zip(things, after, before):
            self.assertLess(abs(a - b), 200, thing)  # other code changes some counts, but not with each round


class Parts(Case):
    def test_slices(self):
        mem = Memory((6, 2), "uint8")
        memoryview(mem.cpu("overwrite")).cast("B")[:] = bytes(range(12))
        for key, shape, offset in ((slice(1, 3), (2, 2), 2), (slice(None), (6, 2), 0), (slice(-2, None), (2, 2), 8),
                                   (slice(4, 2), (0, 2), 8), (2, (2,), 4), (-1, (2,), 10), (slice(2, 99), (4, 2), 4)):
            view = mem[key]
            self.assertEqual((view.shape, view.is_view), (shape, True))
            size = view.nbytes
            found = bytes(memoryview(view.cpu()).cast("B")) if size else b""
            self.assertEqual(found, bytes(range(offset, offset + size)))
            self.assertEqual(view.offset if size else offset, offset)
        self.assertEqual(len(mem), 6)
        for key in (6, -7, 1 << 70):
            self.assertRaises(IndexError, mem.__getitem__, key)
        self.assertRaises(ValueError, mem.__getitem__, slice(0, 6, 2))
        self.assertRaises(ValueError, mem.__getitem__, slice(None, None, -1))
        self.assertRaises(TypeError, mem.__getitem__, (1, 2))
        self.assertRaises(TypeError, mem.__getitem__, "a")
        self.assertRaises(IndexError, Memory(()).__getitem__, 0)
        self.assertRaises(TypeError, len, Memory(()))
        self.assertRaises(TypeError, iter, mem)

    def test_views_write_their_root(self):
        mem = Memory((4, 2), "int32")
        memoryview(mem[1:3].cpu("mutable")).cast("B")[0] = 9
        self.assertEqual(memoryview(mem.cpu())[1, 0], 9)
        inner = mem[1:3][1]
        memoryview(inner.cpu("mutable"))[1] = 7
        self.assertEqual(memoryview(mem.cpu()).tolist(), [[0, 0], [9, 0], [0, 7], [0, 0]])
        with self.assertRaises(synced_mem.InvalidStateError):
            inner.resize(4)
        with self.assertRaises(synced_mem.InvalidStateError):
            mem.resize((5, 2))

    def test_reshape(self):
        mem = Memory((2, 6), "int16")
        for shape, expected in ((12, (12,)), ((3, -1), (3, 4)), ((-1,), (12,)), ([1, 12, 1], (1, 12, 1))):
            other = mem.reshape(shape)
            self.assertEqual((other.shape, other.is_view, mem.cpu().reshape(shape).shape), (expected, False, expected))
        for shape in (11, (5, -1), (-1, -1), (0, -1), (2, 6, 0), (-2, -6), (1 << 62, 4)):
            self.assertRaises(ValueError, mem.reshape, shape)
        empty = Memory((0, 3))
        self.assertEqual(empty.reshape((3, 0)).shape, (3, 0))
        self.assertRaises(ValueError, empty.reshape, (0, -1))
        memoryview(mem.reshape(12).cpu("mutable"))[11] = 5
        self.assertEqual(memoryview(mem.cpu())[1, 5], 5)
        del mem
        self.assertEqual(memoryview(other.cpu())[0, 11, 0], 5)

    def test_numbers_that_resize_the_object(self):
        """The conversion of an index or a shape calls a method of the program's."""
        class Number:
            def __init__(self, mem):
                self.mem = mem

            def __index__(self):
                self.mem.resize(2)
                return 1
        for use in (lambda mem, number: mem[number], lambda mem, number: mem[number:],
                    lambda mem, number: mem.reshape((number, -1)), lambda mem, number: mem.part(0, number, "int8"),
                    lambda mem, number: mem.resize(number)):
            mem = Memory((64, 64))
            try:
                use(mem, Number(mem))
            except (synced_mem.Error, BufferError):
                pass
            self.assertIn(mem.shape, ((2,), (1,)))

    def test_another_type(self):
        mem = Memory((2, 4), "bfloat16")
        for dtype, shape in (("uint16", (2, 4)), ("uint8", (2, 8)), ("float64", (2, 1)), ("float4_e2m1fn", (2, 16))):
            self.assertEqual((mem.view(dtype).shape, mem.cpu().view(dtype).shape), (shape, shape))
        for dtype in ("complex128",):
            self.assertRaises(ValueError, mem.view, dtype)
        self.assertRaises(ValueError, Memory((), "int16").view, "int8")
        self.assertEqual(Memory((), "int16").view("float16").shape, ())
        self.assertRaises(TypeError, mem.view, "text")

    def test_parts_of_small_types(self):
        self.assertRaises(ValueError, Memory((3, 3), "float4_e2m1fn").__getitem__, 1)
        self.assertEqual(Memory((3, 2), "float4_e2m1fn")[1].offset, 1)

    def test_part(self):
        mem = Memory(16, "uint8", name="root")
        memoryview(mem.cpu("overwrite"))[:] = bytes(range(16))
        part = mem.part(4, (2, 2), "uint16", name="part")
        self.assertEqual((part.offset, part.name, memoryview(part.cpu()).tolist()),
                         (4, "part", [[0x0504, 0x0706], [0x0908, 0x0b0a]]))
        self.assertRaises(synced_mem.InvalidArgumentError, mem.part, 12, (5,), "uint8")
        self.assertRaises(ValueError, mem.part, -1, (1,), "uint8")


class Accesses(Case):
    """An access to read that moves nothing is made by the first use."""

    def test_the_address_is_that_of_the_first_use(self):
        mem = Memory(4, "uint8")
        memoryview(mem)[:] = b"abcd"
        access, other = mem.cpu(), mem.cpu()
        self.assertEqual(access.ptr, other.ptr)
        access = mem.cpu()
        mem.resize(1 << 20)
        self.assertEqual(ctypes.string_at(access.ptr, 5), b"abcd\0")
        self.assertEqual(access.ptr, mem.cpu("mutable").ptr)

    @on_the_device
    def test_it_waits(self):
        for use in (lambda access: ctypes.string_at(access.ptr, 1 << 20), bytes):
            mem = Memory(1 << 20, "uint8")
            fill(mem.gpu("mutable"), 7)
            mem.pull()
            access = mem.cpu()
            self.assertEqual(use(access), b"\7" * (1 << 20))
            fill(mem.gpu("mutable"), 8)  # the contents are on the device again
            self.assertEqual(bytes(access), b"\10" * (1 << 20))
            del access, mem

    @on_the_device
    def test_one_that_moves_is_made_at_once(self):
        mem = Memory(4, "uint8")
        fill(mem.gpu("mutable"), 7)
        mem.cpu()
        self.assertEqual(mem.head, "SYNCED")
        mem.cpu("mutable")
        self.assertEqual(mem.head, "AT_CPU")


class Calls(Case):
    def test_heads(self):
        mem = Memory(4)
        self.assertEqual((mem.head, mem.cpu_source), ("UNINITIALIZED", "none"))
        self.assertEqual(mem.cpu().mode, "read")
        self.assertEqual(mem.head, "AT_CPU")
        mem.clear()
        self.assertEqual(mem.head, "UNINITIALIZED")
        self.assertNotEqual(mem.cpu_source, "none")
        mem.release_data()
        self.assertEqual(mem.cpu_source, "none")

    def test_wrong_accesses(self):
        mem = Memory(4)
        for call in (lambda: mem.cpu("write"), lambda: mem.cpu(mode=1), lambda: mem.gpu(None)):
            self.assertRaises(ValueError, call)
        for call in (lambda: mem.cpu("read", 1), lambda: mem.cpu("read", mode="read"), lambda: mem.gpu("read", 1, 2),
                     lambda: mem.cpu(stream=1), lambda: mem.gpu("read", 1, stream=2), lambda: mem.gpu(side=1)):
            self.assertRaises(TypeError, call)
        self.assertEqual(mem.head, "UNINITIALIZED")

    def test_resize(self):
        mem = Memory(4, "int32")
        memoryview(mem.cpu("overwrite"))[:] = memoryview(b"\1\0\0\0" * 4).cast("i")
        mem.resize((3, 2))
        self.assertEqual((mem.shape, memoryview(mem.cpu()).tolist()), ((3, 2), [[1, 1], [1, 1], [0, 0]]))
        mem.resize(2, discard=True)
        self.assertEqual((mem.shape, mem.head), ((2,), "UNINITIALIZED"))
        self.assertRaises(ValueError, mem.resize, -1)
        self.assertEqual(mem.shape, (2,))

    def test_a_smaller_object(self):
        """A reshaped object keeps its shape when the memory becomes smaller; its exports fail."""
        mem = Memory(8, "int32")
        other, access = mem.reshape((2, 4)), mem.cpu()
        mem.resize(4)
        self.assertRaises(BufferError, memoryview, other)
        self.assertRaises(BufferError, memoryview, access)
        self.assertRaises(BufferError, access.__dlpack__)
        self.assertEqual(mem.exports, 0)

    def test_copies(self):
        a, b, c, d = (Memory((2, 2), "int32") for _ in range(4))
        memoryview(a.cpu("mutable"))[0, 0] = 5
        synced_mem.copy(b, a, side="cpu")
        synced_mem.copy([c, d], [a, b], "cpu")
        self.assertEqual(memoryview(d.cpu())[0, 0], 5)
        self.assertRaises(ValueError, synced_mem.copy, [a, b], [c])
        self.assertRaises(TypeError, synced_mem.copy, [a, 1], [c, d])
        self.assertRaises(TypeError, synced_mem.copy, 1, [c, d])
        self.assertRaises(synced_mem.InvalidArgumentError, synced_mem.copy, a, a, "cpu")
        synced_mem.push([])
        synced_mem.pull(())

    def test_errors(self):
        mem = Memory(4, name="the name")
        with self.assertRaises(synced_mem.InvalidStateError) as caught:
            mem.push()
        error = caught.exception
        self.assertEqual((error.status, error.status_name), (2 if has_gpu else error.status, error.status_name))
        self.assertIn("the name", str(error))
        self.assertIsInstance(error, RuntimeError)
        for name in dir(synced_mem):
            each = getattr(synced_mem, name)
            if isinstance(each, type) and issubclass(each, Exception):
                self.assertTrue(issubclass(each, synced_mem.Error), name)
                self.assertTrue(each.__doc__, name)
                self.assertEqual(f"{each.__module__}.{each.__name__}", f"synced_mem.{name}")
        self.assertTrue(issubclass(synced_mem.TimeoutError, TimeoutError))
        self.assertTrue(issubclass(synced_mem.FileError, OSError))
        self.assertTrue(issubclass(synced_mem.OutOfHostMemoryError, MemoryError))

    @unittest.skipIf(has_gpu or synced_mem.device_count(), "there is a GPU")
    def test_without_a_gpu(self):
        mem = Memory(4, side="gpu")
        for call in (mem.gpu, lambda: mem.gpu("overwrite", 0), mem.__dlpack_device__, synced_mem.device_info):
            self.assertRaises(synced_mem.NoGpuError, call)
        with self.assertRaises(BufferError) as caught:
            mem.__dlpack__()
        self.assertIsInstance(caught.exception.__cause__, synced_mem.NoGpuError)
        self.assertEqual((mem.head, mem.exports), ("UNINITIALIZED", 0))

    def test_reports(self):
        mem = Memory(4, name="the name")
        mem.cpu()
        self.assertIn("the name", mem.describe())
        self.assertIn("the name", synced_mem.describe_objects())
        self.assertTrue(synced_mem.describe_stats())
        self.assertEqual(synced_mem.stats()["objects"], 1)
        self.assertTrue(all(isinstance(value, int) for value in synced_mem.host_pool_stats().values()))
        self.assertRegex(repr(mem), "the name.*float32.*AT_CPU")
        self.assertRegex(repr(mem.cpu()), "host.*read.*float32")

    def test_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            synced_mem.trace_start(path)
            self.assertRaises(synced_mem.InvalidStateError, synced_mem.trace_start, path)
            mem = Memory(4, name="traced")
            with synced_mem.scope("outer"), synced_mem.scope("inner"):
                mem.cpu("mutable")
            synced_mem.trace_stop()
            with open(path, encoding="utf-8") as file:
                text = file.read()
            json.loads(text)
            self.assertIn("traced", text)
            self.assertIn("outer/inner", text)
            self.assertIsInstance(synced_mem.trace_summary(), str)
            self.assertRaises(synced_mem.FileError, synced_mem.trace_start, os.path.join(folder, "no", "folder"))
        self.assertRaises(synced_mem.InvalidStateError, synced_mem.trace_stop)


class Interface(unittest.TestCase):
    """Names, texts and stubs."""

    def names(self):
        public = {name: getattr(synced_mem, name) for name in synced_mem.__all__}
        for type_ in (synced_mem.Memory, synced_mem.Access):
            public.update({f"{type_.__name__}.{name}": value for name, value in vars(type_).items() if name[0] != "_"})
        return public

    def test_every_name_has_a_text(self):
        for name, value in self.names().items():
            if name != "Turn":
                self.assertTrue(value.__doc__, name)

    def test_the_stubs_have_every_name(self):
        path = os.path.join(os.path.dirname(synced_mem.__file__), "__init__.pyi")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        stubs = set(re.findall(r"^(?:class|def) (\w+)", text, re.M))
        for type_ in ("Memory", "Access"):
            body = re.search(rf"^class {type_}:\n((?:    .*\n|\n)+)", text, re.M)[1]
            stubs |= {f"{type_}.{name}" for name in re.findall(r"^    def (\w+)", body, re.M) if name[0] != "_"}
        stubs = {name for name in stubs if not name.startswith("_")}
        self.assertEqual(stubs, set(self.names()) - {"Turn"})

    def test_the_version(self):
        self.assertRegex(synced_mem.__version__, r"^\d+\.\d+\.\d+$")


main()
