"""
Checks bench/how_far.py: a case that is computed by hand, that more GPUs and slower networks never make a step shorter,
and that a malformed profile is refused with one line.
"""
import copy
import json
import math
import os
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "how_far.py")
failures = 0


def expect(condition, what):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL: {what}")


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-9)


def median(value):
    return {"median": value, "least": value, "most": value}


# A step takes 2 ms forward, 2.5 ms backward and 0.5 ms in the optimizer. Between two ranks a reduction takes 10 µs and
# 1 ms for each 1,000,000 bytes.
ONE = {
    "profile": 1, "device": "a GPU (GPU 0)", "on_gpu": True, "ranks": 1, "local_ranks": 1, "reducer": "",
    "model": {"layers": 1, "hidden": 9}, "rows": 50, "bucket_bytes": 1000000, "buckets": 0,
    "alone": {"ms": median(5.0), "characters_per_second": 10000.0},
    "forward": [{"name": "embedding", "ms": median(0.5)}, {"name": "scores", "ms": median(1.5)}],
    "backward": [{"name": "a", "bytes": 1000000, "ms": median(1.0)}, {"name": "b", "bytes": 1000000, "ms": median(1.0)},
                 {"name": "c", "bytes": 500000, "ms": median(0.5)}],
    "optimizer": {"ms": median(0.5)},
}
STEP = {"ms": median(6.25), "waited_ms": median(1.0), "share_not_hidden": median(0.2), "characters_per_second": 16000.0}
TWO = {
    **ONE, "ranks": 2, "local_ranks": 2, "reducer": "NCCL 2", "buckets": 3, "overlapped": STEP, "after": STEP,
    "reductions": [{"bytes": 1000, "ms": median(0.011)}, {"bytes": 2000000, "ms": median(2.01)}],
    "flat": {"bytes": 2500000, "library_ms": median(2.5), "plain_ms": median(2.0), "ratio": median(0.8)},
}

folder = tempfile.TemporaryDirectory()


def write(name, record):
    path = os.path.join(folder.name, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(record if isinstance(record, str) else json.dumps(record))
    return path


def run(*arguments, python=sys.executable):
    return subprocess.run([python, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def compute(*records, arguments=()):
    """Returns the groups that the script computes from these profiles, and the tables."""
    out = os.path.join(folder.name, "out.json")
    done = run("--json", out, *arguments, *(write(f"{i}.json", record) for i, record in enumerate(records)))
    expect(done.returncode == 0 and done.stderr == "", f"the script ends with {done.returncode}: {done.stderr}")
    with open(out, encoding="utf-8") as file:
        return json.load(file)["groups"], done.stdout


def steps_of(group, network):
    return {row["gpus"]: row for row in group["clusters"][network]["steps"]}


def test_by_hand():
    groups, tables = compute(TWO, ONE)
    one, two = groups[0]["measured"]
    expect(len(groups) == 1 and one["ranks"] == 1 and two["ranks"] == 2, "profiles of a model belong together")
    expect(near(one["parts_ms"], 5.0), "the sum of the parts")
    expect(near(two["speedup"], 1.6) and near(two["flat"]["ratio"], 0.8), "figures of two ranks")

    # Bucket a is made after 3 ms and reduced after 4.01. b is made after 4 ms and reduced after 5.02, c made after 4.5
    # and reduced after 5.53. The optimizer is 0.2, 0.2 and 0.1 ms.
    slow = steps_of(groups[0], 0)
    expect(near(two["overlapped"]["predicted_ms"], 5.63), f"two ranks: {two['overlapped']}")
    expect(near(slow[2]["ms"], 5.63) and near(slow[2]["not_hidden"], 0.63 / 2.53), f"two GPUs: {slow[2]}")
    expect(near(slow[2]["characters_per_second"], 1e5 / 5.63), f"two GPUs: {slow[2]}")
    # One reduction, of more bytes than measured: 2.01 ms * 1.25 after 4.5 ms, before 0.5 ms.
    expect(near(two["after"]["predicted_ms"], 7.5125), f"two ranks: {two['after']}")
    expect(near(slow[1]["ms"], 5.0) and slow[1]["not_hidden"] == 0, f"one GPU: {slow[1]}")

    # 8 GPUs: the time of 1.75 times the bytes, and 12 more steps of 3.4 µs.
    a, c = 1.76 + 12 * 0.0034, 0.885 + 12 * 0.0034
    expect(near(slow[8]["ms"], 3 + a + a + c + 0.1), f"8 GPUs: {slow[8]}")
    # 2 hosts by 12.5 GB/s * 0.9: rings are better, with 2 steps of 14 µs.
    wire = 1000000 / 11.25e6
    expect(near(slow[16]["ms"], slow[8]["ms"] + 3 * 0.028 + 2.5 * wire), f"16 GPUs: {slow[16]}")
    # 128 hosts: trees are better, with 14 steps.
    expect(near(slow[1024]["ms"], slow[8]["ms"] + 3 * 14 * 0.014 + 2.5 * 2 * wire), f"1,024 GPUs: {slow[1024]}")
    for words in ("## a GPU (GPU 0), hidden layers: 1 of 9, 50 rows a rank", "| 1,024 |", "11 µs for 1,000 bytes",
                  "| 2 | one reduction after it | 7.512 | 6.25 |", "| 1.600 | 2.5 | 2 | 0.8 |"):
        expect(words in tables, f"the tables lack {words}: {tables}")


def test_order():
    groups, _ = compute(ONE, TWO)
    networks = [steps_of(groups[0], i) for i in range(3)]
    for steps in networks:
        counts = sorted(steps)
        expect(counts == [2 ** i for i in range(11)], f"numbers of GPUs: {counts}")
        for few, many in zip(counts, counts[1:]):
            expect(steps[few]["ms"] <= steps[many]["ms"], f"{many} GPUs are faster than {few}")
            expect(0 <= steps[many]["not_hidden"] <= 1 and 0 < steps[many]["efficiency"] <= 1, f"{many}: {steps[many]}")
    for slow, fast in zip(networks, networks[1:]):
        for count, step in slow.items():
            expect(step["ms"] > fast[count]["ms"] if count > 8 else near(step["ms"], fast[count]["ms"]),
                   f"{count} GPUs on two networks: {step}, {fast[count]}")
    better = steps_of(compute(ONE, TWO, arguments=["--efficiency", "1"])[0][0], 0)
    expect(all(better[count]["ms"] < step["ms"] for count, step in networks[0].items() if count > 8), "the efficiency")


def test_parts():
    # Parts of 5 ms in a step of 4 are scaled; in a step of 6 the rest comes first. Without reductions that take long
    # nothing is added.
    fast = {**TWO, "reductions": [{"bytes": 8, "ms": median(1e-6)}, {"bytes": 5000000, "ms": median(2e-6)}]}
    for milliseconds in 4.0, 6.0:
        alone = {"ms": median(milliseconds), "characters_per_second": 1.0}
        groups, _ = compute({**ONE, "alone": alone}, {**fast, "alone": alone})
        step = steps_of(groups[0], 0)[2]
        expect(abs(step["ms"] - milliseconds) < 1e-5, f"a step of {milliseconds} ms: {step}")
    # A size that took longer than a larger one was disturbed.
    disturbed = {**TWO, "reductions": [{"bytes": 8, "ms": median(7.0)}, *TWO["reductions"]]}
    expect(near(compute(ONE, disturbed)[0][0]["link"]["latency"], 0.011), "a disturbed size")


def test_processors():
    cpus = [{**record, "device": "CPU", "on_gpu": False} for record in (ONE, TWO, {**TWO, "ranks": 4})]
    groups, tables = compute(*cpus)
    expect("clusters" not in groups[0] and "Gbit/s" not in tables, "there are no clusters of CPUs")
    four = groups[0]["measured"][2]["overlapped"]
    # The latency, 0.011 ms, is that of 2 steps: 4 ranks take 4 more. Bytes count 1.5 times.
    a, c = 1.51 + 4 * 0.0055, 0.76 + 4 * 0.0055
    expect(near(four["predicted_ms"], 3 + a + a + c + 0.1), f"4 ranks: {four}")


def test_refusals():
    def refuse(words, *arguments):
        done = run(*arguments)
        expect(done.returncode == 2 and done.stdout == "", f"{words}: {done.returncode}, {done.stdout}")
        expect(done.stderr.count("\n") == 1 and done.stderr.startswith("how_far.py: ") and words in done.stderr,
               f"{words}: {done.stderr}")

    def refuse_change(words, change):
        record = copy.deepcopy(TWO)
        change(record)
        path = write("bad.json", record)
        refuse(words, path)
        refuse(path, path)

    good = write("good.json", TWO)
    refuse("No such file", os.path.join(folder.name, "none"))
    for text in "", "{", "profile":
        refuse("this is not JSON", write("bad.json", text))
    for text in "[]", "{}", "7", '{"profile":2}':
        refuse("this is no file of --profile", write("bad.json", text))
    for name in TWO:
        if name not in ("profile", "local_ranks", "buckets"):
            refuse_change(f'"{name}" is missing', lambda record, name=name: record.pop(name))
    refuse_change('"backward" is empty', lambda record: record["backward"].clear())
    refuse_change('"backward", item 2: "bytes" is missing', lambda record: record["backward"][1].pop("bytes"))
    refuse_change('"reductions", item 1: "ms": "median" is missing', lambda r: r["reductions"][0]["ms"].clear())
    refuse_change('"share_not_hidden" has no median', lambda record: record["overlapped"]["share_not_hidden"].clear())
    refuse_change('"median" is not a number', lambda record: record["optimizer"]["ms"].update(median=-1))
    refuse_change('"median" is not a number', lambda record: record["optimizer"]["ms"].update(median=float("nan")))
    refuse_change('"median" is not a number', lambda record: record["optimizer"]["ms"].update(median="fast"))
    refuse_change('"ranks" is not a whole number', lambda record: record.update(ranks=0))
    refuse_change('"rows" is not a whole number', lambda record: record.update(rows=True))
    refuse_change('"on_gpu" is not bool', lambda record: record.update(on_gpu=1))
    refuse_change('"ms" is 0', lambda record: record["alone"].update(ms=median(0)))
    refuse_change("two sizes or more", lambda record: record["reductions"].pop())
    refuse_change("none in no time", lambda record: record["reductions"][0].update(ms=median(0)))
    refuse("of as many ranks as", good, write("again.json", TWO))
    for flag in "--efficiency=0", "--efficiency=2", "--efficiency=much", "--frobnicate":
        expect(run(flag, good).returncode == 2, f"{flag} is refused")
    expect(run().returncode == 2, "no file is refused")
    done = run("--json", os.path.join(folder.name, "none", "out"), good)
    expect(done.returncode == 2 and "none/out: No such file" in done.stderr, f"--json: {done.stderr}")


def test_picture():
    def has_matplotlib(python):
        try:
            return subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0
        except OSError:
            return False

    files = [write("one.json", ONE), write("two.json", TWO)]
    path = os.path.join(folder.name, "picture.svg")
    done = run("-h")
    expect(done.returncode == 0 and "--efficiency" in done.stdout, f"the help: {done.stdout}")
    done = subprocess.run([sys.executable, "-S", "-E", SCRIPT, "--picture", path, *files], capture_output=True,
                          text=True, check=False)
    expect(done.returncode == 2 and "matplotlib is not installed" in done.stderr, f"without matplotlib: {done.stderr}")
    python = next(filter(has_matplotlib, [sys.executable, "/usr/bin/python3"]), None)
    if not python:
        print("the picture is not tested: there is no Python with matplotlib")
        return
    pictures = []
    for _ in range(2):
        done = run("--picture", path, *files, python=python)
        expect(done.returncode == 0 and done.stderr == "", f"the picture: {done.stderr}")
        with open(path, encoding="utf-8") as file:
            pictures.append(file.read())
    expect(pictures[0] == pictures[1], "the picture is the same every time")
    for words in ("100 Gbit/s a host (predicted)", "400 Gbit/s a GPU (predicted)", "measured", "1,024", "efficiency"):
        expect(f">{words}<" in pictures[0], f"the picture lacks {words}")
    done = run("--picture", path, write("cpu.json", {**TWO, "on_gpu": False}), python=python)
    expect(done.returncode == 2 and "no profiles of several GPUs" in done.stderr, f"a picture of CPUs: {done.stderr}")
    done = run("--picture", os.path.join(folder.name, "none", "picture.svg"), *files, python=python)
    expect(done.returncode == 2 and "No such file" in done.stderr, f"a picture in no folder: {done.stderr}")


test_by_hand()
test_order()
test_parts()
test_processors()
test_refusals()
test_picture()
folder.cleanup()
sys.exit(failures > 0)
