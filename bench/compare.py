"""
Prints the rows in which two runs of the suite differ by more than their noise, from the suite's JSON.

    compare.py OLD NEW

The noise of a row is the distance between its quartiles, of each run. A row has changed if its medians are farther
apart than the noise of both runs together. Its ratio is the new median divided by the old; for rates more is better,
for all else less. The limit, measured beside it, tells a change of the machine from one of the library. Measurements
with a single value in a run are apart, as their noise is unknown; counts have none. Rows that only one run has measured
are named, and how the machines, the versions and the kinds of run differ.

Exit status: 0; 2 if a file is not the suite's JSON.
"""
import sys

from rows import LIMIT, OURS, Refused, read_run

RATES = "GB/s", "calls/us"
COUNTS = "instructions", "bytes", "transfers"
SHOWN = 6  # of a table's rows that only one run has


def measured(rows):
    """Returns the measured rows by group, table and name."""
    return {(row["group"], row["table"], row["row"]): row for row in rows if "median" in row.get(OURS, {})}


def noise(figures):
    return figures["upper_quartile"] - figures["lower_quartile"]


def ratio_of(old, new):
    """Returns by what the median was multiplied; None if that is no number."""
    return new["median"] / old["median"] if old["median"] else None


def has_changed(old, new):
    return abs(new["median"] - old["median"]) > noise(old) + noise(new)


def is_better(row, old, new):
    return (new["median"] > old["median"]) == (row["unit"] in RATES)


def describe_limit(old, new):
    if "median" not in old.get(LIMIT, {}) or "median" not in new.get(LIMIT, {}):
        return ""
    ratio = ratio_of(old[LIMIT], new[LIMIT])
    changed = "" if has_changed(old[LIMIT], new[LIMIT]) else ", within the noise"
    return f"; the limit: {ratio:.2f}{changed}" if ratio is not None else ""


def describe_change(key, old, new):
    ratio = ratio_of(old[OURS], new[OURS])
    factor = f"{ratio:6.2f}" if ratio is not None else "     -"
    return (f"  {factor}  {key[0]}, {key[1]}: {key[2]}: {old[OURS]['median']:.4g} -> {new[OURS]['median']:.4g} "
            f"{new['unit']}{describe_limit(old, new)}")


def strength(change):
    """Returns how much better the change is; less than 1: worse."""
    _, old, new = change
    ratio = ratio_of(old[OURS], new[OURS])
    if not ratio or ratio < 0:
        return 0.0
    return ratio if new["unit"] in RATES else 1 / ratio


def knows_noise(key, old, new):
    return new["unit"] in COUNTS or min(old[OURS].get("rounds", 0), new[OURS].get("rounds", 0)) > 1


def print_changes(old, new):
    both = [(key, old[key], new[key]) for key in old if key in new and old[key]["unit"] == new[key]["unit"]]
    changes = sorted((change for change in both if has_changed(change[1][OURS], change[2][OURS])), key=strength)
    single = [change for change in changes if not knows_noise(*change)]
    known = [change for change in changes if knows_noise(*change)]
    better = [change for change in known if is_better(change[2], change[1][OURS], change[2][OURS])]
    worse = [change for change in known if change not in better]
    for title, some in (("Worse", worse), ("Better", better[::-1]),
                        ("Of a single value in a run, so that the noise is unknown", single)):
        if some:
            print(f"\n{title}: new / old")
        for change in some:
            print(describe_change(*change))
    print(f"\n{len(both)} rows in both runs: {len(worse)} worse, {len(better)} better, {len(single)} of unknown noise "
          f"differ, {len(both) - len(changes)} the same or within the noise")


def print_missing(which, there, elsewhere):
    """Prints the rows that were measured there alone, a line for each table."""
    tables = {}
    for key, row in there.items():
        if key not in elsewhere or elsewhere[key]["unit"] != row["unit"]:
            tables.setdefault(key[:2], []).append(key[2])
    for (group, table), names in tables.items():
        rest = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        print(f"only in the {which} run: {group}, {table}: {'; '.join(names[:SHOWN])}{rest}")


def print_differences(old, new):
    """Prints the facts in which the machines, the versions and the kinds of run differ."""
    for name in sorted((old.keys() | new.keys()) - {"date"}):
        if old.get(name) != new.get(name):
            print(f"{name} differs: {old.get(name, 'unknown')} -> {new.get(name, 'unknown')}")


def main(paths):
    if len(paths) != 2:
        raise Refused("usage: compare.py OLD NEW")
    (old_machine, old_rows, _), (new_machine, new_rows, _) = map(read_run, paths)
    print(f"\nThe run of {new_machine.get('date', '?')} compared with that of {old_machine.get('date', '?')}")
    print_differences(old_machine, new_machine)
    old, new = measured(old_rows), measured(new_rows)
    print_missing("old", old, new)
    print_missing("new", new, old)
    print_changes(old, new)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as refused:
        print(f"compare.py: {refused}", file=sys.stderr)
        sys.exit(2)
