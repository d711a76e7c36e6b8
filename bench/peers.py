"""
Measures transfers and memory of synced_mem beside PyTorch, CuPy and the bare CUDA runtime, in one process, in turn.

    peers.py [--library FILE] [--only WORDS] [--quick] [--json FILE]

Prints a table in Markdown for each kind of work. --only takes part in the tables whose titles have the words. --json
writes the suite's lines of JSON, which bench/compare.py compares. SYNCED_MEM_LIBRARY names the library too.

All ways are called from Python. The library and the bare runtime are C, so the cost of ctypes is subtracted from their
figures: that of as many calls of an empty C function with the same arguments. What PyTorch and CuPy need for a call is
theirs. docs/benchmarks.md describes the rows.

Exit status: 0; 1 if wrong bytes arrived; 2 if PyTorch, CuPy, the library or a GPU is missing, or a call failed.
"""
import argparse
import ctypes
import datetime
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

KIB, MIB = 1 << 10, 1 << 20
OURS, BARE = "synced_mem", "CUDA runtime"
UP, DOWN = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost


class Refused(Exception):
    """A message for the user."""


# ---- Measuring ----

class Way:
    """One way to do the work of a row. Each has at least run()."""
    c_calls = ()  # by item: the C calls of its run, whose cost by ctypes is subtracted

    def prepare(self):
        """Puts the items in the state before the work; not timed."""

    def run(self, item):
        for function, arguments in self.c_calls[item]:
            function(*arguments)

    def finish(self):
        """Ends a round; not timed."""

    def close(self):
        """Gives the memory up."""


def time_of(way, items):
    """Returns the microseconds of an item."""
    way.prepare()
    run = way.run
    begin = time.perf_counter()
    for item in items:
        run(item)
    end = time.perf_counter()
    way.finish()
    return (end - begin) / len(items) * 1e6


class Empty(Way):
    """Makes the C calls of another way to a function that does nothing."""
    nothing = ctypes.CDLL(None).labs  # reads one register and returns

    def __init__(self, way):
        self.c_calls = [[(self.nothing, arguments) for _, arguments in calls] for calls in way.c_calls]


def cost_of_ctypes(way, items):
    return statistics.median(time_of(Empty(way), items) for _ in range(7)) if way.c_calls else 0.0


def measure(ways, items, plan):
    """Returns each way's microseconds of an item, by round. The ways run in turn; every other round is backwards. The
    first round is not counted."""
    times = {name: [] for name in ways}
    costs = {name: cost_of_ctypes(way, items) for name, way in ways.items()}
    begin, number = time.perf_counter(), 0
    while number <= plan["fewest"] or (number <= plan["most"] and time.perf_counter() - begin < plan["seconds"]):
        for name in list(ways)[::-1 if number % 2 else 1]:
            times[name].append(max(time_of(ways[name], items) - costs[name], 1e-3))
        number += 1
    return {name: values[1:] for name, values in times.items()}


def summary_of(values):
    """Returns the figures that the suite writes of a row's rounds."""
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return {"rounds": len(values), "median": median, "least": min(values), "lower_quartile": lower,
            "upper_quartile": upper, "most": max(values)}


# ---- Rows and tables ----

def in_unit(microseconds, unit, amount):
    """Returns a time of an item, or the rate of its bytes."""
    return amount / microseconds / 1e3 if unit == "GB/s" else microseconds


def row_of(table, name, x, times, amount):
    """Returns the suite's record of a row; the limit is the bare runtime. amount: bytes of an item, for a rate."""
    figures = {way: summary_of([in_unit(value, table["unit"], amount) for value in values])
               for way, values in times.items()}
    ours = figures.pop(OURS)
    for way, figure in figures.items():
        figure.update({"ratio": ours["median"] / figure["median"], "what": way})
    row = {"group": "peers", "table": table["name"], "row": name, "x": x, "unit": table["unit"], "verdict": "no target",
           "ours": ours, "peers": figures, "targets": [], "note": ""}
    limit = next((figure for way, figure in figures.items() if way.startswith(BARE)), None)
    return {**row, "limit": limit} if limit else row


def medians_of(row):
    return {OURS: row["ours"]["median"], **{way: figure["median"] for way, figure in row["peers"].items()}}


def number(value):
    """Returns three significant digits, without an exponent."""
    decimals = next((places for least, places in ((100, 0), (10, 1), (1, 2), (0.1, 3)) if value >= least), 4)
    return f"{value:,.{decimals}f}"


def print_table(table, rows):
    names = list(medians_of(rows[0]))
    print(f"\n### {table['title']} ({table['unit'].replace('us', 'µs')})\n")
    print(f"| | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
    for row in rows:
        medians = medians_of(row)
        print(f"| {row['row']} | {' | '.join(number(medians[name]) if name in medians else '–' for name in names)} |",
              flush=True)


def size_name(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


# ---- What is compared ----

class Cuda:
    """The bare runtime, which PyTorch has loaded, and the stream of all transfers."""

    def __init__(self, torch, cupy):
        self.calls = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
        self.stream = torch.cuda.Stream()  # PyTorch's, which live on until it has released its memory
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy 14 prefers a protocol that not every PyTorch has
            self.cupy_stream = cupy.cuda.ExternalStream(self.stream.cuda_stream)
        self.handle = ctypes.c_void_p(self.stream.cuda_stream)
        self.legacy = ctypes.c_void_p(0)

    def check(self, code):
        if code:
            self.calls.cudaGetErrorString.restype = ctypes.c_char_p
            raise Refused(f"a call of the CUDA runtime failed: {self.calls.cudaGetErrorString(code).decode()}")

    def pointer_from(self, function, *arguments):
        out = ctypes.c_void_p()
        self.check(getattr(self.calls, function)(ctypes.byref(out), *arguments))
        return out

    def copy(self, to, source, size, kind):
        self.check(self.calls.cudaMemcpy(ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), kind))
        self.check(self.calls.cudaDeviceSynchronize())


class Library:
    """The library by ctypes."""
    pointers = "gpu_data", "cpu_data", "overwrite_gpu_data", "overwrite_cpu_data", "overwrite_gpu_data_on"

    def __init__(self, path, cuda):
        try:
            self.library = ctypes.CDLL(path)
        except OSError as error:
            raise Refused(f"the library can't be loaded: {error}") from error
        self.cuda = cuda
        for name in self.pointers:
            self.get(name).restype = ctypes.c_void_p
        self.get("last_error_message").restype = ctypes.c_char_p
        if self.get("device_count")() == 0:
            raise Refused(f"{path} finds no GPU: it is built without CUDA, or for another driver")
        probe = self.create(KIB)
        attributes = (ctypes.c_int * 64)()  # more than the struct has
        data = self.get("gpu_data")(probe)
        self.cuda.check(self.cuda.calls.cudaPointerGetAttributes(attributes, ctypes.c_void_p(data)))
        if attributes[0] != 2:  # cudaMemoryTypeDevice
            raise Refused(f"{path} is not built for this CUDA runtime")
        self.release(probe)

    def get(self, name):
        return getattr(self.library, f"synced_mem_{name}")

    def check(self):
        """Ends the script if a call of this thread has failed."""
        if self.get("last_error")():
            raise Refused(f"the library: {self.get('last_error_message')().decode()}")

    def create(self, size):
        mem = ctypes.c_void_p()
        self.get("create")(ctypes.byref(mem), ctypes.c_size_t(size), None)
        self.check()
        return mem

    def release(self, mem):
        self.get("release")(mem)

    def version(self):
        packed = self.get("version")()
        return f"{packed // 10000}.{packed // 100 % 100}.{packed % 100}"


class Peers:
    """All that is compared."""

    def __init__(self, path):
        self.torch, self.cupy = (self.module(name, title) for name, title in (("torch", "PyTorch"), ("cupy", "CuPy")))
        if not self.torch.cuda.is_available():
            raise Refused("PyTorch finds no GPU")
        try:
            self.cupy.cuda.runtime.getDeviceCount()
            self.cupyx = importlib.import_module("cupyx")
            self.numpy = importlib.import_module("numpy")
        except Exception as error:  # CuPy's own errors are of several modules
            raise Refused(f"CuPy finds no GPU: {error}") from error
        self.torch.empty(1, device="cuda")  # starts the runtime
        self.cuda = Cuda(self.torch, self.cupy)
        self.library = Library(path, self.cuda)
        self.torch.cuda.set_stream(self.cuda.stream)

    @staticmethod
    def module(name, title):
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise Refused(f"{title} is not installed ({error})") from error

    def array_at(self, address, size):
        """Returns host memory as an array of bytes."""
        return self.numpy.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(address))


def query_driver():
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                               capture_output=True, text=True, check=True)
        return asked.stdout.split("\n")[0]
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine_of(peers, quick):
    torch = peers.torch
    return {"cores": os.cpu_count(), "has_gpu": True, "emulated": False, "quick": quick,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
            "version": peers.library.version(), "gpu": torch.cuda.get_device_name(), "driver": query_driver(),
            "cuda": torch.version.cuda, "torch": torch.__version__, "cupy": peers.cupy.__version__}


# ---- Transfers ----

class Plain(Way):
    """Transfers of memory that a program has itself: hosts are arrays, devices addresses."""

    def fill(self, peers, data, direction):
        for i, host in enumerate(self.hosts):
            host[:] = data[i:i + host.nbytes] if direction == UP else 0
            peers.cuda.copy(self.devices[i], data[i:].ctypes.data, host.nbytes, UP)
            if direction == UP:
                peers.cuda.check(peers.cuda.calls.cudaMemset(ctypes.c_void_p(self.devices[i]), 0, ctypes.c_size_t(
                    host.nbytes)))

    def arrived(self, peers, i, direction):
        """Returns the bytes of the item where they have gone."""
        out = self.hosts[i].copy()
        if direction == UP:
            peers.cuda.copy(out.ctypes.data, self.devices[i], out.nbytes, DOWN)
        return out


class BareTransfers(Plain):
    def __init__(self, peers, count, size, pinned, direction):
        cuda, room = peers.cuda, ctypes.c_size_t(count * size)
        self.cuda = cuda
        self.pinned = cuda.pointer_from("cudaMallocHost", room) if pinned else None
        memory = peers.array_at(self.pinned.value, count * size) if pinned else peers.numpy.empty(count * size, "uint8")
        self.device = cuda.pointer_from("cudaMalloc", room)
        self.hosts = [memory[i * size:(i + 1) * size] for i in range(count)]
        self.devices = [self.device.value + i * size for i in range(count)]
        self.c_calls = [self.calls_of(i, ctypes.c_size_t(size), direction) for i in range(count)]

    def calls_of(self, i, size, direction):
        cuda = self.cuda
        ends = ctypes.c_void_p(self.devices[i]), ctypes.c_void_p(self.hosts[i].ctypes.data)
        ends = ends if direction == UP else ends[::-1]
        wait = cuda.calls.cudaStreamSynchronize
        if self.pinned:
            return [(cuda.calls.cudaMemcpyAsync, (*ends, size, direction, cuda.handle)), (wait, (cuda.handle,))]
        # From pageable memory the call may return while the last bytes are still in the runtime's buffer.
        return [(cuda.calls.cudaMemcpy, (*ends, size, direction)), (wait, (cuda.legacy,))]

    def finish(self):
        self.cuda.check(self.cuda.calls.cudaPeekAtLastError())

    def close(self):
        self.cuda.check(self.cuda.calls.cudaFree(self.device))
        if self.pinned:
            self.cuda.check(self.cuda.calls.cudaFreeHost(self.pinned))


class TorchTransfers(Plain):
    def __init__(self, peers, count, size, pinned, direction):
        torch, self.stream, self.pinned = peers.torch, peers.cuda.stream, pinned
        tensors = [torch.empty(size, dtype=torch.uint8, pin_memory=pinned) for _ in range(count)]
        on_device = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(count)]
        self.hosts = [tensor.numpy() for tensor in tensors]
        self.devices = [tensor.data_ptr() for tensor in on_device]
        self.pairs = list(zip(on_device, tensors) if direction == UP else zip(tensors, on_device))

    def run(self, item):
        to, source = self.pairs[item]
        to.copy_(source, non_blocking=self.pinned)
        if self.pinned:
            self.stream.synchronize()


class CupyTransfers(Plain):
    def __init__(self, peers, count, size, pinned, direction):
        cupy, self.pinned = peers.cupy, pinned
        self.stream = peers.cuda.cupy_stream if pinned else cupy.cuda.Stream.null
        empty = peers.cupyx.empty_pinned if pinned else peers.numpy.empty
        self.hosts = [empty(size, "uint8") for _ in range(count)]
        self.arrays = [cupy.empty(size, "uint8") for _ in range(count)]
        self.devices = [array.data.ptr for array in self.arrays]
        self.run = self.push if direction == UP else self.pull

    def push(self, item):
        self.arrays[item].set(self.hosts[item], self.stream if self.pinned else None)
        self.stream.synchronize()

    def pull(self, item):
        if self.pinned:
            self.arrays[item].get(self.stream, out=self.hosts[item], blocking=False)
            self.stream.synchronize()
        else:
            self.arrays[item].get(out=self.hosts[item])


class OurTransfers(Way):
    """Page-locked: a push or pull and the wait. Pageable: an accessor, which returns when the contents have arrived."""

    def __init__(self, peers, count, size, pinned, direction):
        self.library, self.cuda, self.size, self.direction = peers.library, peers.cuda, size, direction
        self.pinned, self.array_at = pinned, peers.array_at
        self.mems = [self.library.create(size) for _ in range(count)]
        self.borrowed = [] if pinned else [peers.numpy.empty(size, "uint8") for _ in range(count)]
        for mem, memory in zip(self.mems, self.borrowed):
            self.library.get("set_cpu_data")(mem, ctypes.c_void_p(memory.ctypes.data))
        get, wait = self.library.get, (self.cuda.calls.cudaStreamSynchronize, (self.cuda.handle,))
        if pinned:
            move = get("async_gpu_push" if direction == UP else "async_cpu_pull")
            self.c_calls = [[(move, (mem, self.cuda.handle)), wait] for mem in self.mems]
        else:
            read = get("gpu_data" if direction == UP else "cpu_data")
            self.c_calls = [[(read, (mem,))] for mem in self.mems]

    def prepare(self):
        """Leaves the contents on one side only, as after work on them there."""
        for mem in self.mems:
            if self.direction == UP:
                self.library.get("mutable_cpu_data")(mem)
            elif self.pinned:
                self.library.get("mutable_gpu_data_on")(mem, self.cuda.handle)
            else:
                self.library.get("mutable_gpu_data")(mem)

    def finish(self):
        self.library.check()

    def fill(self, peers, data, direction):
        for i, mem in enumerate(self.mems):
            if direction == UP:
                host = self.array_at(self.library.get("overwrite_cpu_data")(mem), self.size)
                host[:] = data[i:i + self.size]
            else:
                peers.cuda.copy(self.library.get("overwrite_gpu_data")(mem), data[i:].ctypes.data, self.size, UP)

    def arrived(self, peers, i, direction):
        if direction == DOWN:
            return self.array_at(self.library.get("cpu_data")(self.mems[i]), self.size)
        out = peers.numpy.empty(self.size, "uint8")
        peers.cuda.copy(out.ctypes.data, self.library.get("gpu_data")(self.mems[i]), self.size, DOWN)
        return out

    def close(self):
        for mem in self.mems:
            self.library.release(mem)
        self.library.check()


def measure_filled(peers, ways, items, count, size, direction, plan):
    """Measures transfers of contents that are no zeros, and checks them."""
    data = peers.numpy.random.default_rng(7).integers(0, 256, size + count, "uint8")
    for way in ways.values():
        way.fill(peers, data, direction)
    times = measure(ways, items, plan)
    for name, way in ways.items():
        for i in {0, count // 2, count - 1}:
            if not (way.arrived(peers, i, direction) == data[i:i + size]).all():
                raise ArithmeticError(f"{name}: wrong bytes arrived")
        way.close()
    return times


def transfer_rows(peers, table, plan):
    kinds = {OURS: OurTransfers, BARE: BareTransfers, "PyTorch": TorchTransfers, "CuPy": CupyTransfers}
    for size in (4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB):
        if size > plan["largest"]:
            break
        count = max(1, min(64, plan["ring"] // size))
        ways = {name: kind(peers, count, size, table["pinned"], table["direction"]) for name, kind in kinds.items()}
        times = measure_filled(peers, ways, range(count), count, size, table["direction"], plan)
        yield row_of(table, size_name(size), size, times, size)


# ---- Many small tensors ----

def every_other(memory, count, size):
    """Returns parts of a memory that are apart."""
    return [memory[2 * i * size:(2 * i + 1) * size] for i in range(count)]


class OurMany(OurTransfers):
    def __init__(self, peers, count, size, direction):
        super().__init__(peers, count, size, True, direction)
        mems = (ctypes.c_void_p * count)(*self.mems)
        move = self.library.get("async_gpu_push_n" if direction == UP else "async_cpu_pull_n")
        self.c_calls = [[(move, (mems, ctypes.c_size_t(count), self.cuda.handle)),
                         (self.cuda.calls.cudaStreamSynchronize, (self.cuda.handle,))]]


class Attributes(ctypes.Structure):
    """cudaMemcpyAttributes: cudaMemcpySrcAccessOrderStream, and no hints."""
    _fields_ = [("order", ctypes.c_int), ("from_hint", ctypes.c_int * 2), ("to_hint", ctypes.c_int * 2),
                ("flags", ctypes.c_uint)]


class BareMany(BareTransfers):
    """One cudaMemcpyBatchAsync, with the arguments of CUDA 13."""

    def __init__(self, peers, count, size, direction):
        super().__init__(peers, 2 * count, size, True, direction)
        self.hosts, self.devices = self.hosts[::2], self.devices[::2]
        hosts = (ctypes.c_void_p * count)(*(host.ctypes.data for host in self.hosts))
        devices = (ctypes.c_void_p * count)(*self.devices)
        ends = (devices, hosts) if direction == UP else (hosts, devices)
        sizes, first = (ctypes.c_size_t * count)(*[size] * count), (ctypes.c_size_t * 1)()
        one = ctypes.c_size_t(1)
        self.c_calls = [[(self.cuda.calls.cudaMemcpyBatchAsync,
                          (*ends, sizes, ctypes.c_size_t(count), ctypes.byref(Attributes(1)), first, one,
                           self.cuda.handle)),
                         (self.cuda.calls.cudaStreamSynchronize, (self.cuda.handle,))]]


class TorchMany(Plain):
    """Tensors that are apart, by one of four ways of a program."""

    def __init__(self, peers, count, size, direction, how):
        torch, self.stream, self.direction = peers.torch, peers.cuda.stream, direction
        self.torch = torch
        self.on_host = every_other(torch.empty(2 * count * size, dtype=torch.uint8, pin_memory=True), count, size)
        self.on_device = every_other(torch.empty(2 * count * size, dtype=torch.uint8, device="cuda"), count, size)
        self.hosts = [tensor.numpy() for tensor in self.on_host]
        self.devices = [tensor.data_ptr() for tensor in self.on_device]
        self.sources = self.on_host if direction == UP else self.on_device
        self.targets = self.on_device if direction == UP else self.on_host
        self.stacked_host = torch.empty((count, size), dtype=torch.uint8, pin_memory=True)
        self.stacked_device = torch.empty((count, size), dtype=torch.uint8, device="cuda")
        self.stack, self.stacked = self.stacked_host, self.stacked_device
        if direction == DOWN:
            self.stack, self.stacked = self.stacked, self.stack
        self.views = list(self.stacked.unbind(0))
        self.how = {"foreach": self.copy_foreach, "each": self.copy_each, "stack": self.copy_stacked,
                    "scatter": self.copy_and_scatter}[how]
        self.keeps_stacked = how == "stack"

    def run(self, item):
        self.how()
        self.stream.synchronize()

    def copy_foreach(self):
        self.torch._foreach_copy_(self.targets, self.sources, non_blocking=True)

    def copy_each(self):
        for target, source in zip(self.targets, self.sources):
            target.copy_(source, non_blocking=True)

    def copy_stacked(self):
        self.torch.stack(self.sources, out=self.stack)
        self.stacked.copy_(self.stack, non_blocking=True)

    def copy_and_scatter(self):
        self.copy_stacked()
        if self.direction == DOWN:
            self.stream.synchronize()
        self.torch._foreach_copy_(self.targets, self.views)

    def arrived(self, peers, i, direction):
        return self.views[i].cpu().numpy() if self.keeps_stacked else super().arrived(peers, i, direction)


class CupyMany(CupyTransfers):
    def __init__(self, peers, count, size, direction):
        self.stream, self.direction = peers.cuda.cupy_stream, direction
        self.hosts = every_other(peers.cupyx.empty_pinned(2 * count * size, "uint8"), count, size)
        self.arrays = every_other(peers.cupy.empty(2 * count * size, "uint8"), count, size)
        self.devices = [array.data.ptr for array in self.arrays]

    def run(self, item):
        for array, host in zip(self.arrays, self.hosts):
            if self.direction == UP:
                array.set(host, self.stream)
            else:
                array.get(self.stream, out=host, blocking=False)
        self.stream.synchronize()


def many_rows(peers, table, plan):
    direction = table["direction"]
    for count, size in ((64, 4 * KIB), (1000, 4 * KIB), (10000, 4 * KIB), (1000, 64 * KIB)):
        if count * size > plan["largest"]:
            continue
        ways = {OURS: OurMany(peers, count, size, direction)}
        if hasattr(peers.cuda.calls, "cudaMemcpyBatchAsync") and peers.torch.version.cuda.startswith("13."):
            ways[f"{BARE}, one batch"] = BareMany(peers, count, size, direction)
        for name, how in (("_foreach_copy_", "foreach"), ("copy_ of each", "each"), ("stacked", "stack"),
                          ("stacked and scattered", "scatter")):
            ways[f"PyTorch, {name}"] = TorchMany(peers, count, size, direction, how)
        ways["CuPy, each"] = CupyMany(peers, count, size, direction)
        times = measure_filled(peers, ways, range(1), count, size, direction, plan)
        times = {name: [value / count for value in values] for name, values in times.items()}
        yield row_of(table, f"{count:,} of {size_name(size)}", count, times, size)


# ---- Memory, first and again ----

class Allocations(Way):
    """Allocates in each item. first: the caches are emptied before; else they have what was released."""

    def __init__(self, peers, size, pinned, first, count):
        self.peers, self.size, self.pinned, self.first, self.held = peers, size, pinned, first, [None] * count

    def prepare(self):
        if self.first:
            self.peers.cuda.check(self.peers.cuda.calls.cudaDeviceSynchronize())
            self.empty_caches()

    def finish(self):
        self.held = [None] * len(self.held)

    def empty_caches(self):
        """Gives unused memory back to the system."""


class OurAllocations(Allocations):
    """An object and its memory."""

    def __init__(self, peers, size, pinned, first, count):
        super().__init__(peers, size, pinned, first, count)
        get, self.mems = peers.library.get, [ctypes.c_void_p() for _ in range(count)]
        obtain = get("overwrite_cpu_data" if pinned else "overwrite_gpu_data_on")
        self.c_calls = [[(get("create"), (ctypes.byref(mem), ctypes.c_size_t(size), None)),
                         (obtain, (mem,) if pinned else (mem, peers.cuda.handle))] for mem in self.mems]

    def finish(self):
        for mem in self.mems:
            self.peers.library.release(mem)
        self.peers.library.check()

    def empty_caches(self):
        self.peers.library.get("host_pool_trim")(ctypes.c_size_t(0))
        self.peers.library.get("gpu_pool_trim")(0, ctypes.c_size_t(0))


class BareAllocations(Allocations):
    """cudaMallocHost or cudaMalloc, which have no cache."""

    def __init__(self, peers, size, pinned, first, count):
        super().__init__(peers, size, pinned, first, count)
        calls, self.pointers = peers.cuda.calls, [ctypes.c_void_p() for _ in range(count)]
        allocate, self.free = ((calls.cudaMallocHost, calls.cudaFreeHost) if pinned else
                               (calls.cudaMalloc, calls.cudaFree))
        self.c_calls = [[(allocate, (ctypes.byref(out), ctypes.c_size_t(size)))] for out in self.pointers]

    def finish(self):
        for pointer in self.pointers:
            self.peers.cuda.check(self.free(pointer))


class TorchAllocations(Allocations):
    def run(self, item):
        torch = self.peers.torch
        if self.pinned:
            self.held[item] = torch.empty(self.size, dtype=torch.uint8, pin_memory=True)
        else:
            self.held[item] = torch.empty(self.size, dtype=torch.uint8, device="cuda")

    def empty_caches(self):
        self.peers.torch.cuda.empty_cache()
        self.peers.torch._C._host_emptyCache()


class CupyAllocations(Allocations):
    def run(self, item):
        self.held[item] = (self.peers.cupyx.empty_pinned if self.pinned else self.peers.cupy.empty)(self.size, "uint8")

    def empty_caches(self):
        self.peers.cupy.get_default_memory_pool().free_all_blocks()
        self.peers.cupy.get_default_pinned_memory_pool().free_all_blocks()


def memory_rows(peers, table, plan):
    pinned, first = table["pinned"], table["first"]
    kinds = {OURS: OurAllocations, BARE: BareAllocations, "PyTorch": TorchAllocations, "CuPy": CupyAllocations}
    for size in (4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB):
        if size > plan["largest"]:
            break
        count = 1 if first else max(1, min(64, plan["ring"] // size))
        ways = {name: kind(peers, size, pinned, first, count) for name, kind in kinds.items()}
        if first and not hasattr(peers.torch._C, "_host_emptyCache"):
            del ways["PyTorch"]  # it can't be told to empty its cache of page-locked memory
        times = measure(ways, range(count), {**plan, "most": 11} if first else plan)
        yield row_of(table, size_name(size), size, times, size)


# ---- The whole ----

def tables_of_all():
    moved = [{"name": f"{'pinned' if pinned else 'pageable'}-{'push' if direction == UP else 'pull'}", "unit": "GB/s",
              "title": f"{'To' if direction == UP else 'From'} the device, "
                       f"{'page-locked' if pinned else 'pageable'} memory, and the wait",
              "rows": transfer_rows, "pinned": pinned, "direction": direction}
             for pinned in (True, False) for direction in (UP, DOWN)]
    many = [{"name": f"many-{'push' if direction == UP else 'pull'}", "unit": "us",
             "title": f"Many tensors {'to' if direction == UP else 'from'} the device, page-locked, and one wait: each",
             "rows": many_rows, "direction": direction} for direction in (UP, DOWN)]
    memory = [{"name": f"{'host' if pinned else 'device'}-memory-{'first' if first else 'again'}", "unit": "us",
               "title": f"{'Page-locked' if pinned else 'Device'} memory, "
                        f"{'with empty caches' if first else 'used before'}",
               "rows": memory_rows, "pinned": pinned, "first": first}
              for pinned in (True, False) for first in (True, False)]
    return moved + many + memory


def compare_all(peers, arguments, file):
    machine = machine_of(peers, arguments.quick)
    plan = ({"seconds": 0, "fewest": 3, "most": 3, "largest": 4 * MIB, "ring": 8 * MIB} if arguments.quick else
            {"seconds": 0.4, "fewest": 5, "most": 101, "largest": 256 * MIB, "ring": 256 * MIB})
    print(f"{machine['date']}: {machine['gpu']}, driver {machine['driver'] or 'unknown'}, CUDA {machine['cuda']}; "
          f"synced_mem {machine['version']}, PyTorch {machine['torch']}, CuPy {machine['cupy']}")
    lines, begin = [{"machine": machine}], time.perf_counter()
    for table in tables_of_all():
        if (arguments.only or "").lower() in table["title"].lower():
            rows = list(table["rows"](peers, table, plan))
            if rows:
                print_table(table, rows)
            lines += rows
    count = len(lines) - 1
    lines.append({"end": {"rows": count, "met": 0, "missed": 0, "no_target": count, "skipped": 0, "failed": 0}})
    print(f"\n{count} rows, {time.perf_counter() - begin:.0f} s")
    if file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", metavar="FILE",
                        default=os.environ.get("SYNCED_MEM_LIBRARY", "libsynced_mem.so.0.2"))
    parser.add_argument("--only", metavar="WORDS")
    parser.add_argument("--quick", action="store_true", help="few repetitions, only to check that everything works")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    file = None
    try:
        if arguments.json:
            file = open(arguments.json, "w", encoding="utf-8")
        compare_all(Peers(arguments.library), arguments, file)
    except (Refused, OSError) as refused:
        print(f"peers.py: {refused}", file=sys.stderr)
        return 2
    except ArithmeticError as wrong:
        print(f"peers.py: {wrong}", file=sys.stderr)
        return 1
    finally:
        if file:
            file.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
