"""
Measures the package for Python: accesses, and how long other packages take to import an object as an array.

    python.py python|numpy|torch|cupy [--quick] [--json FILE]

python: an access, and an access as a memoryview. numpy: numpy.from_dlpack() of the host copy, beside that of a NumPy
array. torch, cupy: from_dlpack() of an access to the device copy, on the default stream and on another, beside that of
a CuPy array. All are timed in turn, with the release of the imported array. Figures are medians in nanoseconds, without
the empty loop. The package must be where Python finds it.

Exit status: 0; 2 for a wrong argument; 77 if a package is not installed, or there is no GPU.
"""
import argparse
import contextlib
import importlib
import json
import statistics
import sys
import timeit

ROWS, COLUMNS = 256, 128


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


def device_ways(library):
    cupy = importlib.import_module("cupy")
    if cupy.cuda.runtime.getDeviceCount() == 0:
        raise ModuleNotFoundError("there is no GPU")
    return {f"{library}.from_dlpack(mem.gpu('mutable'))": f"{library}.from_dlpack(mem.gpu('mutable'))",
            f"{library}.from_dlpack(array)": f"{library}.from_dlpack(array)"}, {
                "array": cupy.zeros((ROWS, COLUMNS), "float32")}


def other_stream(library, module):
    """Returns a block in which the library uses another stream than the default one."""
    return module.cuda.stream(module.cuda.Stream()) if library == "torch" else module.cuda.Stream(non_blocking=True)


def measure(library, quick):
    import synced_mem
    mem = synced_mem.Memory((ROWS, COLUMNS))
    module = None if library == "python" else importlib.import_module(library)
    figures = {}
    if library in ("python", "numpy"):
        ways, names = python_ways(mem) if library == "python" else numpy_ways(mem, module)
        blocks = {"": contextlib.nullcontext()}
    else:
        ways, names = device_ways(library)
        blocks = {"": contextlib.nullcontext(), " on another stream": other_stream(library, module)}
    names = {**names, "mem": mem, library: module}
    ways = {name: eval(f"lambda: {text}", names) for name, text in ways.items()}  # the names are globals
    for note, block in blocks.items():
        with block:
            found = compare({**ways, "empty": lambda: None}, 10 if quick else 5000, 3 if quick else 51)
        figures.update({name + note: value for name, value in found.items()})
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["python", "numpy", "torch", "cupy"])
    parser.add_argument("--quick", action="store_true", help="few repetitions, only to check that everything works")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    try:
        figures = measure(options.library, options.quick)
    except ModuleNotFoundError as missing:
        print(f"skipped: {missing}")
        return 77
    for name, value in figures.items():
        print(f"{value:8.1f} ns  {name}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
