"""
Measures docs/code/keeper.c: the time from the message of a keeper until a new server, which has started CUDA, has a
pointer to each tensor, and the host memory that the weights take.

    keeper.py PROGRAM [--gib N] [--servers N] [--folder FOLDER] [--json FILE]

The weights have as many GiB as the device has free, less three, or N. They are in a sparse file in the folder, /dev/shm
if none is named, in 1,000 and in 10,000 tensors. Figures are medians of 9 servers, one after the other.

Exit status: 0; 1 if the program failed; 77 without a GPU, unless --gib is given.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

GIB = 1 << 30
TARGETS = {1000: 10, 10000: 20}  # milliseconds, at most


def find_free_gib():
    """Returns the free memory of the first device, or nothing without one."""
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "--id=0"],
                               capture_output=True, text=True, check=True)
        return int(asked.stdout.split()[0]) // 1024 - 3  # contexts take some
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


def make_model(folder, size, count):
    """Makes the list, and a file of holes. Tensors begin at multiples of 256 bytes, so that the weights have its
    size."""
    part = size // count // 256 * 256
    (folder / "list").write_text("".join(f"layer.{i}.weight BF16 {i * part} {part} {part // 2}\n"
                                         for i in range(count)), encoding="utf-8")
    with open(folder / "data", "wb") as file:
        file.truncate(part * count)
    return part * count


def start(*words):
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_line(process, text):
    line = process.stdout.readline()
    if text not in line:
        raise RuntimeError(f"the program printed {line!r}, not {text!r}")
    return line


def host_bytes(process, size):
    """Returns how many bytes the system has for the file that is the weights' host memory."""
    folder = f"/proc/{process.pid}/fd"
    facts = [os.stat(os.path.join(folder, name)) for name in os.listdir(folder)]
    return max((each.st_blocks * 512 for each in facts if size <= each.st_size < size + (64 << 10)), default=-1)


def time_server(program, folder, size):
    """Returns milliseconds, and the host memory of the weights."""
    server = start(program, "serve", str(folder / "own"))
    try:
        milliseconds = float(read_line(server, "has them after").split()[3])
        return milliseconds, host_bytes(server, size)
    finally:
        server.kill()
        server.communicate()


def measure(program, folder, size, count, servers):
    size = make_model(folder, size, count)
    keeper = start(program, "keep", str(folder / "own"), str(folder / "list"), str(folder / "data"))
    try:
        read_line(keeper, f"keeps {count} tensors")
        found = [time_server(program, folder, size) for _ in range(servers)]
        host = max([host_bytes(keeper, size)] + [each[1] for each in found])
    finally:
        keeper.kill()
        keeper.communicate()
    times = [each[0] for each in found]
    return {"tensors": count, "bytes": size, "median_ms": statistics.median(times), "least_ms": min(times),
            "most_ms": max(times), "host_bytes": host}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--gib", type=float)
    parser.add_argument("--servers", type=int, default=9)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    gib = options.gib or find_free_gib()
    if not gib:
        print("skipped: there is no GPU")
        return 77
    rows = []
    for count, most in TARGETS.items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            try:
                row = measure(options.program, pathlib.Path(folder), int(gib * GIB), count, options.servers)
            except RuntimeError as error:
                print(f"keeper.py: {error}", file=sys.stderr)
                return 1
        is_met = row["median_ms"] <= most and row["host_bytes"] == 0
        print(f"{row['bytes'] / GIB:.1f} GiB in {count:,} tensors: {row['median_ms']:.2f} ms ({row['least_ms']:.2f} to "
              f"{row['most_ms']:.2f}), {row['host_bytes']} bytes of host memory  (at most {most} ms and none: "
              f"{'met' if is_met else 'MISSED'})", flush=True)
        rows.append(row)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
