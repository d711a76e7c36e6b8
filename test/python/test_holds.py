"""Evictable objects: holds, also as blocks, and budgets."""
from kit import *  # noqa: F403
import tempfile
import threading

from synced_mem import File, Memory, begin_hold, end_hold, hold

SIZE = 1 << 16
FOLDERS = ("/var/tmp", os.path.dirname(os.path.abspath(__file__)))  # one of them may be on a disk


def make(value, **options):
    mem = Memory(SIZE, "uint8", evictable=True, device=0, **options)
    memoryview(mem.cpu("overwrite"))[:] = bytes([value]) * SIZE
    return mem


class Without(Case):
    """Holds on the host, which need no device, and mistakes."""

    def tearDown(self):
        self.assertEqual(synced_mem.cpu_set_budget(None), 0)
        super().tearDown()

    def test_a_budget_of_host_copies(self):
        mem = make(3)
        self.assertEqual(synced_mem.cpu_set_budget(1 << 40), 0)
        self.assertRaises(synced_mem.InvalidStateError, mem.cpu)
        self.assertRaises(BufferError, memoryview, mem)
        with hold(mem, "cpu"):
            self.assertEqual(memoryview(mem.cpu())[SIZE - 1], 3)
        self.assertRaises(synced_mem.InvalidStateError, mem.cpu)
        self.assertEqual(synced_mem.cpu_set_budget(None), 0)
        self.assertEqual(memoryview(mem.cpu())[0], 3)

    def test_contents_go_to_a_scratch_file(self):
        mems = [make(value) for value in range(8)]
        for folder in FOLDERS:
            with tempfile.TemporaryFile(dir=folder) as scratch:
                try:
                    self.assertEqual(synced_mem.cpu_set_budget(4 * SIZE, File(scratch)), 0)
                    break
                except synced_mem.InvalidArgumentError:  # in memory
                    continue
        else:
            self.skipTest("no folder on a disk")
        for value, mem in enumerate(mems):
            with hold(mem, "cpu", "mutable"):
                self.assertEqual(memoryview(mem.cpu())[SIZE - 1], value)
        self.assertGreater(synced_mem.stats()["spills"], 3)

    def test_contents_that_do_not_fit(self):
        """Without a scratch file contents that only the host has stay."""
        mems = [make(value) for value in range(4)]
        self.assertEqual(synced_mem.cpu_set_budget(2 * SIZE), 2 * SIZE)
        new = Memory(SIZE, "uint8", evictable=True)
        with self.assertRaises(synced_mem.OutOfHostMemoryError):
            begin_hold(new, "cpu", "overwrite")
        self.assertRaises(synced_mem.InvalidStateError, end_hold, new, "cpu")
        for mem in mems:
            mem.clear()
        with hold(new, "cpu", "overwrite"):
            memoryview(new.cpu("overwrite"))[0] = 1

    def test_exports_keep_the_hold(self):
        mem = make(3)
        with self.assertRaisesRegex(BufferError, "^2 exports of the host"):
            with hold(mem, "cpu", "mutable"):
                view, other = memoryview(mem.cpu("mutable")), memoryview(mem)
        self.assertRaisesRegex(BufferError, "is held", mem.resize, SIZE)
        self.assertRaisesRegex(BufferError, "^2 exports", end_hold, mem, "cpu")
        del view
        self.assertRaisesRegex(BufferError, "^1 exports", end_hold, [mem], "cpu")
        del other
        end_hold(mem, "cpu")
        self.assertRaises(synced_mem.InvalidStateError, end_hold, mem, "cpu")

    def test_the_block_s_own_exception(self):
        mem = make(3)
        with self.assertRaisesRegex(KeyError, "its own"):
            with hold(mem, "cpu"):
                raise KeyError("its own")
        with self.assertRaises(BufferError) as caught:
            with hold(mem, "cpu"):
                view = memoryview(mem.cpu())
                raise KeyError("its own")
        self.assertEqual(repr(caught.exception.__context__), "KeyError('its own')")
        del view, caught
        gc.collect()
        end_hold(mem, "cpu")
        mem.resize(SIZE)

    def test_arrays_of_an_outer_block(self):
        """Only the end of the last hold needs the end of the arrays."""
        mem, other = make(3), make(4)
        with hold([mem, other], "cpu"):
            view = memoryview(mem.reshape((2, -1)).cpu())
            with hold((each for each in (mem, other)), "cpu") as inner:
                self.assertEqual(view[1, 0], 3)
                self.assertRaises(synced_mem.InvalidStateError, other.resize, 1)
            self.assertIsInstance(inner, hold)
            with inner:  # again
                pass
            self.assertEqual(view[1, 1], 3)
            view.release()
        mem.resize(SIZE)

    def test_wrong_arguments(self):
        mem = make(3)
        plain = Memory(4)
        for begin in (hold, begin_hold):
            self.assertRaises(TypeError, begin)
            self.assertRaises(TypeError, begin, 5)
            self.assertRaises(TypeError, begin, [mem, 5])
            self.assertRaises(TypeError, begin, mem, "cpu", "read", "stream")
            self.assertRaises(ValueError, begin, mem, "tpu")
            self.assertRaises(ValueError, begin, mem, "cpu", "write")
        self.assertRaises(synced_mem.InvalidStateError, begin_hold, plain, "cpu")
        self.assertRaises(synced_mem.InvalidStateError, begin_hold, [mem, plain], "cpu")
        self.assertRaises(synced_mem.InvalidArgumentError, begin_hold, [mem, mem], "cpu")
        self.assertRaises(synced_mem.InvalidStateError, hold(plain, "cpu").__enter__)
        self.assertRaises(TypeError, end_hold, 5)
        self.assertRaises(ValueError, end_hold, mem, "tpu")
        begin_hold([], "cpu")
        end_hold([], "cpu")
        mem.resize(SIZE)  # no hold is left

    def test_wrong_budgets(self):
        self.assertRaises(TypeError, synced_mem.cpu_set_budget, "1")
        self.assertRaises(TypeError, synced_mem.cpu_set_budget, 1, 5)
        self.assertRaises(OverflowError, synced_mem.cpu_set_budget, -1)
        self.assertRaises(OverflowError, synced_mem.cpu_set_budget, 1 << 64)
        self.assertRaises(TypeError, synced_mem.gpu_set_budget, 0)
        self.assertRaises(synced_mem.InvalidDeviceError if has_gpu else synced_mem.Error,
                          synced_mem.gpu_set_budget, -1, None)
        with tempfile.NamedTemporaryFile() as file, open(file.name, "rb") as reader:
            self.assertRaises(synced_mem.InvalidArgumentError, synced_mem.cpu_set_budget, 1 << 40, File(reader))

    def test_no_views(self):
        mem = make(1)
        self.assertRaises(synced_mem.InvalidStateError, lambda: mem[1:])
        self.assertRaises(synced_mem.InvalidArgumentError, Memory, 4, evictable=True, placement="mapped")
        self.assertEqual(Memory(4, evictable=False)[1:].shape, (3,))


@on_the_device
class OnTheDevice(Case):
    def tearDown(self):
        self.assertEqual(synced_mem.gpu_set_budget(0, None), 0)
        super().tearDown()

    def test_accesses_need_a_hold(self):
        mem = make(3)
        self.assertRaises(synced_mem.InvalidStateError, mem.gpu)
        self.assertRaises(BufferError, mem.cpu().__dlpack__, max_version=(1, 0), dl_device=(2, 0))
        with hold(mem):
            fill(mem.gpu("mutable"), 7)
            self.assertTrue(mem.reshape((2, -1)).gpu().ptr)
        for access in (mem.gpu, mem.reshape((2, -1)).gpu):  # refused at once, though there is nothing to do
            self.assertRaises(synced_mem.InvalidStateError, access)
        del access
        self.assertEqual(memoryview(mem.cpu())[SIZE - 1], 7)

    def test_more_than_fits(self):
        mems = [make(value) for value in range(6)]
        self.assertEqual(synced_mem.gpu_set_budget(0, 2 * SIZE), 0)
        with self.assertRaises(synced_mem.OutOfDeviceMemoryError):
            begin_hold(mems[:3])
        self.assertRaises(synced_mem.InvalidStateError, end_hold, mems[0])
        for _ in range(3):
            for mem in mems:
                with hold(mem, "gpu", "mutable"):
                    value = memoryview(mem.cpu())[0]
                    fill(mem.gpu("overwrite"), value + 10)
        self.assertLessEqual(synced_mem.stats()["gpu_bytes"], 2 * SIZE)
        self.assertEqual([memoryview(mem.cpu())[SIZE - 1] for mem in mems], [value + 30 for value in range(6)])
        self.assertGreater(synced_mem.stats()["dirty_evictions"], 0)

    def test_a_budget_that_is_exceeded(self):
        mem = make(3)
        with hold(mem):
            self.assertEqual(synced_mem.gpu_set_budget(0, 0), SIZE)
        self.assertEqual(synced_mem.stats()["gpu_bytes"], 0)

    def test_a_prefetch_on_a_stream(self):
        stream, mem = Stream(), make(3)
        begin_hold(mem, "gpu", "read", stream)
        with synced_mem.stream(stream):
            with hold(mem):
                self.assertEqual(mem.gpu().ptr, mem.gpu(stream=stream).ptr)
        end_hold(mem)
        del stream
        self.assertRaises(synced_mem.InvalidStateError, mem.gpu)

    def test_a_tensor_keeps_the_hold(self):
        mem = make(3)
        with self.assertRaisesRegex(BufferError, "^1 exports of the device"):
            with hold(mem, "gpu", "mutable"):
                capsule = mem.gpu("mutable").__dlpack__(max_version=(1, 0))
        self.assertTrue(mem.gpu().ptr)
        del capsule
        end_hold(mem)

    def test_the_other_side_s_exports(self):
        mem = make(3)
        view = memoryview(mem.cpu())
        with hold(mem):
            self.assertTrue(mem.gpu().ptr)
        self.assertEqual(view[0], 3)

    def test_holds_of_wrapped_objects(self):
        """The holds of another extension are its own."""
        mem = make(3)
        other = synced_mem.wrap(synced_mem.unwrap(mem), SIZE, "uint8")
        begin_hold(mem)
        self.assertTrue(other.gpu().ptr)
        end_hold(other)  # ends the one hold that there is
        self.assertRaises(synced_mem.InvalidStateError, end_hold, mem)
        with hold(other):
            self.assertTrue(mem.gpu().ptr)

    def test_threads(self):
        mems = [make(value) for value in range(4)]
        synced_mem.gpu_set_budget(0, 3 * SIZE)
        failures = []

        def use(number):
            for i in range(40):
                pair = [mems[number], mems[(number + 1 + i % 3) % 4]]
                try:
                    with hold(pair):
                        if not all(mem.gpu().ptr for mem in pair):
                            failures.append("no pointer")
                except synced_mem.OutOfDeviceMemoryError:
                    continue
                except BaseException as error:
                    failures.append(error)
                    raise

        threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        for mem in mems:
            self.assertRaises(synced_mem.InvalidStateError, end_hold, mem)


main()
