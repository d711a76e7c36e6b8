"""DLPack's C exchange, with a consumer in C, and objects of another extension."""
from kit import *  # noqa: F403
import threading

import consumer
from synced_mem import Access, Memory


class Exchange(Case):
    def test_the_table(self):
        for type_ in (Memory, Access):
            self.assertIn("dlpack_exchange_api", repr(type_.__dlpack_c_exchange_api__))

    def test_tensors_of_objects(self):
        mem = Memory((2, 3), "int16", mode="read")
        access = mem.cpu("overwrite")
        for producer, read_only in ((mem, 1), (access, 0), (mem.cpu(), 1)):
            capsule, described, flags = consumer.export_tensor(producer)
            self.assertEqual(described, (mem.cpu().ptr, (CPU, 0), (0, 16, 1), (2, 3), (3, 1)))
            self.assertEqual((flags, mem.exports), (read_only, 1))
            self.assertRaisesRegex(BufferError, "^1 exports", mem.resize, 5)
            consumer.end_tensor(capsule, read_only)
            self.assertEqual(mem.exports, 0)
        self.assertEqual(access.mode, "mutable")

    def test_borrowed_tensors(self):
        mem = Memory((2, 3), "float32")
        for producer in (mem, mem.cpu()):
            self.assertEqual(consumer.borrow_tensor(producer), (mem.cpu().ptr, (CPU, 0), (2, 32, 1), (2, 3), (3, 1)))
        self.assertEqual(mem.exports, 0)
        self.assertEqual(consumer.borrow_tensor(Memory((0, 3)))[0], 0)
        self.assertEqual(consumer.borrow_tensor(Memory(()))[3:], ((), ()))

    def test_objects_of_tensors(self):
        mem = Memory((2, 3), "uint8")
        memoryview(mem.cpu("mutable"))[1, 2] = 5
        capsule, _, _ = consumer.export_tensor(mem)
        other = consumer.import_tensor(mem, capsule)
        self.assertEqual((type(other), other.shape, other.dtype, other.head), (Memory, (2, 3), "uint8", "AT_CPU"))
        self.assertEqual((memoryview(other)[1, 2], other.cpu().ptr), (5, mem.cpu().ptr))
        del mem
        self.assertEqual(objects(), 2)
        del other
        self.assertEqual(objects(), 0)

    def test_allocation(self):
        mem = Memory(1)
        capsule, described = consumer.allocate(mem, CPU, 0, 5)
        self.assertEqual(described[1:], ((CPU, 0), (2, 32, 1), (5, 3), (3, 1)))
        ctypes.memset(described[0], 7, 60)
        self.assertEqual(objects(), 2)
        other = consumer.import_tensor(mem, capsule)
        self.assertEqual(bytes(other.view("uint8").reshape(-1)), b"\7" * 60)
        del other
        for device, number, rows in ((10, 0, 5), (CPU, 0, -1), (CPU, 0, 1 << 61)):
            with self.assertRaisesRegex(BufferError, "BufferError: .+"):
                consumer.allocate(mem, device, number, rows)

    def test_failures(self):
        mem = Memory((4,))
        other = mem.reshape((2, 2))
        mem.resize(1)
        for call in (consumer.export_tensor,):
            self.assertRaises(BufferError, call, other)
        self.assertEqual(mem.exports, 0)
        self.assertEqual(consumer.current_stream(mem, CPU), 0)

    def test_threads(self):
        mem = Memory(64)

        def exchange():
            for _ in range(300):
                consumer.end_tensor(consumer.export_tensor(mem)[0], True)
                consumer.borrow_tensor(mem)
        threads = [threading.Thread(target=exchange) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(mem.exports, 0)


@on_the_device
class OnTheDevice(Case):
    def test_the_current_stream(self):
        mem = Memory((64,), "uint8", side="gpu")
        self.assertEqual(consumer.current_stream(mem, GPU), 0)
        stream = Stream()
        with synced_mem.stream(stream):
            self.assertEqual(consumer.current_stream(mem, GPU), stream.handle)
            self.assertEqual(consumer.current_stream(mem, CPU), 0)
            capsule, described, _ = consumer.export_tensor(mem)
            self.assertEqual(described[1], (GPU, mem.device))
            pointer, size = ctypes.c_void_p(described[0]), ctypes.c_size_t(64)
            self.assertEqual(runtime.cudaMemsetAsync(pointer, 5, size, ctypes.c_void_p(stream.handle)), 0)
            self.assertEqual(bytes(mem.cpu()), b"\5" * 64)  # after the consumer's work
            self.assertEqual(consumer.borrow_tensor(mem.gpu("mutable"))[0], described[0])
            self.assertEqual(runtime.cudaMemsetAsync(pointer, 6, size, ctypes.c_void_p(stream.handle)), 0)
            self.assertEqual(bytes(mem.cpu()), b"\6" * 64)
            consumer.end_tensor(capsule)

    def test_without_a_current_stream(self):
        """The consumer's work is on the legacy stream."""
        mem = Memory((64,), "uint8", side="gpu")
        capsule, described, _ = consumer.export_tensor(mem)
        pointer, size = ctypes.c_void_p(described[0]), ctypes.c_size_t(64)
        self.assertEqual(runtime.cudaMemsetAsync(pointer, 5, size, ctypes.c_void_p(None)), 0)
        self.assertEqual(bytes(mem.cpu()), b"\5" * 64)
        consumer.end_tensor(capsule, True)

    def test_back(self):
        mem = Memory((64,), "uint8", side="gpu")
        stream = Stream()
        with synced_mem.stream(stream):
            capsule, described = consumer.allocate(mem, GPU, 0, 4)
            pointer, size = ctypes.c_void_p(described[0]), ctypes.c_size_t(48)
            self.assertEqual(runtime.cudaMemsetAsync(pointer, 5, size, ctypes.c_void_p(stream.handle)), 0)
            other = consumer.import_tensor(mem, capsule)
            self.assertEqual((other.side, other.head, other.shape), ("gpu", "AT_GPU", (4, 3)))
        self.assertEqual(bytes(other.cpu()), b"\5" * 48)  # after work that was before the import
        del other


class Lock(Case):
    """The interpreter's lock is released around the library's calls that end objects, whoever ends them."""

    def ends(self):
        """Ways to end the last reference to an object."""
        def end_tensor(mem, without_lock):
            capsule = consumer.export_tensor(mem)[0]
            del mem
            return lambda: consumer.end_tensor(capsule, without_lock)
        yield lambda mem: [mem].clear
        yield lambda mem: memoryview(mem).release
        yield lambda mem: memoryview(mem.cpu()).release
        yield lambda mem: [mem[1:]].clear
        yield lambda mem: [mem.reshape((8, 8))].clear
        yield lambda mem: [mem.cpu()].clear
        yield lambda mem: [mem.__dlpack__()].clear
        yield lambda mem: [mem.__dlpack__(max_version=(1, 0))].clear
        yield lambda mem: [synced_mem.unwrap(mem)].clear
        yield lambda mem: end_tensor(mem, True)
        yield lambda mem: end_tensor(mem, False)
        yield lambda mem: mem.release_data
        yield lambda mem: lambda: mem.resize(128)
        if numpy:
            yield lambda mem: [numpy.asarray(mem)].clear
            yield lambda mem: [numpy.from_dlpack(mem)].clear

    def test_every_end(self):
        for number, begin in enumerate(self.ends()):
            before, with_lock = consumer.count_callbacks()
            mem = synced_mem.wrap(consumer.make_adopted(), 64, "uint8")
            end = begin(mem)
            del mem
            self.assertEqual(consumer.count_callbacks(), (before, with_lock), number)
            end()
            del end
            self.assertEqual(consumer.count_callbacks(), (before + 1, 0), number)


class Objects(Case):
    def test_of_another_extension(self):
        capsule = consumer.make_object(12)
        mem = synced_mem.wrap(capsule, (3, 4), "uint8")
        self.assertEqual(bytes(mem.cpu())[:4], b"\1\2\3\0")
        memoryview(mem.cpu("mutable"))[0, 0] = 9
        self.assertEqual(consumer.read_object(capsule)[:3], b"\x09\2\3")
        del capsule
        self.assertEqual(bytes(mem.cpu())[:3], b"\x09\2\3")

    def test_for_another_extension(self):
        mem = Memory(4, "uint8")
        memoryview(mem.cpu("mutable"))[0] = 5
        capsule = synced_mem.unwrap(mem)
        del mem
        self.assertEqual(consumer.read_object(capsule), b"\5\0\0\0")
        self.assertEqual(objects(), 1)
        del capsule

    def test_what_is_refused(self):
        with self.assertRaisesRegex(ImportError, "another copy"):
            synced_mem.wrap(consumer.make_object(12, True), 12, "uint8")
        self.assertRaises(ValueError, synced_mem.wrap, consumer.make_object(12), 13, "uint8")
        self.assertRaises(TypeError, synced_mem.wrap, consumer.make_object(12), 12, "text")
        self.assertRaises(TypeError, synced_mem.wrap, Memory(4).__dlpack__(), 4, "uint8")
        self.assertRaises(TypeError, synced_mem.wrap, 5, 4, "uint8")
        self.assertRaises(TypeError, synced_mem.unwrap, 5)


main()
