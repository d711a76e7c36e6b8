"""
Measures how long Python takes to import an object of synced_mem as an array, beside an array of the importer's family.

    from_dlpack.py numpy|torch [--quick] [--json FILE]

numpy: numpy.from_dlpack of the host copy, beside that of a NumPy array. torch: torch.from_dlpack of the device copy,
beside that of a CuPy array. Both are timed in turn, with the release of the imported array. The module
docs/code/synced_mem_dlpack.py calls the library by ctypes. The cost of ctypes is that of the same export with an empty
C function in place of the library's. Figures are medians in microseconds. SYNCED_MEM_LIBRARY names the library.

Exit status: 0; 2 for a wrong argument; 77 if a package is not installed, or there is no GPU.
"""
import argparse
import ctypes
import importlib
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "code"))
import synced_mem_dlpack as sm  # noqa: E402  its folder must be known

ROWS, COLUMNS = 256, 128
TARGET = 1.2  # of the reference, less the cost of ctypes

real = {name: getattr(sm, name) for name in ("call", "VERSIONED", "LEGACY")}
empty = ctypes.CDLL(None).labs  # reads one register and returns
ctypes_tensor = sm.Versioned()


def make_nothing(function, out, handle, options):
    """As sm.call(), with an empty C function. The tensor is never read, as its capsule looks used."""
    empty(out, handle, options)
    out._obj.value = ctypes.addressof(ctypes_tensor)


def replace_library(replaced):
    """Makes the module's exports call the library, or an empty C function."""
    sm.call = make_nothing if replaced else real["call"]
    sm.VERSIONED = sm.USED[real["VERSIONED"]] if replaced else real["VERSIONED"]
    sm.LEGACY = sm.USED[real["LEGACY"]] if replaced else real["LEGACY"]


def time_of(function, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls * 1e6


def compare(ways, calls, rounds):
    """Returns the median of each way. The ways are run in turn; every other round is backwards. The first is not
    counted."""
    times = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name in list(ways)[::-1 if number % 2 else 1]:
            replace_library(name == "ctypes")
            times[name].append(time_of(ways[name], calls))
            replace_library(False)
    times = {name: values[1:] for name, values in times.items()}
    return {name: statistics.median(values) for name, values in times.items()}


def arguments_of(importer, array):
    """Returns the arguments with which the importer calls __dlpack__()."""
    class Spy:
        def __dlpack_device__(self):
            return array.__dlpack_device__()

        def __dlpack__(self, **arguments):
            self.arguments = arguments
            return array.__dlpack__(**arguments)
    spy = Spy()
    importer(spy)
    return spy.arguments


def numpy_pair(numpy):
    mem = sm.Memory((ROWS, COLUMNS))
    return numpy.from_dlpack, mem.cpu, numpy.zeros((ROWS, COLUMNS), "float32")


def torch_pair(torch):
    cupy = importlib.import_module("cupy")
    if not torch.cuda.is_available():
        raise ModuleNotFoundError("there is no GPU")
    mem = sm.Memory((ROWS, COLUMNS), mode="mutable").gpu
    torch.from_dlpack(mem)
    return torch.from_dlpack, mem, cupy.zeros((ROWS, COLUMNS), "float32")


def measure(library, quick):
    module = importlib.import_module(library)
    importer, mem, reference = {"numpy": numpy_pair, "torch": torch_pair}[library](module)
    arguments = arguments_of(importer, mem)
    ways = {"synced_mem": lambda: importer(mem), "reference": lambda: importer(reference),
            "ctypes": lambda: (mem.__dlpack_device__(), mem.__dlpack__(**arguments))}
    return compare(ways, 10 if quick else 2000, 3 if quick else 51)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["numpy", "torch"])
    parser.add_argument("--quick", action="store_true", help="few repetitions, only to check that everything works")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    try:
        figures = measure(options.library, options.quick)
    except ModuleNotFoundError as missing:
        print(f"skipped: {missing}")
        return 77
    figures["ratio"] = (figures["synced_mem"] - figures["ctypes"]) / figures["reference"]
    print(f"{options.library}.from_dlpack of a synced_mem object {figures['synced_mem']:.2f} us, of which ctypes "
          f"{figures['ctypes']:.2f}; of the reference {figures['reference']:.2f} us")
    print(f"without ctypes: {figures['ratio']:.2f} of the reference; "
          f"{'met' if figures['ratio'] <= TARGET else 'missed'}: <= {TARGET}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
