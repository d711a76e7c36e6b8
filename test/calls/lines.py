#!/usr/bin/env python3
"""Fails if threads with objects of their own share cache lines that one of them writes.

    lines.py PROGRAM

PROGRAM is lines.c. For each of its works this prints how often a call used such a line, and, if it was too often, the
functions that did.
"""
import re
import subprocess
import sys

MOST = 0.1  # a counter of the library goes to another thread once in 64 calls


def locate(program, offsets):
    """Returns the function and the place of each offset, which is relative to print_place()."""
    symbols = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    begin = int(re.search(r"^([0-9a-f]+) \w print_place$", symbols, re.M).group(1), 16)
    addresses = "\n".join(f"{(begin + offset) % 2**64:#x}" for offset in offsets)
    lines = subprocess.run(["addr2line", "-f", "-s", "-e", program], input=addresses, stdout=subprocess.PIPE, text=True,
                           check=True).stdout.splitlines()
    return {offset: f"{name} {place}" for offset, name, place in zip(offsets, lines[::2], lines[1::2])}


def main():
    program = sys.argv[1]
    output = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    failed, places = False, {}
    for line in output.splitlines():
        if line.startswith("work "):
            name, places = line[5:], {}
        elif line.startswith("times "):
            times = float(line[6:])
            print(f"{times:7.3f}  {name}")
            if times > MOST:
                failed = True
                names = locate(program, sorted(places))
                for offset, uses in sorted(places.items(), key=lambda each: -each[1])[:12]:
                    print(f"         {uses:7} {names[offset]}")
        else:
            offset, uses = line.split()
            places[int(offset, 16)] = places.get(int(offset, 16), 0) + int(uses)
    if failed:
        print(f"more than {MOST} a call")
    return failed


sys.exit(main())
