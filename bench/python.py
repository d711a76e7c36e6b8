"""
Measures the package for Python: accesses, how long other packages take to import an object as an array, and how fast
files of safetensors come to the device.

    python.py python|numpy|torch|cupy|safetensors [--quick] [--folder FOLDER] [--json FILE]

python: an access, and an access as a memoryview. numpy: numpy.from_dlpack() of the host copy, beside that of a NumPy
array. torch, cupy: from_dlpack() of an access to the device copy, on the default stream and on another, beside that of
a CuPy array. All are timed in turn, with the release of the imported array. Figures are medians in nanoseconds, without
the empty loop. The package must be where Python finds it.

safetensors: load_safetensors() and a push of all tensors, beside safetensors.torch.load_file() and the same bytes from
page-locked memory, in GB/s; and by how much the process grows meanwhile. A file of 8 GiB is made in the folder, which
is /dev/shm if none is named.

Exit status: 0; 2 for a wrong argument; 77 if a package is not installed, or there is no GPU.
"""
import argparse
import contextlib
import importlib
import json
import os
import statistics
import sys
import tempfile
import time
import timeit

ROWS, COLUMNS = 256, 128
MIB = 1 << 20
NANOSECONDS = {"mem.cpu()": 80, "memoryview(mem.cpu())": 200}  # targets: at most
OF_AN_ARRAY = 1.1  # at most: an import's time, beside that of a CuPy array
OF_THE_LINK, OF_SAFETENSORS, GROWTH = 0.9, 9, 256  # at least, at least, and MiB at most


class Row:
    """A figure, and whether it meets its target, if it has one."""

    def __init__(self, name, value, unit, ratio=None, least=None, most=None):
        """ratio: what the target is about, if not the figure."""
        self.name, self.value, self.unit, self.ratio = name, value, unit, ratio
        about = value if ratio is None else ratio
        bound = f"at most {most}" if least is None else f"at least {least}"
        self.note = "" if ratio is None else f"  x {ratio:.2f}"
        if least is not None or most is not None:
            is_met = about >= least if most is None else about <= most
            self.note += f"  ({bound}: {'met' if is_met else 'MISSED'})"

    def __str__(self):
        return f"{self.value:8.1f} {self.unit}  {self.name}{self.note}"


# ---- Calls ----

def time_of(function, calls):
    """Returns nanoseconds for each call."""
    return timeit.timeit(function, number=calls) / calls * 1e9


def compare(ways, calls, rounds):
    """Returns the median of each way. The ways are run in turn; every other round is backwards. The first is not
    counted."""
    times = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name in list(ways)[::-1 if number % 2 else 1]:
            times[name].append(time_of(ways[name], calls))
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    empty = medians.pop("empty")
    return {name: value - empty for name, value in medians.items()}


def python_ways(mem):
    access = mem.cpu()
    return {"mem.cpu()": "mem.cpu()", "memoryview(access)": "memoryview(access)",
            "memoryview(mem.cpu())": "memoryview(mem.cpu())", "memoryview(b'')": "memoryview(b'')"}, {"access": access}


def numpy_ways(mem, numpy):
    return {"numpy.from_dlpack(mem.cpu('mutable'))": "numpy.from_dlpack(mem.cpu('mutable'))",
            "numpy.from_dlpack(array)": "numpy.from_dlpack(array)"}, {"array": numpy.zeros((ROWS, COLUMNS), "float32")}


def find_cupy():
    cupy = importlib.import_module("cupy")
    if cupy.cuda.runtime.getDeviceCount() == 0:
        raise ModuleNotFoundError("there is no GPU")
    return cupy


def device_ways(library):
    return {f"{library}.from_dlpack(mem.gpu('mutable'))": f"{library}.from_dlpack(mem.gpu('mutable'))",
            f"{library}.from_dlpack(array)": f"{library}.from_dlpack(array)"}, {
                "array": find_cupy().zeros((ROWS, COLUMNS), "float32")}


def other_stream(library, module):
    """Returns another stream than the default one, and a block in which the library uses it."""
    if library == "torch":
        stream = module.cuda.Stream()
        return stream, module.cuda.stream(stream)
    stream = module.cuda.Stream(non_blocking=True)
    return stream, stream


def rows_of(figures, note):
    """Returns rows of calls. The last of two imports is that of the array beside."""
    array = list(figures.values())[-1]
    return [Row(name + note, value, "ns", value / array, most=OF_AN_ARRAY) if "mem.gpu" in name else
            Row(name + note, value, "ns", most=NANOSECONDS.get(name)) for name, value in figures.items()]


def measure_calls(library, quick):
    import synced_mem
    mem = synced_mem.Memory((ROWS, COLUMNS))
    module = None if library == "python" else importlib.import_module(library)
    rows = []
    if library in ("python", "numpy"):
        ways, names = python_ways(mem) if library == "python" else numpy_ways(mem, module)
        blocks = {"": contextlib.nullcontext()}
    else:
        ways, names = device_ways(library)
        names["stream"], block = other_stream(library, module)
        blocks = {"": contextlib.nullcontext(), " on another stream": block}
    names = {**names, "mem": mem, library: module}
    for note, block in blocks.items():
        if note:  # the access may name the stream that the library uses
            name = f"{library}.from_dlpack(mem.gpu('mutable', stream))"
            ways = {name: name, **ways}
        calls = {name: eval(f"lambda: {text}", names) for name, text in ways.items()}  # the names are globals
        with block:
            found = compare({**calls, "empty": lambda: None}, 10 if quick else 5000, 3 if quick else 51)
        rows += rows_of(found, note)
    return rows


# ---- Files ----

def make_file(path, size, part):
    """Writes tensors of part bytes each, which are no zeros."""
    entries = {f"layer.{i}.weight": {"dtype": "F16", "shape": [part // 8192, 4096], "data_offsets": [
        i * part, (i + 1) * part]} for i in range(size // part)}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    block = os.urandom(part)
    with open(path, "wb", buffering=0) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for i in range(size // part):
            file.write(i.to_bytes(8, "little") + block[8:])


def read_memory(name):
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":")) // 1024


def grow_by(function):
    """Returns by how many MiB the process is larger at most while it calls the function."""
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")  # the largest size is the present one
    before = read_memory("VmRSS")
    result = function()
    return read_memory("VmHWM") - before, result


class Loaders:
    """The ways to bring a file to the device. Each returns when all is there."""

    def __init__(self, path, size):
        import synced_mem
        self.torch = importlib.import_module("torch")
        self.safetensors = importlib.import_module("safetensors.torch")
        if not self.torch.cuda.is_available() or synced_mem.device_count() == 0:
            raise ModuleNotFoundError("there is no GPU")
        self.synced_mem, self.path = synced_mem, path
        part = min(size, 1 << 30)
        self.host = self.torch.empty(part, dtype=self.torch.uint8, pin_memory=True)
        self.device = self.torch.empty(part, dtype=self.torch.uint8, device="cuda")
        self.parts = size // part
        self.ways = {"load_safetensors(path), push(tensors)": self.load_ours,
                     "safetensors.torch.load_file(path, 'cuda')": self.load_theirs,
                     "as many bytes from page-locked memory": self.copy_pinned}

    def load_ours(self):
        tensors = self.synced_mem.load_safetensors(self.path)
        self.synced_mem.push(tensors.values())
        self.torch.cuda.synchronize()
        return tensors

    def load_theirs(self):
        tensors = self.safetensors.load_file(self.path, device="cuda")
        self.torch.cuda.synchronize()
        return tensors

    def copy_pinned(self):
        for _ in range(self.parts):
            self.device.copy_(self.host, non_blocking=True)
        self.torch.cuda.synchronize()

    def check(self):
        """Compares what both have loaded."""
        ours, theirs = self.load_ours(), self.load_theirs()
        for name in theirs:
            bits = self.torch.from_dlpack(ours[name].gpu("mutable")).view(self.torch.int16)
            if not self.torch.equal(bits, theirs[name].view(self.torch.int16)):
                raise ArithmeticError(f"{name}: wrong bytes arrived")
            del bits

    def time(self, name, size):
        """Returns GB/s. What was loaded goes afterwards."""
        begin = time.perf_counter()
        loaded = self.ways[name]()
        rate = size / (time.perf_counter() - begin) / 1e9
        del loaded
        return rate


def measure_files(quick, folder):
    size, part = (8 * MIB, MIB) if quick else (8 << 30, 32 * MIB)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = os.path.join(temporary, "model.safetensors")
        loaders = Loaders(path, size)
        make_file(path, size, part)
        growth = {name: grow_by(way)[0] for name, way in loaders.ways.items()}  # the first time of each
        loaders.check()
        rates = {name: [] for name in loaders.ways}
        for number in range(3 if quick else 7):
            for name in list(rates)[::-1 if number % 2 else 1]:
                rates[name].append(loaders.time(name, size))
    ours, theirs, link = (statistics.median(values) for values in rates.values())
    names = list(rates)
    return [Row(names[0] + ", of the link", ours, "GB/s", ours / link, least=OF_THE_LINK),
            Row(names[0] + ", of load_file()", ours, "GB/s", ours / theirs, least=OF_SAFETENSORS),
            Row(names[1], theirs, "GB/s"), Row(names[2], link, "GB/s"),
            Row(names[0] + ", more host memory", growth[names[0]], "MiB", most=GROWTH),
            Row(names[1] + ", more host memory", growth[names[1]], "MiB")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["python", "numpy", "torch", "cupy", "safetensors"])
    parser.add_argument("--quick", action="store_true", help="few repetitions, only to check that everything works")
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    try:
        rows = (measure_files(options.quick, options.folder) if options.library == "safetensors" else
                measure_calls(options.library, options.quick))
    except ModuleNotFoundError as missing:
        print(f"skipped: {missing}")
        return 77
    for row in rows:
        print(row)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({row.name: row.value for row in rows}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
