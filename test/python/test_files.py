"""Contents in files, and writes to files."""
from kit import *  # noqa: F403
import resource
import signal
import tempfile
import threading

from synced_mem import File, Memory

BYTES = bytes(range(200))


class Files(Case):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "file")
        with open(self.path, "wb") as file:
            file.write(BYTES)

    def tearDown(self):
        super().tearDown()
        self.folder.cleanup()

    def open(self, mode="rb"):
        with open(self.path, mode) as file:
            return File(file)

    def read(self):
        with open(self.path, "rb") as file:
            return file.read()

    def contents(self, mem):
        return bytes(memoryview(mem.part(0, mem.nbytes, "uint8").cpu()))


class Opening(Files):
    def test_a_descriptor(self):
        descriptor = os.open(self.path, os.O_RDONLY)
        file = File(descriptor)
        os.close(descriptor)
        mem = Memory(4, "uint8")
        mem.use_file(file)
        del file
        self.assertEqual(self.contents(mem), BYTES[:4])

    def test_what_is_refused(self):
        ends = os.pipe()
        for wrong in (ends[0], ends[1], sys.maxsize, -1):
            self.assertRaises((synced_mem.InvalidArgumentError, ValueError, OverflowError), File, wrong)
        for end in ends:
            os.close(end)
        self.assertRaises(synced_mem.InvalidArgumentError, File, ends[0])
        with open(self.path, "a+b") as file:
            self.assertRaisesRegex(synced_mem.InvalidArgumentError, "O_APPEND", File, file)
        for wrong in (None, "x", 5.0):
            self.assertRaises(TypeError, File, wrong)
        self.assertRaises(TypeError, File)

    def test_no_descriptor_is_left(self):
        def lowest():
            descriptor = os.dup(0)
            os.close(descriptor)
            return descriptor
        before = lowest()
        for _ in range(10):
            self.open().wait()
            mem = Memory(4)
            mem.use_file(self.open("r+b"))
            mem.cpu()
            del mem
        self.assertEqual(lowest(), before)


class Reading(Files):
    def test_contents(self):
        mem = Memory((2, 3), "int16")
        mem.use_file(self.open(), 7)
        self.assertEqual((mem.head, mem.in_file), ("UNINITIALIZED", True))
        self.assertEqual(bytes(memoryview(mem.cpu())), BYTES[7:19])
        self.assertEqual((mem.head, mem.in_file), ("AT_CPU", True))
        mem.release_data("cpu")
        self.assertEqual((mem.head, mem.in_file), ("UNINITIALIZED", True))
        mem.use_file(self.open(), offset=100)
        self.assertEqual(bytes(memoryview(mem.cpu("mutable"))), BYTES[100:112])
        self.assertEqual((mem.head, mem.in_file), ("AT_CPU", False))

    def test_a_part(self):
        mem = Memory(8, "uint8")
        memoryview(mem.cpu("overwrite"))[:] = b"abcdefgh"
        mem[2:4].use_file(self.open(), 50)
        self.assertEqual((mem.in_file, mem[2:4].in_file), (False, True))
        self.assertEqual(self.contents(mem), b"ab" + BYTES[50:52] + b"efgh")

    @on_the_device
    def test_the_device(self):
        mems = [Memory(10, "uint8") for _ in range(20)]
        for place, mem in enumerate(mems):
            mem.use_file(self.open(), 10 * place)
        synced_mem.push(mems)
        mems[0].gpu()
        self.assertEqual([(mem.head, mem.cpu_source) for mem in mems], [("AT_GPU", "none")] * 20)
        self.assertEqual(b"".join(map(self.contents, mems)), BYTES)

    def test_what_is_refused(self):
        mem, file = Memory(50), self.open()
        self.assertRaisesRegex(synced_mem.FileError, "does not have 200 bytes at offset 1", mem.use_file, file, 1)
        self.assertRaises(OSError, mem.use_file, file, 2**62)
        self.assertRaises(synced_mem.InvalidArgumentError, mem.use_file, file, 2**63)
        for wrong in (-1, 2**64):
            self.assertRaises(OverflowError, mem.use_file, file, wrong)
        for wrong in ((), (None,), ("x",), (5,), (file, 1.0), (file, "1"), (file, 0, None)):
            self.assertRaises(TypeError, mem.use_file, *wrong)
        self.assertFalse(mem.in_file)
        if can_share:
            shared = Memory(4, "uint8", shareable=True)
            self.assertRaises(synced_mem.InvalidStateError, shared.use_file, file)


class Writing(Files):
    def test_an_object(self):
        mem, file = Memory(4, "uint8"), self.open("r+b")
        memoryview(mem.cpu("overwrite"))[:] = b"abcd"
        mem.write_file(file, 10)
        mem.write_file(file, offset=20, stream=None)
        mem.wait()
        file.wait()
        self.assertEqual(self.read(), BYTES[:10] + b"abcd" + BYTES[14:20] + b"abcd" + BYTES[24:])
        self.assertFalse(mem.in_file)

    @on_the_device
    def test_the_device(self):
        mem, file, stream = Memory(64, "uint8"), self.open("r+b"), Stream()
        fill(mem.gpu("overwrite", stream), 7, stream)
        mem.write_file(file, 0, stream)
        with synced_mem.stream(stream):
            mem.write_file(file, 100)
        file.wait()
        self.assertEqual((mem.head, mem.cpu_source), ("AT_GPU", "none"))
        self.assertEqual(self.read(), b"\7" * 64 + BYTES[64:100] + b"\7" * 64 + BYTES[164:])

    def test_a_list(self):
        mems, file = [Memory(3, "uint8") for _ in range(5)], self.open("r+b")
        for place, mem in enumerate(mems):
            memoryview(mem.cpu("overwrite"))[:] = bytes([place] * 3)
        synced_mem.write_file(mems, file, range(0, 50, 10))
        synced_mem.write_file(mems[4], file, [199])
        synced_mem.write_file([], file, [])
        file.wait()
        expected = bytearray(BYTES)
        for place in range(5):
            expected[10 * place:10 * place + 3] = bytes([place] * 3)
        self.assertEqual(self.read(), bytes(expected[:199]) + b"\4\4\4")

    def test_a_place(self):
        mem, other, file = Memory(4, "uint8"), Memory(4, "uint8"), self.open("r+b")
        for each in (mem, other):
            memoryview(each.cpu("overwrite"))[:] = b"abcd"
        mem.write_file(file, 10, place=True)
        file.wait()
        self.assertEqual((mem.head, mem.in_file), ("AT_CPU", True))
        mem.release_data()
        self.assertEqual((mem.head, mem.in_file), ("UNINITIALIZED", True))
        self.assertEqual(self.contents(mem), b"abcd")
        memoryview(mem.cpu("mutable"))[:] = b"efgh"
        self.assertFalse(mem.in_file)
        synced_mem.write_file([mem, other], file, [20, 30], place=True)
        file.wait()
        self.assertEqual((mem.in_file, other.in_file), (True, True))
        self.assertEqual(self.read()[10:40], b"abcd" + BYTES[14:20] + b"efgh" + BYTES[24:30] + b"abcd" + BYTES[34:40])
        self.assertRaises(synced_mem.InvalidStateError, mem.write_file, file, 31, place=True)
        mem.write_file(file, 50, place=False)
        file.wait()
        if can_share:
            shared = Memory(4, "uint8", shareable=True)
            self.assertRaises(synced_mem.InvalidStateError, shared.write_file, file, place=True)

    def test_threads(self):
        file = self.open("r+b")

        def write(place):
            mem = Memory(1 << 16, "uint8")
            memoryview(mem.cpu("overwrite"))[:] = bytes([place]) * (1 << 16)
            mem.write_file(file, place << 16)
            del mem
            file.wait()
        threads = [threading.Thread(target=write, args=(place,)) for place in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.read(), b"".join(bytes([place]) * (1 << 16) for place in range(8)))

    def test_what_is_refused(self):
        mem, file, reader = Memory(4, "uint8"), self.open("r+b"), self.open()
        self.assertRaises(synced_mem.InvalidStateError, mem.write_file, file)
        memoryview(mem.cpu("overwrite"))[:] = b"abcd"
        self.assertRaises(synced_mem.InvalidArgumentError, mem.write_file, reader)
        self.assertRaises(synced_mem.InvalidArgumentError, mem.write_file, file, 2**63)
        for wrong in (-1, 2**64):
            self.assertRaises(OverflowError, mem.write_file, file, wrong)
            self.assertRaises(OverflowError, synced_mem.write_file, [mem], file, [wrong])
        for wrong in ((), (None,), ("x",), (file, 1.0), (file, 0, "x"), (file, 0, None, None)):
            self.assertRaises(TypeError, mem.write_file, *wrong)
        for wrong in ((), ([mem], file), ([5], file, [0]), ([mem], 5, [0]), ([mem], file, 5), ([mem], file, ["x"])):
            self.assertRaises(TypeError, synced_mem.write_file, *wrong)
        for wrong in ([], [0, 4]):
            self.assertRaises(ValueError, synced_mem.write_file, [mem], file, wrong)
        self.assertRaises(synced_mem.InvalidArgumentError, synced_mem.write_file, [mem, mem[:2]], file, [0, 2])
        in_file = Memory(10, "uint8")
        in_file.use_file(file, 3)
        self.assertRaises(synced_mem.InvalidStateError, mem.write_file, file)
        file.wait()
        self.assertEqual(self.read(), BYTES)

    def test_an_error_is_raised_once(self):
        mem, file = Memory(4, "uint8"), self.open("r+b")
        mem.cpu("overwrite")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            mem.write_file(file, 1000)
            self.assertRaises(synced_mem.FileError, file.wait)
            file.wait()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, before)


main()
