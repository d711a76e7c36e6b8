"""Calls that are repeated do not let the heap grow, whether they succeed or fail."""
from kit import *  # noqa: F403
import itertools
import tempfile
import time

import consumer
from synced_mem import Memory

LEAST = 100 * 16  # bytes by which 100 calls that leak let the heap grow: the least that malloc() gives is 24


class Heap(ctypes.Structure):
    """struct mallinfo2 of glibc."""
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks "
                "keepcost".split()]


mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
if mallinfo:
    mallinfo.restype = Heap


def used():
    """Bytes in use on the heap, or None if they can't be known, as with AddressSanitizer."""
    synced_mem.reap()
    return mallinfo().uordblks if mallinfo else None


class Wrong:
    """An array whose methods fail, or give what is no tensor."""

    def __init__(self, result):
        self.result = result

    def __dlpack_device__(self):
        return CPU, 0

    def __dlpack__(self, **arguments):
        if isinstance(self.result, type):
            raise self.result
        return self.result


def calls(mem):
    """Calls by name."""
    access = mem.cpu("mutable")
    other, stream = Memory((4, 8), "int32"), Wrong(5)
    evictable = Memory(4, "int32", evictable=True)
    stream.cuda_stream = 1
    yield from {
        "create": lambda: Memory((4, 8), "int32", name="name", alignment=64),
        "wrong shape": lambda: Memory((4, -8)),
        "wrong type": lambda: Memory(4, "text"),
        "wrong option": lambda: Memory(4, alignment=3),
        "cpu": lambda: mem.cpu("read"),
        "no stream": lambda: mem.gpu("read", object()),
        "gpu": lambda: mem.gpu("read", stream),
        "wrong mode": lambda: mem.cpu("write"),
        "buffer": lambda: memoryview(mem),
        "buffer of an access": lambda: memoryview(access).release(),
        "no buffer": lambda: memoryview(mem.view("bfloat16").cpu()),
        "capsule": lambda: mem.__dlpack__(max_version=(1, 0)),
        "legacy capsule": lambda: access.__dlpack__(),
        "copy": lambda: mem.__dlpack__(max_version=(1, 0), copy=True),
        "no capsule": lambda: mem.cpu().__dlpack__(),
        "wrong keyword": lambda: mem.__dlpack__(dl_device=(9, 9)),
        "view": lambda: mem[1:3][0],
        "wrong view": lambda: mem[9],
        "part": lambda: mem.part(4, 2, "int16", name="part"),
        "wrong part": lambda: mem.part(127, 2, "int16"),
        "reshape": lambda: (mem.reshape((8, -1)), access.reshape(32), access.view("int8"), mem.view("int8")),
        "wrong reshape": lambda: mem.reshape(5),
        "resize": lambda: (other.resize(100), other.resize((4, 8), discard=True)),
        "wrong resize": lambda: memoryview(mem) and mem.resize(5),
        "copies": lambda: synced_mem.copy([mem], [other], "cpu"),
        "wrong copies": lambda: synced_mem.copy([mem], [5]),
        "push": lambda: synced_mem.push([mem, other], 1),
        "facts": lambda: (repr(mem), repr(access), mem.shape, mem.head, mem.describe(), synced_mem.stats(),
                          synced_mem.host_pool_stats(), synced_mem.describe_stats(), access.stream, access.memory),
        "block": lambda: synced_mem.stream(stream).__enter__().__exit__(),
        "scope": lambda: synced_mem.scope("name").__enter__().__exit__(),
        "import": lambda: synced_mem.from_dlpack(mem, name="name"),
        "import that fails": lambda: synced_mem.from_dlpack(Wrong(KeyError)),
        "import of no version": lambda: synced_mem.from_dlpack(Wrong(TypeError)),
        "import of no capsule": lambda: synced_mem.from_dlpack(stream),
        "objects": lambda: synced_mem.wrap(synced_mem.unwrap(mem), 5, "int8"),
        "wrong object": lambda: synced_mem.wrap(synced_mem.unwrap(mem), 500, "int8"),
        "exchange": lambda: (consumer.borrow_tensor(mem), consumer.end_tensor(consumer.export_tensor(access)[0])),
        "exchange back": lambda: consumer.import_tensor(mem, consumer.export_tensor(mem)[0]),
        "allocation": lambda: consumer.import_tensor(mem, consumer.allocate(mem, CPU, 0, 3)[0]),
        "turn": lambda: mem.turn("cpu", "read", 1),
        "hold": lambda: synced_mem.hold([evictable], "cpu").__enter__().__exit__(None, None, None),
        "wrong hold": lambda: synced_mem.begin_hold([evictable, mem], "cpu"),
        "wrong list of a hold": lambda: synced_mem.hold([evictable, 5], "cpu"),
        "hold on a wrong stream": lambda: synced_mem.hold(evictable, stream=object()),
        "wrong end of a hold": lambda: synced_mem.end_hold(evictable, "cpu"),
        "budgets": lambda: (synced_mem.cpu_set_budget(None), synced_mem.cpu_set_budget("1")),
        "wrong turn": lambda: mem.turn("cpu", "read", 1).__enter__(),
    }.items()


def calls_on_files(mem):
    other = Memory((4, 8), "int32")
    with tempfile.TemporaryFile() as opened:
        opened.truncate(1000)
        file = synced_mem.File(opened)
        yield from {
            "file": lambda: synced_mem.File(opened),
            "wrong file": lambda: synced_mem.File(1 << 20),
            "use of a file": lambda: other.use_file(file, 5),
            "wrong use of a file": lambda: other.use_file(file, 1 << 62),
            "write": lambda: (mem.write_file(file, 200), file.wait()),
            "writes": lambda: (synced_mem.write_file([mem, mem], file, [200, 400]), file.wait()),
            "wrong writes": lambda: synced_mem.write_file([mem, 5], file, [200, 400]),
            "wrong offsets": lambda: synced_mem.write_file([mem, mem], file, [200, -2]),
        }.items()


class Leaks(Case):
    def test_every_call(self):
        if not used():
            self.skipTest("the heap's size is not known")
        mem = Memory((4, 8), "int32", name="mem")
        gc.collect()
        gc.disable()  # it takes long, and these calls make no cycles
        self.addCleanup(gc.enable)
        for name, call in itertools.chain(calls(mem), calls_on_files(mem)):
            def repeat(times):
                for _ in range(times):
                    try:
                        call()
                    except Exception:
                        pass
            repeat(100)
            growth, times = LEAST, 0
            while growth >= LEAST and times < 30:  # a table of Python's may grow, and other threads use the heap
                time.sleep(0.001 * times)
                before = used()
                repeat(100)
                growth, times = used() - before, times + 1
            self.assertLess(growth, LEAST, name)
        del call, repeat


main()
