"""
Checks bench/peers.py without PyTorch, CuPy and a GPU: it names what is missing with one line, subtracts the cost of
ctypes, and writes rows that bench/compare.py reads and tables that have all columns.
"""
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
SCRIPT = os.path.join(BENCH, "peers.py")
sys.dont_write_bytecode = True
sys.path.insert(0, BENCH)
import peers  # noqa: E402  its folder must be known
import rows  # noqa: E402

folder = tempfile.TemporaryDirectory()
failures = 0


def expect(condition, what):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL: {what}")


def write(name, text):
    path = os.path.join(folder.name, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def refuses(words, modules, *arguments):
    """The script runs with these modules of the test's in place of the installed packages."""
    environment = {**os.environ, "PYTHONPATH": os.path.join(folder.name, modules), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-S", SCRIPT, *arguments], capture_output=True, text=True, check=False,
                          env=environment)
    expect(done.returncode == 2 and done.stdout == "", f"{modules}: it ended with {done.returncode}: {done.stdout}")
    expect(done.stderr.startswith(f"peers.py: {words}") and done.stderr.count("\n") == 1, f"{modules}: {done.stderr}")


def test_missing():
    torch = "class cuda:\n    is_available = staticmethod(lambda: {})\n"
    no_gpu = "class cuda:\n    class runtime:\n        def getDeviceCount(): raise RuntimeError('no device')\n"
    write("none/nothing.py", "")
    write("torch/torch.py", torch.format(True))
    write("blind/torch.py", torch.format(False))
    write("blind/cupy.py", no_gpu)
    write("half/torch.py", torch.format(True))
    write("half/cupy.py", no_gpu)
    refuses("PyTorch is not installed", "none")
    refuses("CuPy is not installed", "torch")
    refuses("PyTorch finds no GPU", "blind")
    refuses("CuPy finds no GPU: no device", "half")
    refuses("[Errno 2] No such file or directory", "half", "--json", os.path.join(folder.name, "no", "file"))


class Sleeps(peers.Way):
    """Its C call takes two milliseconds more than one to the empty function."""

    def __init__(self, log, name):
        self.log, self.name, self.c_calls = log, name, [[(self.sleep, ())]]

    def prepare(self):
        self.log.append(self.name)

    @staticmethod
    def sleep():
        time.sleep(0.002)


def test_measure():
    log = []
    ways = {"a": Sleeps(log, "a"), "b": Sleeps(log, "b")}
    times = peers.measure(ways, range(1), {"fewest": 3, "most": 3, "seconds": 0})
    expect(log == ["a", "b", "b", "a", "a", "b", "b", "a"], f"the ways run in turn: {log}")
    expect(all(len(values) == 3 and min(values) > 1900 for values in times.values()), f"the times: {times}")
    nothing = peers.Way()
    nothing.c_calls = [[(peers.Empty.nothing, (1, 2, 3))] * 1000]
    for _ in range(20):  # other work on the machine may disturb some
        times = peers.measure({"nothing": nothing}, range(1), {"fewest": 9, "most": 9, "seconds": 0})["nothing"]
        whole = min(peers.time_of(peers.Empty(nothing), range(1)) for _ in range(9))
        if sorted(times)[4] < whole / 2:
            break
    else:
        expect(False, f"the cost of ctypes stays: {times} of {whole}")


def test_rows():
    table = {"name": "pinned-push", "unit": "GB/s", "title": "To the device"}
    times = {peers.OURS: [1.0, 2.0, 4.0], peers.BARE: [2.0, 2.0, 2.0], "Other": [8.0, 8.0, 8.0]}
    row = peers.row_of(table, "4 KiB", 4096, times, 4096)
    expect(math.isclose(row["ours"]["median"], 2.048) and math.isclose(row["ours"]["most"], 4.096), f"{row}")
    expect(row["limit"]["what"] == peers.BARE and row["peers"]["Other"]["ratio"] == 4, f"{row}")
    path = os.path.join(folder.name, "rows.json")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in ({"machine": {"date": "now"}}, row, {"end": {}}))
    machine, read, _ = rows.read_run(path)
    expect(machine == {"date": "now"} and read == [row], f"{read}")
    only_ours = peers.row_of({**table, "unit": "us"}, "1 MiB", 1 << 20, {peers.OURS: [1234.5] * 3}, 1 << 20)
    expect("limit" not in only_ours and only_ours["ours"]["median"] == 1234.5, f"{only_ours}")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        peers.print_table(table, [row, only_ours])
    expect(out.getvalue().splitlines()[1:] == [
        "### To the device (GB/s)", "", "| | synced_mem | CUDA runtime | Other |", "| --- | --- | --- | --- |",
        "| 4 KiB | 2.05 | 2.05 | 0.512 |", "| 1 MiB | 1,234 | – | – |"], out.getvalue())


test_missing()
test_measure()
test_rows()
folder.cleanup()
sys.exit(failures > 0)
