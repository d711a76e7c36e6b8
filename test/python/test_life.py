"""The beginning and the end of the package and of the interpreter, forks and subinterpreters."""
from kit import *  # noqa: F403
import importlib
import subprocess


def run(program, **environment):
    """Runs a program of Python, and returns its status and its output."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


class Imports(unittest.TestCase):
    def test_a_second_import(self):
        """The types stay those of the first import."""
        old = synced_mem.Memory
        names = [name for name in sys.modules if name.split(".")[0] == "synced_mem"]
        kept = {name: sys.modules.pop(name) for name in names}
        try:
            self.assertIs(importlib.import_module("synced_mem").Memory, old)
        finally:
            sys.modules.update(kept)

    def test_another_version_of_the_library(self):
        *first, library = os.environ["LD_PRELOAD"].split(":")
        status, _, error = run("import synced_mem",
                               LD_PRELOAD=":".join([*first, os.environ["SYNCED_MEM_TEST_OLD"], library]))
        self.assertEqual((status, "the library is 0.1.99" in error), (1, True), error)

    def test_a_subinterpreter(self):
        status, out, error = run("import _xxsubinterpreters as interpreters, synced_mem\n"
                                 "other = interpreters.create()\n"
                                 "interpreters.run_string(other, 'try:\\n import synced_mem\\n"
                                 "except ImportError as error:\\n print(\"refused\")')\n")
        if "No module" not in error:
            self.assertEqual((status, out), (0, "refused\n"), error)

    def test_the_time_of_an_import(self):
        """An import needs neither NumPy nor the modules of files."""
        status, out, _ = run("import sys; before = set(sys.modules); import synced_mem\n"
                             "print(sorted(set(sys.modules) - before))")
        self.assertEqual((status, out), (0, "['synced_mem', 'synced_mem._core']\n"))

    def test_all(self):
        self.assertEqual(run("from synced_mem import *; Memory; load_safetensors; Error; print(stats()['objects'])"),
                         (0, "0\n", ""))
        self.assertRaises(AttributeError, getattr, synced_mem, "nothing")
        self.assertIn("load_safetensors", dir(synced_mem))


class Ends(unittest.TestCase):
    def test_an_object_in_a_cycle(self):
        class Node:
            pass
        node = Node()
        node.self, node.mem = node, synced_mem.Memory(4)
        node.view = memoryview(node.mem)
        del node
        self.assertEqual(objects(), 0)

    def test_deleters_after_the_end(self):
        """A library of C calls a deleter at the exit of the process, when the interpreter has gone."""
        program = ("import ctypes, synced_mem\n"
                   "python = ctypes.pythonapi\n"
                   "python.PyCapsule_GetPointer.restype = ctypes.c_void_p\n"
                   "python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]\n"
                   "python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]\n"
                   "NAME, USED = b'dltensor_versioned', b'used_dltensor_versioned'\n"
                   "capsule = synced_mem.Memory(4).__dlpack__(max_version=(1, 0))\n"
                   "address = python.PyCapsule_GetPointer(capsule, NAME)\n"
                   "python.PyCapsule_SetName(capsule, USED)\n"
                   "deleter = ctypes.c_void_p.from_address(address + 16).value\n"
                   "libc = ctypes.CDLL(None)\n"
                   "libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3\n"
                   "libc.__cxa_atexit(deleter, address, None)\n"
                   "print(synced_mem.stats()['objects'])\n")
        self.assertEqual(run(program), (0, "1\n", ""))

    @unittest.skipIf(not numpy, "no NumPy")
    def test_an_adopted_array_at_the_end(self):
        self.assertEqual(run("import synced_mem, numpy, sys\n"
                             "mem = synced_mem.from_dlpack(numpy.zeros(4)); sys.kept = mem.cpu()\n"
                             "view = memoryview(sys.kept); print('reached')\n"), (0, "reached\n", ""))

    def test_a_forked_child(self):
        """The child of a process that has used a GPU uses none."""
        program = ("import os, synced_mem, sys, warnings; warnings.simplefilter('ignore')\n"
                   "mem = synced_mem.Memory(4, 'uint8'); view = memoryview(mem); gpu = synced_mem.device_count() > 0\n"
                   "if gpu: mem.gpu()\n"
                   "if os.fork() == 0:\n"
                   "    mem.cpu(); synced_mem.Memory(3).cpu('mutable')\n"
                   "    try: gpu and mem.gpu('mutable'); print('used')\n"
                   "    except synced_mem.ForkedError: print('refused')\n"
                   "    del view, mem; print(synced_mem.stats()['objects']); sys.stdout.flush(); os._exit(0)\n"
                   "print(os.wait()[1])\n"
                   "del view, mem; synced_mem.shutdown()\n")
        self.assertEqual(run(program), (0, ("refused" if has_gpu else "used") + "\n0\n0\n", ""))

    @on_linux
    def test_threads_wait_without_the_interpreter_s_lock(self):
        """A thread that waits for a turn lets another thread of Python end that turn."""
        program = ("import socket, threading, synced_mem\n"
                   "one, other = socket.socketpair()\n"
                   "mem = synced_mem.Memory(4, shareable=True); mem.share(one); second = synced_mem.receive(other)\n"
                   "thread = threading.Thread(target=second.begin_turn, args=('cpu', 'write', 60)); thread.start()\n"
                   "import time; time.sleep(0.05); mem.end_turn(); thread.join(100)\n"
                   "one.close(); other.close()\n"
                   "print(thread.is_alive())\n")
        self.assertEqual(run(program), (0, "False\n", ""))

    @unittest.skipIf(not numpy, "no NumPy")
    def test_the_last_release_by_a_consumer_waits_without_the_lock(self):
        """An array has the last reference to an object. Its end calls back into Python from another thread's view."""
        program = ("import threading, numpy, synced_mem\n"
                   "def use():\n"
                   "    for i in range(2000):\n"
                   "        mem = synced_mem.from_dlpack(numpy.zeros(64)); array = numpy.from_dlpack(mem)\n"
                   "        del mem; del array\n"
                   "threads = [threading.Thread(target=use) for _ in range(4)]\n"
                   "for thread in threads: thread.start()\n"
                   "for thread in threads: thread.join(100)\n"
                   "synced_mem.reap(); print(synced_mem.stats()['objects'])\n")
        self.assertEqual(run(program), (0, "0\n", ""))


main()
