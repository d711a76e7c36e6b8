"""
Reads the JSON of the suite. docs/benchmarks.md describes its lines.
"""
import json

OURS, LIMIT, CLASSIC = "ours", "limit", "classic"


class Refused(Exception):
    """A message for the user."""


def check_row(row):
    """Raises an error if the row has no name, or figures that are no numbers."""
    row["group"], row["table"], row["row"], row["unit"]
    float(row["x"])
    for whose in OURS, LIMIT, CLASSIC:
        if "median" in row.get(whose, {}):
            for name in "median", "lower_quartile", "upper_quartile":
                row[whose][name] = float(row[whose][name])


def read_bar(bar):
    return bar["what"], int(bar["step"]), float(bar["begin_us"]), float(bar["end_us"])


def read_run(path):
    """Returns the machine's record, the rows, and the bars of the timeline."""
    machine, rows, bars, number = None, [], [], 0
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                record = json.loads(line, parse_constant=int)  # int('NaN') is a ValueError: JSON has no NaN
                if machine is None:
                    machine = dict(record["machine"])
                elif "timeline" in record:
                    bars = [read_bar(bar) for bar in record["timeline"]]
                elif "end" not in record:
                    check_row(record)
                    rows.append(record)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"{path}, line {number}: this is not a line of the suite's JSON") from error
    if machine is None:
        raise Refused(f"{path}: it has no line of the suite's JSON")
    return machine, rows, bars
