#!/usr/bin/env python3
"""Prints the targets that a build makes by default, and those of the tests that these options of "meson test" select.

Meson's own target "all" has the programs of all tests in versions before 1.7.

    programs.py BUILD-FOLDER [--suite NAME | --no-suite NAME]...
"""
import argparse
import json
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--suite", action="append", default=[])
parser.add_argument("--no-suite", action="append", default=[])
asked = parser.parse_args()


def introspect(what):
    with open(os.path.join(asked.folder, "meson-info", f"intro-{what}.json"), encoding="utf-8") as file:
        return json.load(file)


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
print("\n".join(sorted(os.path.relpath(file, asked.folder) for file in needed)))
