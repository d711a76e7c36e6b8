#!/usr/bin/env python3
"""Counts what typical calls of the library run.

    calls.py SRC PROGRAM TABLE           fails if a count exceeds TABLE's by more than a tenth
    calls.py SRC PROGRAM TABLE --write   stores the counts in TABLE
    calls.py SRC PROGRAM --instructions  counts instructions instead, with callgrind

PROGRAM is calls.c, linked with the library. For functions, the library is built with -finstrument-functions and
without inlining; functions of headers count too. For instructions, it is the optimized library.

A row has the functions that a call runs, the files that define them, the greatest depth of calls, and the times that
control goes from a lower layer of SRC to a higher one. Instructions are those in functions of SRC alone.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

COLUMNS = ["functions", "files", "depth", "climbs"]


def layers_of(src):
    """Returns the rank of each folder, as layers.txt lists them."""
    lines = (src / "layers.txt").read_text().splitlines()
    return {name: rank for rank, name in enumerate(line for line in lines if line and line[0] != "#")}


def locate(program, offsets):
    """Returns the file of src/ and the name of each function. An offset is relative to begin_counted()."""
    symbols = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    begin = int(re.search(r"^([0-9a-f]+) \w begin_counted$", symbols, re.M).group(1), 16)
    addresses = "\n".join(f"{(begin + offset) % 2**64:#x}" for offset in offsets)
    lines = subprocess.run(["addr2line", "-f", "-e", program], input=addresses, stdout=subprocess.PIPE, text=True,
                           check=True).stdout.splitlines()
    return {offset: (place.rsplit("/src/", 1)[1].split(":")[0], name)
            for offset, name, place in zip(offsets, lines[::2], lines[1::2])}


def identity(function):
    """Returns what tells a function from others. One of a header has a copy in each file, and its name alone counts."""
    file, name = function
    return name if name.startswith("sm_") else (file, name)


def count_functions(src, program):
    output = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    calls = {}
    for line in output.splitlines():
        if line.startswith("call "):
            events = calls.setdefault(line[5:], [])
        else:
            offset, depth = line.split()
            events.append((int(offset, 16), int(depth)))
    functions = locate(program, sorted({offset for events in calls.values() for offset, _ in events}))
    rank = layers_of(src)
    rows = {}
    for name, events in calls.items():
        called = [functions[offset] for offset, _ in events]
        layers = [rank[file.split("/")[0]] for file, _ in called]
        rows[name] = [len({identity(function) for function in called}), len({file for file, _ in called}),
                      max(depth for _, depth in events), sum(a < b for a, b in zip(layers, layers[1:]))]
    return rows


def count_instructions(program):
    """Returns the instructions of each call in functions of src/. Those of the emulated runtime do not count."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--zero-before=begin_counted",
                   "--dump-before=end_counted", "--compress-strings=no", program]
        printed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        names = [line[5:] for line in printed.stdout.splitlines() if line.startswith("call ")]
        for number, name in enumerate(names, 1):
            rows[name] = sum_of_src(pathlib.Path(f"{out}.{number}").read_text())
    return rows


def sum_of_src(dump):
    total = 0
    is_src = is_call = False
    for line in dump.splitlines():
        if line.startswith(("fl=", "fi=", "fe=")):
            is_src = "/src/" in line
        elif line.startswith("calls="):
            is_call = True  # the next line has the callee's cost
        elif re.match(r"[+*\-0-9]", line):
            if is_src and not is_call:
                total += int(line.split()[1])
            is_call = False
    return total


def read_table(path):
    rows = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            *counts, name = line.split(maxsplit=len(COLUMNS))
            rows[name] = [int(count) for count in counts]
    return rows


def format_row(name, counts):
    return " ".join(f"{count:>{len(column)}}" for count, column in zip(counts, COLUMNS)) + "  " + name


def main():
    src, program = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if "--instructions" in sys.argv:
        for name, count in count_instructions(program).items():
            print(f"{count:6}  {name}")
        return 0
    table = pathlib.Path(sys.argv[3])
    rows = count_functions(src, program)
    lines = [" ".join(COLUMNS)] + [format_row(name, counts) for name, counts in rows.items()]
    print("\n".join(lines))
    if "--write" in sys.argv:
        header = "".join(line + "\n" for line in table.read_text().splitlines() if line.startswith("#"))
        table.write_text(header + "\n".join(lines[1:]) + "\n")
        return 0
    known = read_table(table)
    wrong = [] if known.keys() == rows.keys() else [f"{table.name} has other calls"]
    for name, counts in rows.items():
        for column, count, limit in zip(COLUMNS, counts, known.get(name, counts)):
            if count * 10 > limit * 11:
                wrong.append(f"{name}: {column} has grown from {limit} to {count}")
    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main())
