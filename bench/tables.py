"""
Prints the tables of a run of the suite as a part of a page in Markdown, from the suite's JSON.

    tables.py FILE...

Several files are parts of one run on one machine. Each group gets a heading, and each of its tables one with the
references that it has. The figures are those of the suite's own report.

Exit status: 0; 2 if a file is not the suite's JSON, or the files are from different machines or versions.
"""
import sys

from rows import CLASSIC, LIMIT, OURS, Refused, read_run

SAME = "version", "compiler", "cpu", "cores", "system", "gpu", "driver", "cuda"


def number(value):
    """Returns the number with three digits, or all before the point."""
    if abs(value) < 0.001:
        return f"{value:.3g}"
    size, decimals = abs(value), 0
    while size < 100:
        size, decimals = size * 10, decimals + 1
    return f"{value:,.{decimals}f}"


def escape(text):
    return text.replace("|", "\\|").replace("<", "\\<")


def ratio_of(row, whose):
    return number(row[whose]["ratio"]) if "ratio" in row.get(whose, {}) else ""


def median_of(row, whose):
    return number(row[whose]["median"]) if "median" in row.get(whose, {}) else ""


def spread_of(row):
    """Returns the quartiles; nothing if the run has a single value."""
    ours = row.get(OURS, {})
    least, most = ours.get("lower_quartile"), ours.get("upper_quartile")
    return f"{number(least)} to {number(most)}" if least != most else ""


def verdict_of(row):
    """Returns the targets with what came of each, and the row's remark."""
    targets = row.get("targets", []) if "median" in row.get(OURS, {}) else []
    texts = [f"{target['target']}: {target['result']}" for target in targets]
    return "; ".join([*texts, row["note"]] if row.get("note") else texts)


COLUMNS = {"library": lambda row: median_of(row, OURS), "quartiles": spread_of,
           "limit": lambda row: median_of(row, LIMIT), "/ limit": lambda row: ratio_of(row, LIMIT),
           "classic": lambda row: median_of(row, CLASSIC), "/ classic": lambda row: ratio_of(row, CLASSIC),
           "target": verdict_of}


def print_table(rows):
    print(f"\n### {rows[0].get('title', rows[0]['table'])} [{rows[0]['unit']}]")
    whats = {whose: row[whose]["what"] for whose in (LIMIT, CLASSIC) for row in rows if row.get(whose, {}).get("what")}
    if whats:
        print()
    for whose, what in whats.items():
        print(f"- {whose}: {what}")
    columns = {name: [escape(value(row)) for row in rows] for name, value in COLUMNS.items()}
    columns = {name: values for name, values in columns.items() if any(values)}
    print(f"\n| | {' | '.join(columns)} |")
    print("| --- |" + " --- |" * len(columns))
    for i, row in enumerate(rows):
        print(f"| {escape(row['row'])} | {' | '.join(values[i] for values in columns.values())} |")


def read_parts(paths):
    """Returns the rows of all files."""
    rows, first = [], None
    for path in paths:
        machine, more, _ = read_run(path)
        first = first or machine
        different = [fact for fact in SAME if machine.get(fact) != first.get(fact)]
        if different:
            raise Refused(f"{path}: it is from another run than {paths[0]}: {different[0]} is "
                          f"{machine.get(different[0])}, not {first.get(different[0])}")
        rows += more
    return rows


def main(paths):
    if not paths:
        sys.exit(__doc__)
    tables = {}
    try:
        for row in read_parts(paths):
            tables.setdefault(row["group"], {}).setdefault((row["table"], row.get("title")), []).append(row)
    except Refused as refused:
        print(f"tables.py: {refused}", file=sys.stderr)
        return 2
    for group, of_group in tables.items():
        print(f"\n## {group}")
        for rows in of_group.values():
            print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
