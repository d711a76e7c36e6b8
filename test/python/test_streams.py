"""Streams of other packages, the current stream of a thread, and pushes, pulls and copies on them."""
from kit import *  # noqa: F403
import threading

from synced_mem import Memory


class Without(Case):
    """What needs no device."""

    def test_the_current_stream(self):
        self.assertIsNone(synced_mem.current_stream())
        with synced_mem.stream(1) as outer:
            self.assertEqual((synced_mem.current_stream(), outer.cuda_stream, outer.__cuda_stream__()), (1, 1, (0, 1)))
            with synced_mem.stream(outer):
                self.assertEqual(synced_mem.current_stream(), 1)
                with synced_mem.stream(2):
                    self.assertEqual(synced_mem.current_stream(), 2)
            found = []
            thread = threading.Thread(target=lambda: found.append(synced_mem.current_stream()))
            thread.start()
            thread.join()
            self.assertEqual(found, [None])
        self.assertIsNone(synced_mem.current_stream())
        with self.assertRaises(KeyError), synced_mem.stream(2):
            raise KeyError
        self.assertIsNone(synced_mem.current_stream())

    def test_blocks_end_in_their_order(self):
        outer, inner = synced_mem.stream(1), synced_mem.stream(2)
        self.assertRaises(RuntimeError, outer.__exit__, None, None, None)
        with outer:
            self.assertRaises(RuntimeError, outer.__enter__)
            with inner:
                self.assertRaises(RuntimeError, outer.__exit__, None, None, None)
            found = []

            def end():
                try:
                    outer.__exit__(None, None, None)
                except RuntimeError:
                    found.append(True)
            thread = threading.Thread(target=end)
            thread.start()
            thread.join()
            self.assertEqual(found, [True])
        self.assertIsNone(synced_mem.current_stream())

    def test_a_lost_block(self):
        """A block whose object has no other reference goes on."""
        found = []

        def run():
            synced_mem.stream(1).__enter__()
            gc.collect()
            found.append(synced_mem.current_stream())
            try:
                synced_mem.stream(1).__exit__(None, None, None)
            except RuntimeError:
                found.append("refused")
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        self.assertEqual(found, [1, "refused"])

    def test_what_is_no_stream(self):
        mem = Memory(4)
        for wrong, error in ((-1, ValueError), (-2, ValueError), (2**64, ValueError), (2**64 - 1, ValueError),
                             (2**64 - 2, ValueError), (True, TypeError), ("1", TypeError), (1.5, TypeError),
                             (object(), TypeError)):
            for call in (lambda: mem.gpu("read", wrong), lambda: mem.push(wrong), lambda: mem.pull(stream=wrong),
                         lambda: synced_mem.stream(wrong), lambda: synced_mem.forget_stream(wrong),
                         lambda: synced_mem.copy(mem, mem, "gpu", wrong), lambda: mem.end_use(wrong),
                         lambda: synced_mem.push([mem], wrong), lambda: synced_mem.from_dlpack(mem, stream=wrong)):
                self.assertRaises(error, call)
        self.assertRaises(TypeError, synced_mem.stream, None)
        self.assertRaises(TypeError, synced_mem.forget_stream, None)

    def test_errors_of_attributes(self):
        class Wrong:
            def __init__(self, result):
                self.result = result

            def __cuda_stream__(self):
                if isinstance(self.result, Exception):
                    raise self.result
                return self.result

        class Property:
            @property
            def cuda_stream(self):
                raise KeyError("its own")
        for result, error in ((5, TypeError), ((0,), TypeError), ((0, "1"), (TypeError, ValueError)),
                              (KeyError(), KeyError)):
            self.assertRaises(error, synced_mem.stream, Wrong(result))
        self.assertRaises(KeyError, synced_mem.stream, Property())


@on_the_device
class Streams(Case):
    def setUp(self):
        super().setUp()
        Stream.destroyed.clear()

    def test_every_kind_of_object(self):
        for attribute in ("__cuda_stream__", "cuda_stream", "ptr"):
            stream = Stream(attribute)
            mem = Memory(100, "uint8")
            access = mem.gpu("overwrite", stream)
            self.assertIs(access.stream, stream)
            fill(access, 5, stream)
            self.assertEqual(bytes(mem.cpu()), b"\5" * 100)
            del access
        self.assertEqual(Memory(1).gpu("read", 0).stream, 0)
        self.assertIsNone(Memory(1).gpu("read").stream)

    def test_an_object_is_kept_until_its_use_ends(self):
        """The emulated runtime reports the use of a stream that was destroyed."""
        stream = Stream()
        handle = stream.handle
        mem, other = Memory(100, "uint8"), Memory(100, "uint8")
        access = mem.gpu("overwrite", stream)
        fill(access, 1, stream)
        second = other.gpu("read", stream)
        view = access.view("int8")
        del stream
        gc.collect()
        del access
        self.assertEqual(Stream.destroyed, [])
        del second
        self.assertEqual(Stream.destroyed, [])
        del view
        self.assertEqual(Stream.destroyed, [handle])
        self.assertEqual(bytes(mem.cpu()), b"\1" * 100)  # the library has forgotten the stream
        mem.gpu("mutable")
        other.cpu("mutable")

    def test_transfers_keep_it_for_the_call(self):
        mem, to = Memory(1 << 16, "uint8"), Memory(1 << 16, "uint8")
        for call in (lambda stream: mem.push(stream), lambda stream: synced_mem.push([mem], stream),
                     lambda stream: synced_mem.copy(to, mem, "gpu", stream),
                     lambda stream: synced_mem.from_dlpack(mem.gpu("mutable"), stream=stream)):
            memoryview(mem.cpu("overwrite"))[:] = b"\3" * (1 << 16)
            mem.gpu() if call.__code__.co_names[:1] == ("from_dlpack",) else None
            stream = Stream()
            destroyed = len(Stream.destroyed)
            call(stream)
            del stream
            self.assertEqual(len(Stream.destroyed), destroyed + 1)
            self.assertEqual(bytes(mem.cpu()), b"\3" * (1 << 16))
        self.assertEqual(bytes(to.cpu()), b"\3" * (1 << 16))
        mem.gpu("overwrite")
        stream = Stream()
        mem.pull(stream)
        self.assertEqual((mem.head, mem.query() in (True, False)), ("SYNCED", True))
        del stream
        mem.wait()
        self.assertTrue(mem.has_arrived("cpu"))
        mem.gpu("mutable", stream := Stream())
        mem.end_use(stream)
        del stream

    def test_a_block_keeps_it(self):
        stream = Stream()
        mem = Memory(100, "uint8")
        with synced_mem.stream(stream):
            for value in range(5):
                access = mem.gpu("overwrite")
                self.assertEqual(access.stream, stream.handle)
                fill(access, value, stream)
                del access
            gc.collect()
            self.assertEqual(Stream.destroyed, [])
        handle = stream.handle
        del stream
        self.assertEqual(Stream.destroyed, [handle])
        self.assertEqual(bytes(mem.cpu()), b"\4" * 100)

    def test_a_failed_call_keeps_nothing(self):
        stream = Stream()
        mem = Memory(100)
        for call in (lambda: mem.push(stream), lambda: mem.gpu("wrong", stream), lambda: synced_mem.push([1], stream),
                     lambda: synced_mem.from_dlpack(5, stream=stream),
                     lambda: synced_mem.copy(mem, mem, "gpu", stream)):
            before = sys.getrefcount(stream)
            with self.assertRaises(Exception):
                call()
            self.assertEqual(sys.getrefcount(stream), before)
        del stream, call
        gc.collect()
        self.assertEqual(len(Stream.destroyed), 1)

    def test_without_a_stream_nothing_waits_for_a_consumer(self):
        """An access that moves nothing leaves the object to the stream of its last consumer. Its address does not."""
        stream = Stream()
        mem = Memory(100, "uint8")
        fill(first := mem.gpu("overwrite", stream), 3, stream)
        before = synced_mem.stats()
        for mode in ("read", "mutable", "overwrite"):
            access = mem.gpu(mode)
        mem.gpu().view("int8")
        mem.gpu().reshape((10, 10))
        after = synced_mem.stats()
        for name in ("host_waits", "stream_waits", "event_records"):
            self.assertEqual(after[name], before[name])
        self.assertTrue(access.ptr)
        self.assertEqual(first.ptr, access.ptr)
        self.assertGreater(synced_mem.stats()["event_records"], before["event_records"])
        self.assertEqual(bytes(mem.cpu()), b"\3" * 100)
        del first

    def test_many_streams(self):
        """A thousand streams in use at a time, then all forgotten."""
        mem = Memory(16)
        accesses = [mem.gpu("read", Stream()) for _ in range(1000)]
        gc.collect()
        self.assertEqual(Stream.destroyed, [])
        del accesses
        self.assertEqual(len(Stream.destroyed), 1000)
        mem.cpu("mutable")

    def test_threads_share_a_stream(self):
        """Uses begin and end in several threads at a time. A use that ends must not end another thread's."""
        stream, wrong = Stream(), []

        def use(number):
            mem = Memory(1000, "uint8")
            for i in range(100):
                value = (number * 50 + i) % 256
                access = mem.gpu("overwrite", stream)
                fill(access, value, stream)
                if bytes(mem.cpu()) != bytes([value]) * 1000:
                    wrong.append((number, i))
                del access
        threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        del threads, thread, stream, use

    def test_a_use_begins_while_the_last_ends(self):
        """The stream's use by an access that has just begun must not end with another's."""
        stream = Stream()
        mems = [Memory(64, "uint8") for _ in range(2)]
        stop, wrong = threading.Event(), []

        def begin_and_end():
            while not stop.is_set():
                mems[1].gpu("read", stream)
        thread = threading.Thread(target=begin_and_end)
        thread.start()
        for i in range(300):
            access = mems[0].gpu("overwrite", stream)
            fill(access, i % 256, stream)
            if bytes(mems[0].cpu()) != bytes([i % 256]) * 64:
                wrong.append(i)
            del access
        stop.set()
        thread.join()
        self.assertEqual(wrong, [])
        del thread, begin_and_end


main()
