"""Shareable objects: turns as blocks, and objects of another process."""
from kit import *  # noqa: F403
import socket
import subprocess
import time

from synced_mem import Memory

CHILD = """
import socket, sys, synced_mem
end = socket.socket(fileno=int(sys.argv[1]))
mem = synced_mem.receive(end, (4,), "int32", timeout=200)
for value in range(1, 4):
    with mem.turn("cpu", "write", 200) as inside:
        assert inside is mem
        memoryview(mem.cpu("mutable"))[0] += value
    end.send(b"x")
    end.recv(1)
"""

FAILING_CHILD = """
import socket, sys, synced_mem
end = socket.socket(fileno=int(sys.argv[1]))
mem = synced_mem.receive(end, (4,), "int32", timeout=200)
try:
    with mem.turn("cpu", "read", 200, slot=0):
        raise KeyError
except KeyError:
    assert mem.slot_version(0) == 0
    end.send(b"x")
    end.recv(1)
try:
    with mem.turn("cpu", "write", 200):
        memoryview(mem.cpu("mutable"))[0] = 9
        raise KeyError
except KeyError:
    end.send(b"x")
    end.recv(1)
"""


@on_linux
class Turns(Case):
    def test_the_maker_begins_in_its_turn(self):
        mem = Memory(4, "int32", shareable=True)
        memoryview(mem.cpu("overwrite"))[0] = 5
        mem.end_turn()
        self.assertRaises(synced_mem.InvalidStateError, mem.cpu)
        self.assertRaises(BufferError, memoryview, mem)
        self.assertRaises(synced_mem.InvalidStateError, mem.end_turn)
        with mem.turn() as inside:
            self.assertIs(inside, mem)
            self.assertEqual(memoryview(mem.cpu())[0], 5)
            self.assertRaises(synced_mem.InvalidStateError, mem.cpu, "mutable")
        mem.begin_turn("cpu", "write", 1)
        mem.cpu("mutable")
        mem.end_turn()

    def test_an_exception_abandons_the_turn(self):
        """Whatever leaves the block, a generator's end too."""
        for exception in (KeyError, KeyboardInterrupt, GeneratorExit):
            mem = Memory(4, "int32", shareable=True)
            slot = mem.take_slot()
            mem.end_turn()
            with self.assertRaises(exception):
                with mem.turn(slot=slot):
                    raise exception
            self.assertEqual((mem.slot_version(slot), mem.version), (0, 1))
            with mem.turn(slot=slot):
                pass
            self.assertEqual(mem.slot_version(slot), 1)
            with self.assertRaises(exception):
                with mem.turn("cpu", "write", consumed=True):
                    memoryview(mem.cpu("mutable"))[0] = 5
                    raise exception
            self.assertEqual(mem.version, 1)
            self.assertRaises(TimeoutError, mem.begin_turn, timeout=0, newer_than=0)
            with mem.turn("cpu", "write", consumed=True):  # at once
                self.assertEqual(memoryview(mem.cpu())[0], 0)
            self.assertEqual(mem.version, 2)

    def test_abandon_turn(self):
        mem = Memory(4, "int32", shareable=True)
        view = memoryview(mem.cpu("mutable"))
        self.assertRaisesRegex(BufferError, "^1 exports", mem.abandon_turn)
        view[0] = 7  # the turn goes on
        del view
        mem.abandon_turn()
        self.assertEqual(mem.version, 0)
        self.assertRaises(synced_mem.InvalidStateError, mem.abandon_turn)
        self.assertRaises(synced_mem.InvalidStateError, Memory(4).abandon_turn)

    def test_a_process_abandons_its_turns(self):
        mem = Memory(4, "int32", shareable=True)
        slot = mem.take_slot()
        memoryview(mem.cpu("overwrite"))[0] = 3
        mine, its = socket.socketpair()
        child = subprocess.Popen([sys.executable, "-c", FAILING_CHILD, str(its.fileno())], pass_fds=[its.fileno()])
        its.close()
        with mine:
            mem.share(mine, timeout=200)
            mem.end_turn()
            self.assertEqual(mine.recv(1), b"x")
            with mem.turn(slot=slot):  # what the child has not consumed
                self.assertEqual(memoryview(mem.cpu())[0], 3)
            mine.send(b"y")
            self.assertEqual(mine.recv(1), b"x")
            self.assertRaises(synced_mem.OwnerDiedError, mem.begin_turn)
            self.assertEqual(mem.version, 1)
            with mem.turn():
                self.assertEqual(memoryview(mem.cpu())[0], 0)
            mine.send(b"y")
        self.assertEqual(child.wait(200), 0)

    def test_exports_keep_the_turn(self):
        mem = Memory(4, "int32", shareable="any user")
        mem.end_turn()
        with self.assertRaisesRegex(BufferError, "^1 exports"):
            with mem.turn("cpu", "write"):
                view = memoryview(mem.cpu("mutable"))
        view[0] = 7  # the turn goes on
        self.assertRaisesRegex(BufferError, "^1 exports", mem.end_turn)
        del view
        mem.end_turn()
        with mem.turn():
            self.assertEqual(memoryview(mem.cpu())[0], 7)

    def test_the_block_s_own_exception(self):
        mem = Memory(4, "int32", shareable=True)
        mem.end_turn()
        with self.assertRaisesRegex(KeyError, "its own"):
            with mem.turn():
                raise KeyError("its own")
        with self.assertRaises(BufferError) as caught:
            with mem.turn():
                view = memoryview(mem.cpu())
                raise KeyError("its own")
        self.assertEqual(repr(caught.exception.__context__), "KeyError('its own')")
        del view, caught
        gc.collect()
        mem.end_turn()

    @on_the_device
    def test_the_device_in_a_turn_to_read(self):
        """An access that the turn does not allow is refused at once."""
        mem = Memory(4, "int32", shareable=True)
        mem.gpu("mutable")
        mem.end_turn()
        with mem.turn("gpu", "read"):
            for part in (mem, mem.reshape((2, 2)), mem[1:]):
                self.assertTrue(part.gpu().ptr)
                self.assertRaises(synced_mem.InvalidStateError, part.gpu, "mutable")
                self.assertRaises(synced_mem.InvalidStateError, part.cpu)
            del part

    def test_wrong_arguments(self):
        mem = Memory(4)
        for arguments in (("tpu",), ("cpu", "write it"), ("cpu", "read", -1), ("cpu", "read", float("nan"))):
            self.assertRaises(ValueError, mem.turn, *arguments)
            self.assertRaises(ValueError, mem.begin_turn, *arguments)
        self.assertRaises(TypeError, mem.turn, "cpu", "read", "1")
        with self.assertRaises(synced_mem.InvalidStateError):  # not shareable
            with mem.turn():
                pass
        with self.assertRaises((synced_mem.Error)):
            mem.share(0)
        self.assertRaises(TypeError, mem.share, "x")

    def test_versions_and_slots(self):
        mem = Memory(4, "int32", shareable=True)
        self.assertEqual(mem.version, 0)
        self.assertEqual(mem.take_slot(), 0)
        self.assertEqual(mem.take_slot(7), 7)
        self.assertRaises(synced_mem.InvalidStateError, mem.take_slot, 7)
        memoryview(mem.cpu("overwrite"))[0] = 1
        mem.end_turn()
        for version in range(1, 4):
            self.assertEqual((mem.version, mem.slot_version(0)), (version, version - 1))
            self.assertRaises(TimeoutError, mem.begin_turn, "cpu", "write", 0, consumed=True)
            self.assertRaises(TimeoutError, mem.begin_turn, timeout=0, newer_than=version)
            for slot in (0, 7):
                with mem.turn("cpu", "read", 10, slot=slot):
                    self.assertEqual(memoryview(mem.cpu())[0], version)
                self.assertRaises(TimeoutError, mem.begin_turn, timeout=0, slot=slot)
                self.assertEqual(mem.slot_version(slot), version)
            with mem.turn(newer_than=version - 1):
                self.assertEqual(mem.version, version)
            with mem.turn("cpu", "write", 10, consumed=True):
                memoryview(mem.cpu("mutable"))[0] = version + 1
        mem.end_slot(0)
        mem.end_slot(7)
        self.assertRaises(synced_mem.InvalidStateError, mem.slot_version, 7)
        self.assertRaises(synced_mem.InvalidStateError, mem.begin_turn, slot=0)
        mem.begin_turn("cpu", "write", consumed=True)
        mem.end_turn()

    def test_wrong_versions_and_slots(self):
        mem = Memory(4, shareable=True)
        mem.end_turn()
        for begin in (mem.turn, mem.begin_turn):
            self.assertRaises(ValueError, begin, "cpu", "write", slot=0)
            self.assertRaises(ValueError, begin, "cpu", "write", newer_than=0)
            self.assertRaises(ValueError, begin, "cpu", "read", consumed=True)
            self.assertRaises(ValueError, begin, "cpu", "read", slot=0, newer_than=0)
            self.assertRaises(TypeError, begin, slot="0")
            self.assertRaises(TypeError, begin, newer_than="0")
            self.assertRaises(OverflowError, begin, newer_than=-1)
            self.assertRaises(TypeError, begin, "cpu", "read", 1, 0)  # names them
        for slot in (-1, -2, 64, 1 << 40):
            self.assertRaises(synced_mem.InvalidArgumentError, mem.take_slot, slot)
            self.assertRaises(synced_mem.InvalidArgumentError, mem.end_slot, slot)
            self.assertRaises(synced_mem.InvalidArgumentError, mem.slot_version, slot)
            self.assertRaises(synced_mem.InvalidArgumentError, mem.begin_turn, slot=slot)
        self.assertRaises(TypeError, mem.take_slot, "x")
        self.assertRaises(TypeError, mem.end_slot, None)
        self.assertRaises(TypeError, mem.slot_version, "x")
        self.assertRaises(synced_mem.InvalidStateError, lambda: Memory(4).version)
        self.assertRaises(synced_mem.InvalidStateError, Memory(4).take_slot)

    def test_two_processes(self):
        mem = Memory(4, "int32", shareable=True)
        mine, its = socket.socketpair()
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(its.fileno())], pass_fds=[its.fileno()])
        its.close()
        with mine:
            mem.share(mine, timeout=200)
            mem.end_turn()
            total = 0
            for value in range(1, 4):
                self.assertEqual(mine.recv(1), b"x")
                total += value
                with mem.turn("cpu", "read", 200):
                    self.assertEqual(memoryview(mem.cpu())[0], total)
                mine.send(b"y")
        self.assertEqual(child.wait(200), 0)

    def test_the_time_is_over(self):
        one, other = socket.socketpair()
        with one, other:
            mem = Memory(4, "int32", shareable=True)
            mem.share(one)
            second = synced_mem.receive(other, timeout=200)
            self.assertEqual((second.shape, second.dtype), ((16,), "uint8"))
            begin = time.monotonic()
            with self.assertRaises(TimeoutError):
                second.begin_turn("cpu", "read", 0.05)
            self.assertGreater(time.monotonic() - begin, 0.04)
            with self.assertRaises(synced_mem.TimeoutError):
                synced_mem.receive(other, timeout=0)
            mem.end_turn()
            with second.turn():
                self.assertEqual(bytes(second.cpu()), b"\0" * 16)

    def test_the_other_end_closes(self):
        one, other = socket.socketpair()
        one.close()
        with other, self.assertRaises(synced_mem.PeerError):
            synced_mem.receive(other)
        self.assertRaises(ValueError, synced_mem.receive, other)  # closed

    def test_a_shape_that_is_too_large(self):
        one, other = socket.socketpair()
        with one, other:
            mem = Memory(4, "int32", shareable=True)
            mem.share(one)
            self.assertRaises(ValueError, synced_mem.receive, other, 17)


main()
