#!/usr/bin/env python3
"""Fails if cache lines move between threads that use objects of their own, or read objects together.

    lines.py PROGRAM

PROGRAM is lines.c. For each of its works this prints how many lines a call moves, and, if there are too many, the
functions to which they moved. The first work is the control, which must move some.
"""
import re
import subprocess
import sys

MOST = 0.1  # a counter of the library moves once in 64 calls


def locate(program, offsets):
    """Returns the function and the place of each offset, which is relative to print_place()."""
    symbols = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    begin = int(re.search(r"^([0-9a-f]+) \w print_place$", symbols, re.M).group(1), 16)
    addresses = "\n".join(f"{(begin + offset) % 2**64:#x}" for offset in offsets)
    lines = subprocess.run(["addr2line", "-f", "-s", "-e", program], input=addresses, stdout=subprocess.PIPE, text=True,
                           check=True).stdout.splitlines()
    return {offset: f"{name} {place}" for offset, name, place in zip(offsets, lines[::2], lines[1::2])}


def print_places(program, places):
    names = locate(program, sorted(places))
    for offset, moves in sorted(places.items(), key=lambda each: -each[1])[:12]:
        print(f"         {moves:7} {names[offset]}")


def read_works(output):
    """Returns the moves of each work, and of each place in it."""
    works, places = {}, {}
    for line in output.splitlines():
        if line.startswith("work "):
            name, places = line[5:], {}
        elif line.startswith("moves "):
            works[name] = float(line[6:]), places
        else:
            offset, moves = line.split()
            places[int(offset, 16)] = places.get(int(offset, 16), 0) + int(moves)
    return works


def main():
    program = sys.argv[1]
    works = read_works(subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout)
    wrong = []
    for number, (name, (moves, places)) in enumerate(works.items()):
        print(f"{moves:7.3f}  {name}")
        if number == 0 and moves < 1:
            wrong.append(f"{name}: fewer than 1 a call")
        if number > 0 and moves > MOST:
            wrong.append(f"{name}: more than {MOST} a call")
            print_places(program, places)
    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main())
