#!/usr/bin/env python3
"""Prints the targets that a build makes by default, and those of the tests that these options of "meson test" select.

Meson's own target "all" has the programs of all tests in versions before 1.7.

    programs.py BUILD-FOLDER [--each-file] [--suite NAME | --no-suite NAME]...

With --each-file it also prints one object of each source file, so that a compiler sees all of the tree. Another object
of the same file, for another runtime or with other options, and the programs of the other tests would show no more.
"""
import argparse
import json
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--each-file", action="store_true")
parser.add_argument("--suite", action="append", default=[])
parser.add_argument("--no-suite", action="append", default=[])
asked = parser.parse_args()


def load(name):
    with open(os.path.join(asked.folder, name), encoding="utf-8") as file:
        return json.load(file)


def introspect(what):
    return load(f"meson-info/intro-{what}.json")


def is_selected(test):
    suites = {suite.split(":")[-1] for suite in test["suite"]}
    return not suites & set(asked.no_suite) and (not asked.suite or bool(suites & set(asked.suite)))


targets = {target["id"]: target for target in introspect("targets")}
selected = [test for test in introspect("tests") if is_selected(test)]
if not selected:
    sys.exit("no test is selected")
names = {name for test in selected for name in test["depends"]}
names |= {name for name, target in targets.items() if target["build_by_default"]}
needed = {file for name in names for file in targets[name]["filename"]}
outputs = {os.path.relpath(file, asked.folder) for file in needed}
if asked.each_file:
    commands = load("compile_commands.json")
    objects = {os.path.normpath(command["file"]): command["output"] for command in reversed(commands)}
    outputs |= set(objects.values())
print("\n".join(sorted(outputs)))
