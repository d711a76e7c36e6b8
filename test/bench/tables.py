"""
Checks bench/tables.py: it prints the tables of a run of the suite in Markdown, and refuses other files with one line.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "bench", "tables.py")
folder = tempfile.TemporaryDirectory()
failures = 0

MACHINE = {"machine": {"cores": 16, "version": "0.2.0", "compiler": "12.2.0", "cpu": "a CPU", "system": "Linux",
                       "gpu": "a GPU", "driver": "580", "cuda": "13.0"}}


def expect(condition, what):
    global failures
    if not condition:
        failures += 1
        print(f"FAIL: {what}")


def figures(median, spread=0.0):
    return {"rounds": 9, "median": median, "lower_quartile": median - spread, "upper_quartile": median + spread}


def row(name, ours, limit=None, group="files", table="read", targets=(), note=""):
    line = {"group": group, "table": table, "row": name, "title": f"The {table} of <files>", "x": 1, "unit": "GB/s",
            "targets": [{"target": target, "result": result} for target, result in targets], "note": note}
    if ours:
        line["ours"] = ours
    return {**line, "limit": {**limit, "ratio": ours["median"] / limit["median"], "what": "a call"}} if limit else line


def write(name, *records):
    path = os.path.join(folder.name, name)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(record)}\n" for record in records)
    return path


def play(*paths):
    done = subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def refuses(why, *paths):
    status, output, errors = play(*paths)
    expect((status, output, errors.count("\n")) == (2, "", 1) and why in errors, f"{paths}: {status}, {errors}")


first = write("first", MACHINE, row("4 KiB", figures(12345.6, 100), figures(10000), targets=[("<= 2", "missed")]),
              row("a|b", figures(0.12345), note="once"), row("1 TiB", None, targets=[("<= 2", "skipped")], note="no room"),
              {"end": {}})
second = write("second", MACHINE, row("0", figures(0), group="queue"), row("1", figures(0.0000123), group="queue"))
status, page, errors = play(first, second)
expect((status, errors) == (0, ""), f"{status}, {errors}")
expect(page == """
## files

### The read of <files> [GB/s]

- limit: a call

| | library | quartiles | limit | / limit | target |
| --- | --- | --- | --- | --- | --- |
| 4 KiB | 12,346 | 12,246 to 12,446 | 10,000 | 1.23 | \\<= 2: missed |
| a\\|b | 0.123 |  |  |  | once |
| 1 TiB |  |  |  |  | no room |

## queue

### The read of <files> [GB/s]

| | library |
| --- | --- |
| 0 | 0 |
| 1 | 1.23e-05 |
""", page)
other = write("other", {"machine": {**MACHINE["machine"], "gpu": "another"}}, row("1", figures(1)))
refuses("gpu is another, not a GPU", first, other)
refuses("this is not a line of the suite's JSON", write("bad", MACHINE, {"row": 1}))
refuses("No such file or directory", os.path.join(folder.name, "none"))
expect(play()[0] == 1, "without files")
sys.exit(failures != 0)
