#!/usr/bin/env python3
"""Lists the suites that failed, each with the end of what it printed.

    failures.py CONFIGURATION LOG

LOG is the testlog.json that `meson test` wrote.
"""
import json
import sys

LINES = 30
PASSED = ("OK", "EXPECTEDFAIL", "SKIP")


def main():
    configuration, path = sys.argv[1:]
    with open(path, encoding="utf-8", errors="replace") as log:
        suites = [json.loads(line) for line in log]
    for suite in suites:
        if suite["result"] in PASSED:
            continue
        print(f"== failed in {configuration}: {suite['name']}: {suite['result']} after {suite['duration']:.0f} s")
        for stream in ("stdout", "stderr"):
            for line in suite.get(stream, "").splitlines()[-LINES:]:
                print(f"    {line[:300]}")


if __name__ == "__main__":
    main()
