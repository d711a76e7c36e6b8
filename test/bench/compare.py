"""
Checks bench/compare.py: it says what differs by more than the noise of both runs and nothing else, names rows that only
one run has, and differences of machines and versions. It refuses other files with one line. bench/run refuses wrong
values of --compare before it builds anything.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "bench", "compare.py")
folder = tempfile.TemporaryDirectory()
failures = 0

MACHINE = {"cores": 16, "memory": 135000000000, "has_gpu": True, "emulated": False, "quick": False,
           "date": "2026-01-02T03:04Z", "version": "0.2.0", "commit": "abc", "library": "synced_mem 0.2.0, commit abc",
           "compiler": "12.2.0", "cpu": "a CPU", "system": "Linux", "gpu": "a GPU", "driver": "580", "cuda": "13.0",
           "pcie": "5.0 x16"}


def expect(condition, what):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL: {what}")


def figures(median, spread=0.0, rounds=31):
    """Returns figures whose quartiles are this far apart. The extremes are far outside, and do not count."""
    return {"rounds": rounds, "median": median, "least": 0.01 * median, "lower_quartile": median - spread / 2,
            "upper_quartile": median + spread / 2, "most": 100 * median}


def row(name, median, spread=0.0, rounds=31, unit="us", limit=None, table="push"):
    line = {"group": "transfers", "table": table, "row": name, "x": 4096, "unit": unit, "verdict": "no target",
            "ours": figures(median, spread, rounds), "targets": [], "note": ""}
    return {**line, "limit": {**figures(*limit), "ratio": median / limit[0], "what": "a call"}} if limit else line


def skipped(name):
    return {"group": "transfers", "table": "push", "row": name, "x": 4096, "unit": "us", "verdict": "skipped",
            "targets": [], "note": "no GPU"}


def write(name, rows, **machine):
    lines = [{"machine": {**MACHINE, **machine}}, *rows, {"timeline": []}, {"end": {"rows": len(rows)}}]
    path = os.path.join(folder.name, name)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def compare(old, new, **machine):
    """Returns the lines that the script prints of these rows."""
    done = run(write("old.json", old), write("new.json", new, date="2026-05-06T07:08Z", **machine))
    expect(done.returncode == 0 and done.stderr == "", f"the script ends with {done.returncode}: {done.stderr}")
    return done.stdout.strip().splitlines()


def section(lines, title):
    """Returns the lines below the title."""
    starts = [number for number, line in enumerate(lines) if line.startswith(title)]
    if not starts:
        return []
    rest = lines[starts[0] + 1:]
    return rest[:rest.index("")] if "" in rest else rest


def test_noise():
    old = [row("same", 10, 1), row("within", 10, 1), row("beyond", 10, 1), row("wide", 10, 4), row("once wide", 10, 4)]
    new = [row("same", 10, 1), row("within", 11.9, 1), row("beyond", 12.1, 1), row("wide", 17, 4),
           row("once wide", 14.4, 0.3)]
    lines = compare(old, new)
    expect(lines[0] == "The run of 2026-05-06T07:08Z compared with that of 2026-01-02T03:04Z", lines[0])
    expect([line.split(": ")[1] for line in section(lines, "Worse")] == ["once wide", "beyond"], f"noise: {lines}")
    expect(lines[-1] == "5 rows in both runs: 2 worse, 0 better, 0 of unknown noise differ, 3 the same or within the "
           "noise", lines[-1])
    expect(len(lines) == 7, f"more is said than has changed: {lines}")


def test_direction():
    old = [row("time up", 10), row("time down", 10), row("rate up", 10, unit="GB/s"), row("rate down", 10, unit="GB/s"),
           row("calls up", 10, unit="calls/us"), row("more", 13, rounds=1, unit="instructions"),
           row("to nothing", 10), row("from nothing", 0)]
    new = [row("time up", 20), row("time down", 5), row("rate up", 30, unit="GB/s"), row("rate down", 2, unit="GB/s"),
           row("calls up", 11, unit="calls/us"), row("more", 14, rounds=1, unit="instructions"),
           row("to nothing", 0), row("from nothing", 1)]
    lines = compare(old, new)
    worse, better = section(lines, "Worse: new / old"), section(lines, "Better: new / old")
    expect([line.split(": ")[1] for line in worse] == ["from nothing", "rate down", "time up", "more"], f"{worse}")
    expect({line.split(": ")[1] for line in better} == {"rate up", "time down", "calls up", "to nothing"}, f"{better}")
    expect("    0.20  transfers, push: rate down: 10 -> 2 GB/s" in worse, f"{worse}")
    expect("    2.00  transfers, push: time up: 10 -> 20 us" in worse, f"{worse}")
    expect("    3.00  transfers, push: rate up: 10 -> 30 GB/s" in better, f"{better}")
    expect("       -  transfers, push: from nothing: 0 -> 1 us" in worse, f"{worse}")


def test_limit():
    lines = compare([row("moved", 10, limit=(5, 0.1)), row("still", 10, limit=(5, 1))],
                    [row("moved", 20, limit=(10, 0.1)), row("still", 20, limit=(5.5, 1))])
    worse = section(lines, "Worse")
    expect(any(line.endswith("moved: 10 -> 20 us; the limit: 2.00") for line in worse), f"{worse}")
    expect(any(line.endswith("still: 10 -> 20 us; the limit: 1.10, within the noise") for line in worse), f"{worse}")


def test_single_values():
    lines = compare([row("one", 1.0, rounds=1, unit="times"), row("two", 1.0, unit="times")],
                    [row("one", 1.3, rounds=1, unit="times"), row("two", 1.3, unit="times")])
    expect([line.split(": ")[1] for line in section(lines, "Of a single value")] == ["one"], f"single: {lines}")
    expect([line.split(": ")[1] for line in section(lines, "Worse")] == ["two"], f"single: {lines}")
    expect("1 worse, 0 better, 1 of unknown noise differ" in lines[-1], lines[-1])


def test_missing_rows():
    many = [row(f"size {i}", 10, table="pull") for i in range(8)]
    old = [row("both", 10), row("old alone", 10), skipped("new alone"), row("unit", 10, unit="us"), *many]
    new = [row("both", 10), row("new alone", 10), skipped("old alone"), row("unit", 10, unit="ns")]
    lines = compare(old, new)
    expect("only in the old run: transfers, push: old alone; unit" in lines, f"missing: {lines}")
    expect("only in the new run: transfers, push: new alone; unit" in lines, f"missing: {lines}")
    expect("only in the old run: transfers, pull: size 0; size 1; size 2; size 3; size 4; size 5, and 2 more" in lines,
           f"missing: {lines}")
    expect(lines[-1].startswith("1 rows in both runs: 0 worse, 0 better"), lines[-1])
    expect(not any("only in" in line for line in compare(new, new)), "rows of both runs are called missing")


def test_machines():
    rows = [row("a row", 10)]
    expect(not any("differs" in line for line in compare(rows, rows)), "equal machines are said to differ")
    lines = compare(rows, rows, gpu="another GPU", version="0.3.0", quick=True, extra="new")
    expect([line for line in lines if "differs" in line] == [
        "extra differs: unknown -> new", "gpu differs: a GPU -> another GPU", "quick differs: False -> True",
        "version differs: 0.2.0 -> 0.3.0"], f"machines: {lines}")


def refuses(words, *arguments):
    done = run(*arguments)
    expect(done.returncode == 2 and done.stdout == "", f"{arguments} ended with {done.returncode}: {done.stdout}")
    expect(done.stderr.startswith(f"compare.py: {words}") and done.stderr.count("\n") == 1, f"refused: {done.stderr}")


def test_refusals():
    good = write("good.json", [row("a row", 10)])
    bad = os.path.join(folder.name, "bad.json")
    refuses("usage: compare.py OLD NEW", good)
    refuses(f"{bad}: No such file", good, bad)
    for lines, where in (([], ": it has no line"), (["no JSON"], ", line 1: this is not"),
                         (['{"machine":{}}', '{"group":"life"}'], ", line 2: this is not"),
                         (['{"machine":{}}', json.dumps({**row("a row", 1), "ours": {"median": 1}})],
                          ", line 2: this is not")):
        with open(bad, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
        refuses(bad + where, bad, good)
        refuses(bad + where, good, bad)


def test_bench_run():
    good = write("good.json", [row("a row", 10)])
    for words, arguments in (("bench/run: --compare: its value is missing", ["--compare"]),
                             (f"compare.py: {good}.none: No such file", ["--compare", f"{good}.none"]),
                             (f"bench/run: --compare {good}: the run would overwrite it",
                              ["--compare", good, "--json", f"{folder.name}/./good.json"]),
                             (f"bench/run: --json {folder.name}: --plots and --compare need a regular file",
                              ["--compare", good, "--json", folder.name])):
        done = subprocess.run([os.path.join(ROOT, "bench", "run"), "--suite", *arguments], capture_output=True,
                              text=True, check=False, env={**os.environ, "NO_INSTALL": "1"})
        expect(done.returncode == 2 and done.stderr.startswith(words) and done.stderr.count("\n") == 1,
               f"bench/run --suite {arguments}: {done.returncode}, {done.stderr}")


test_noise()
test_direction()
test_limit()
test_single_values()
test_missing_rows()
test_machines()
test_refusals()
test_bench_run()
folder.cleanup()
sys.exit(failures > 0)
