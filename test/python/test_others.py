"""
PyTorch, CuPy and JAX, where they are installed: exchanges on both sides, and random work on side streams, with NumPy as
the oracle. Exits with 77 if none of them is installed.
"""
from kit import *  # noqa: F403
import contextlib
import importlib
import os
import random
import warnings

from synced_mem import Memory

warnings.simplefilter("ignore")  # theirs


def find(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


torch, cupy, jax = find("torch"), find("cupy"), find("jax.dlpack") and find("jax")
if numpy is None or not (torch or cupy or jax):
    print("skipped: NumPy, and PyTorch, CuPy or JAX are not installed")
    sys.exit(SKIPPED)
torch_gpu = bool(torch and torch.cuda.is_available() and synced_mem.device_count())
cupy_gpu = bool(cupy and synced_mem.device_count())
jax_gpu = bool(jax and any(device.platform == "gpu" for device in jax.devices()) and synced_mem.device_count())
ROUNDS = int(os.environ.get("SYNCED_MEM_TEST_ROUNDS", "20"))


def synchronize():
    if torch_gpu:
        torch.cuda.synchronize()
    elif cupy_gpu:
        cupy.cuda.runtime.deviceSynchronize()


class WithOthers(unittest.TestCase):
    def tearDown(self):
        synchronize()
        self.assertEqual(objects(), 0)


class Torch(WithOthers):
    def setUp(self):
        if not torch:
            self.skipTest("no PyTorch")
        self.sides = ["cpu"] + ["gpu"] * torch_gpu

    def access(self, mem, side, mode="mutable", *arguments):
        return (mem.cpu if side == "cpu" else mem.gpu)(mode, *arguments)

    def test_out_and_back(self):
        for side in self.sides:
            for dtype in ("float32", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"):
                mem = Memory((3, 4), dtype)
                tensor = torch.from_dlpack(self.access(mem, side))
                self.assertEqual((tuple(tensor.shape), str(tensor.dtype)), ((3, 4), f"torch.{dtype}"))
                self.assertEqual(tensor.data_ptr(), self.access(mem, side).ptr)
                tensor.fill_(1)
                back = synced_mem.from_dlpack(tensor)
                self.assertEqual((back.shape, back.dtype, back.side), ((3, 4), dtype, side))
                del mem
                self.assertEqual(complex(torch.from_dlpack(self.access(back, side)).sum()).real > 0, True)
                del tensor, back

    def test_types(self):
        self.assertEqual([Memory(1, dtype).dtype for dtype in (torch.float32, torch.bfloat16, torch.uint8)],
                         ["float32", "bfloat16", "uint8"])

    def test_the_default_stream(self):
        if not torch_gpu:
            self.skipTest("no device")
        mem = Memory((1 << 20,), "float32")
        tensor = torch.from_dlpack(mem.gpu("mutable"))
        tensor += 3
        self.assertEqual(float(numpy.asarray(mem.cpu())[-1]), 3.0)
        numpy.asarray(mem.cpu("mutable"))[:] = 5
        self.assertEqual(float(torch.from_dlpack(mem.gpu()).sum()), 5.0 * (1 << 20))
        del tensor

    def test_the_cuda_array_interface(self):
        if not torch_gpu:
            self.skipTest("no device")
        mem = Memory((8,), "float32")
        tensor = torch.as_tensor(mem.gpu("mutable"), device="cuda")
        self.assertEqual(mem.exports, 1)
        tensor += 2
        self.assertEqual(numpy.asarray(mem.cpu()).tolist(), [2.0] * 8)
        del tensor
        self.assertEqual(mem.exports, 0)

    def test_random_streams(self):
        if not torch_gpu:
            self.skipTest("no device")
        for seed in range(ROUNDS):
            choose = random.Random(seed)
            streams = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(3)]
            mem, oracle = Memory((1 << 18,), "float32"), numpy.zeros(1 << 18, "float32")
            for _ in range(30):
                number, what = choose.randrange(1, 9), choose.randrange(6)
                stream = choose.choice(streams)
                if what < 3:
                    with torch.cuda.stream(stream):
                        tensor = torch.from_dlpack(mem.gpu("mutable"))
                        for _ in range(choose.randrange(1, 20)):
                            tensor.mul_(0.5).add_(number)
                            oracle = oracle * numpy.float32(0.5) + numpy.float32(number)
                            if what == 1:
                                break
                        else:
                            tensor.add_(0)
                        del tensor
                elif what == 3:
                    access = mem.gpu("overwrite", stream)
                    with torch.cuda.stream(stream):
                        torch.from_dlpack(access).fill_(number)
                    oracle[:] = number
                    del access
                elif what == 4:
                    numpy.asarray(mem.cpu("mutable"))[...] += number
                    oracle += number
                else:
                    with synced_mem.stream(stream):
                        (mem.push if mem.head == "AT_CPU" else mem.gpu)()
            self.assertTrue(numpy.array_equal(numpy.asarray(mem.cpu()), oracle), seed)
            del mem, streams, stream

    def test_read_only(self):
        """PyTorch does not honour it."""
        for side in self.sides:
            mem = Memory((4,))
            tensor = torch.from_dlpack(self.access(mem, side, "read"))
            self.assertEqual(float(tensor.sum()), 0)
            del tensor


class Cupy(WithOthers):
    def setUp(self):
        if not cupy_gpu:
            self.skipTest("no CuPy, or no device")

    def test_out_and_back(self):
        for dtype in ("float32", "float16", "int64", "uint8", "complex64"):
            mem = Memory((3, 4), dtype)
            for take in (cupy.from_dlpack, cupy.asarray):
                array = take(mem.gpu("mutable"))
                self.assertEqual((array.shape, str(array.dtype), array.data.ptr), ((3, 4), dtype, mem.gpu().ptr))
                array += 1
                self.assertEqual(mem.exports, 1)
                back = synced_mem.from_dlpack(array)
                self.assertEqual((back.shape, back.dtype, back.side, back.head), ((3, 4), dtype, "gpu", "AT_GPU"))
                self.assertTrue((numpy.asarray(back.cpu()) != 0).all())
                del array, back
                self.assertEqual(objects(), 1)
            self.assertTrue((numpy.asarray(mem.cpu()) == 2).all())

    def test_random_streams(self):
        for seed in range(ROUNDS):
            choose = random.Random(seed)
            streams = [cupy.cuda.Stream.null, cupy.cuda.Stream()]
            streams += [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
            mem, oracle = Memory((1 << 18,), "float32"), numpy.zeros(1 << 18, "float32")
            views = [(mem, slice(None)), (mem[:1 << 17], slice(0, 1 << 17)), (mem[1 << 16:], slice(1 << 16, None))]
            for _ in range(30):
                number, what = choose.randrange(1, 9), choose.randrange(5)
                stream = choose.choice(streams)
                view, place = choose.choice(views)
                if what < 2:
                    with stream:
                        array = (cupy.from_dlpack if what else cupy.asarray)(
                            view.gpu("mutable", *([] if what else [stream])))
                        for _ in range(choose.randrange(1, 10)):
                            array *= numpy.float32(0.5)
                            array += numpy.float32(number)
                            oracle[place] = oracle[place] * numpy.float32(0.5) + numpy.float32(number)
                        del array
                elif what == 2:
                    access = view.gpu("overwrite", stream)
                    with stream:
                        cupy.from_dlpack(access).fill(number)
                    oracle[place] = number
                    del access
                elif what == 3:
                    numpy.asarray(view.cpu("mutable"))[...] += number
                    oracle[place] += number
                else:
                    other = Memory(view.shape, "float32")
                    synced_mem.copy(other, view, "gpu", stream)
                    self.assertTrue(numpy.array_equal(numpy.asarray(other.cpu()), oracle[place]), seed)
                    del other
            self.assertTrue(numpy.array_equal(numpy.asarray(mem.cpu()), oracle), seed)
            del mem, view, views, streams, stream

    def test_two_packages(self):
        """PyTorch and CuPy use one object in turn, each on a stream of its own."""
        if not torch_gpu:
            self.skipTest("no PyTorch")
        mem = Memory((1 << 20,), "int32")
        first, second = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
        for number in range(1, 50):
            with torch.cuda.stream(first):
                torch.from_dlpack(mem.gpu("mutable")).add_(number)
            with second:
                array = cupy.from_dlpack(mem.gpu("mutable"))
                array *= 2
                array %= 1000003
                del array
        expected = 0
        for number in range(1, 50):
            expected = (expected + number) * 2 % 1000003
        self.assertTrue((numpy.asarray(mem.cpu()) == expected).all())


class Jax(WithOthers):
    def setUp(self):
        if not jax:
            self.skipTest("no JAX")

    def test_out_and_back(self):
        for side in ["cpu"] + ["gpu"] * jax_gpu:
            mem = Memory((3, 4), "float32")
            numpy.asarray(mem.cpu("mutable"))[...] = numpy.arange(12).reshape(3, 4)
            self.assertRaises(BufferError, jax.dlpack.from_dlpack, mem.cpu())  # it asks for no version of DLPack
            array = jax.dlpack.from_dlpack(mem.cpu("mutable") if side == "cpu" else mem.gpu("mutable"))
            self.assertEqual((array.shape, float(array.sum())), ((3, 4), 66.0))
            result = array * 2
            result.block_until_ready()
            back = synced_mem.from_dlpack(result)
            self.assertEqual((back.shape, back.dtype), ((3, 4), "float32"))
            self.assertEqual(float(numpy.asarray(back.cpu()).sum()), 132.0)
            del array, result, back, mem
            gc.collect()

    def test_random(self):
        """JAX computes between writes by the host and by CuPy, on streams of its own."""
        if not jax_gpu:
            self.skipTest("no device")
        for seed in range(ROUNDS):
            choose = random.Random(seed)
            mem, oracle = Memory((1 << 18,), "float32"), numpy.zeros(1 << 18, "float32")
            for _ in range(10):
                number = numpy.float32(choose.randrange(1, 9))
                if choose.randrange(2) or not cupy_gpu:
                    numpy.asarray(mem.cpu("mutable"))[...] += number
                else:
                    with cupy.cuda.Stream(non_blocking=True) as stream:
                        array = cupy.from_dlpack(mem.gpu("mutable"))
                        array += number
                        stream.synchronize()
                        del array
                oracle += number
                result = jax.dlpack.from_dlpack(mem.gpu("mutable")) * 2
                self.assertTrue(numpy.array_equal(numpy.asarray(result), oracle * 2), seed)
                del result
            gc.collect()
            del mem


main()
