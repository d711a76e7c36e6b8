"""
Computes how long a training step takes with 1 to 1,024 GPUs, from figures that the trainer has measured.

    how_far.py [--json FILE] [--picture FILE] [--efficiency X] PROFILE...

PROFILE is a file of "bench/run --profile". Files of the same device, model and rows belong together; one of a single
rank and one of several are enough. Prints tables in Markdown. --json writes all figures, --picture draws them as SVG.
--efficiency is the part of a network's nominal rate that the reductions get, an assumption. docs/how-far.md states the
formulas and their sources.

Exit status: 0; 2 for a wrong argument or file.
"""
import argparse
import json
import math
import sys

HOST = 8  # GPUs of a host
COUNTS = [2 ** power for power in range(11)]

# Networks: the name, and the nominal rate of all links of a host, in Gbit/s.
NETWORKS = [("100 Gbit/s a host", 100), ("400 Gbit/s a host", 400), ("400 Gbit/s a GPU", 400 * HOST)]

# Assumptions, in ms: the latencies of a step over NVLink and between hosts, by which NCCL 2.30 chooses an algorithm
# (src/graph/tuning.cc, ncclTunerConstantsDefaults: ring, and ring and tree, each for the protocol Simple).
STEP_INSIDE = 3.4e-3
STEP_BETWEEN = 14.0e-3


class Refused(Exception):
    """A message for the user."""


# ---- Profiles ----


def take(record, name, kind, where):
    """Returns a member of a record, which must be of this kind."""
    if not isinstance(record, dict) or name not in record:
        raise Refused(f"{where}: \"{name}\" is missing")
    value = record[name]
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise Refused(f"{where}: \"{name}\" is not a number from 0 on")
        return float(value)
    if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 1)):
        raise Refused(f"{where}: \"{name}\" is not {'a whole number from 1 on' if kind is int else kind.__name__}")
    return value


def take_median(record, name, where):
    return take(take(record, name, dict, where), "median", float, f"{where}: \"{name}\"")


def take_list(record, name, where):
    items = take(record, name, list, where)
    if not items:
        raise Refused(f"{where}: \"{name}\" is empty")
    return [(item, f"{where}: \"{name}\", item {i}") for i, item in enumerate(items, 1)]


def take_step(record, name, where):
    """Returns the median of a kind of steps, and its share that is not hidden."""
    kind, inside = take(record, name, dict, where), f"{where}: \"{name}\""
    milliseconds = take_median(kind, "ms", inside)
    if milliseconds <= 0:
        raise Refused(f"{inside}: \"ms\" is 0")
    characters = take(kind, "characters_per_second", float, inside)
    share = None
    if name != "alone":
        share = take(kind, "share_not_hidden", dict, inside).get("median")  # disturbed steps can make it negative
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not math.isfinite(share):
            raise Refused(f"{inside}: \"share_not_hidden\" has no median")
    return {"ms": milliseconds, "share": share, "characters_per_second": characters}


def read_profile(path):
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Refused(f"{path}: this is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("profile") != 1:
        raise Refused(f"{path}: this is no file of --profile")
    ranks = take(record, "ranks", int, path)
    profile = {
        "path": path, "ranks": ranks, "rows": take(record, "rows", int, path),
        "device": take(record, "device", str, path), "on_gpu": take(record, "on_gpu", bool, path),
        "reducer": take(record, "reducer", str, path), "model": take(record, "model", dict, path),
        "bucket_bytes": take(record, "bucket_bytes", int, path), "alone": take_step(record, "alone", path),
        "forward": sum(take_median(item, "ms", where) for item, where in take_list(record, "forward", path)),
        "backward": [(take(item, "name", str, where), take(item, "bytes", int, where), take_median(item, "ms", where))
                     for item, where in take_list(record, "backward", path)],
        "optimizer": take_median(take(record, "optimizer", dict, path), "ms", f"{path}: \"optimizer\""),
    }
    if ranks > 1:
        profile["overlapped"] = take_step(record, "overlapped", path)
        profile["after"] = take_step(record, "after", path)
        profile["reductions"] = [(take(item, "bytes", int, where), take_median(item, "ms", where))
                                 for item, where in take_list(record, "reductions", path)]
        flat, where = take(record, "flat", dict, path), f"{path}: \"flat\""
        profile["flat"] = {"bytes": take(flat, "bytes", int, where),
                           **{name: take_median(flat, name, where) for name in ("library_ms", "plain_ms", "ratio")}}
    return profile


def group_profiles(profiles):
    """Returns lists of profiles of the same device, model and rows, the fewest ranks first."""
    groups = {}
    for profile in profiles:
        device = profile["device"].split(" (GPU")[0]
        key = device, json.dumps(profile["model"], sort_keys=True), profile["rows"]
        groups.setdefault(key, []).append(profile)
    for group in groups.values():
        group.sort(key=lambda profile: profile["ranks"])
        for one, other in zip(group, group[1:]):
            if one["ranks"] == other["ranks"]:
                raise Refused(f"{other['path']}: of as many ranks as {one['path']}")
    return list(groups.values())


# ---- Reductions: sizes in bytes, times in ms ----


def wire_factor(ranks):
    """The bytes that a rank sends in an all-reduce, by the bytes that are reduced."""
    return 2 * (ranks - 1) / ranks


def read_link(profile):
    """Returns the link between ranks of a host, from the measured reductions. A time is at most that of a larger size:
    one that is longer was disturbed."""
    ranks, points = profile["ranks"], sorted(profile["reductions"])
    if len({size for size, _ in points}) < len(points) or len(points) < 2 or points[0][1] <= 0:
        raise Refused(f"{profile['path']}: \"reductions\" needs two sizes or more, each once, and none in no time")
    for i in reversed(range(len(points) - 1)):
        points[i] = points[i][0], min(points[i][1], points[i + 1][1])
    latency, steps = points[0][1], 2 * (ranks - 1)
    step = min(STEP_INSIDE, latency / steps) if profile["on_gpu"] else latency / steps
    return {"ranks": ranks, "points": points, "latency": latency, "step": step,
            "bytes_per_ms": wire_factor(ranks) * points[-1][0] / points[-1][1]}


def interpolate(points, size):
    """Returns the time of a size between two measured ones. A larger one has the bandwidth of the largest."""
    if size <= points[0][0]:
        return points[0][1]
    for (below, fast), (above, slow) in zip(points, points[1:]):
        if size <= above:
            return fast + (slow - fast) * (size - below) / (above - below)
    return points[-1][1] * size / points[-1][0]


def ring_inside(link, ranks, size):
    """A ring within a host: the measured time for as many bytes on the wire, and the latency of more steps."""
    same = size * wire_factor(ranks) / wire_factor(link["ranks"])
    return interpolate(link["points"], same) + 2 * (ranks - link["ranks"]) * link["step"]


def best_between(hosts, size, bytes_per_ms):
    """The better one of a ring and a tree between hosts."""
    ring = 2 * (hosts - 1) * STEP_BETWEEN + wire_factor(hosts) * size / bytes_per_ms
    tree = 2 * math.ceil(math.log2(hosts)) * STEP_BETWEEN + 2 * size / bytes_per_ms
    return min(ring, tree)


def all_reduce(link, ranks, size, network=None, host=HOST):
    """Returns the time of an all-reduce. network: the bytes per ms that a host sends; None: all ranks are in a host."""
    if ranks == 1:
        return 0.0
    if network is None or ranks <= host:
        return ring_inside(link, ranks, size)
    return ring_inside(link, host, size) + best_between(ranks / host, size, network)


# ---- A step: times in ms ----


def make_buckets(backward, bucket_bytes):
    """Returns the time from the begin of the backward pass to the last gradient of each bucket, and its bytes."""
    buckets, now, size = [], 0.0, 0
    for i, (_, gradient, milliseconds) in enumerate(backward, 1):
        now += milliseconds
        size += gradient
        if size >= bucket_bytes or i == len(backward):
            buckets.append((now, size))
            size = 0
    return buckets


def scale_parts(profile):
    """Returns the parts of a step, with the sum of the measured step. Marks between the parts take time, so parts that
    take longer than the step are scaled. The time of a step that is in no part is before the others."""
    backward = sum(milliseconds for _, _, milliseconds in profile["backward"])
    total = profile["forward"] + backward + profile["optimizer"]
    scale = min(1.0, profile["alone"]["ms"] / total) if total > 0 else 1.0
    return {"forward": profile["forward"] * scale + profile["alone"]["ms"] - total * scale,
            "backward": [(name, size, milliseconds * scale) for name, size, milliseconds in profile["backward"]],
            "optimizer": profile["optimizer"] * scale}


def simulate(parts, bucket_bytes, time_of):
    """Returns a step's time, the time that reductions add to it, and that of the reductions. time_of(bytes): of one.

    A reduction begins when its last gradient is made and the reduction before it is done. The optimizer takes the
    buckets in order, each when it is reduced."""
    buckets = make_buckets(parts["backward"], bucket_bytes)
    everything = sum(size for _, size in buckets)
    alone = parts["forward"] + buckets[-1][0] + parts["optimizer"]
    stream, optimizer, reductions = 0.0, parts["forward"] + buckets[-1][0], 0.0
    ends = []
    for made, size in buckets:
        took = time_of(size)
        stream = max(stream, parts["forward"] + made) + took
        reductions += took
        ends.append(stream)
    for (_, size), end in zip(buckets, ends):
        optimizer = max(optimizer, end) + parts["optimizer"] * size / everything
    return {"ms": optimizer, "added_ms": max(0.0, optimizer - alone), "reductions_ms": reductions, "alone_ms": alone}


# ---- Results ----


def predict_measured(group, link):
    """Returns the steps of each profile, measured and predicted."""
    rows, parts = [], scale_parts(group[0])
    for profile in group:
        ranks = profile["ranks"]
        row = {"ranks": ranks, "alone_ms": profile["alone"]["ms"], "characters_per_second":
               profile["overlapped" if ranks > 1 else "alone"]["characters_per_second"]}
        row["predicted_alone_ms"] = group[0]["alone"]["ms"]
        if profile is group[0]:
            row["parts_ms"] = (profile["forward"] + sum(part[2] for part in profile["backward"]) + profile["optimizer"])
        for kind, size in (("overlapped", profile["bucket_bytes"]), ("after", math.inf)) if ranks > 1 else ():
            step = simulate(parts, size, lambda size: all_reduce(link, profile["ranks"], size))
            row[kind] = {"measured_ms": profile[kind]["ms"], "predicted_ms": step["ms"],
                         "measured_share": profile[kind]["share"], "predicted_share": step["added_ms"] / step["ms"]}
        if ranks > 1:
            row["flat"] = profile["flat"]
            if group[0]["ranks"] == 1:
                row["speedup"] = row["characters_per_second"] / rows[0]["characters_per_second"]
        rows.append(row)
    return rows


def predict_cluster(profile, link, gigabits, efficiency):
    """Returns the step for each number of GPUs."""
    network = gigabits * efficiency * 1e9 / 8 / 1e3
    parts, rows = scale_parts(profile), []
    for ranks in COUNTS:
        step = simulate(parts, profile["bucket_bytes"], lambda size: all_reduce(link, ranks, size, network))
        share = step["added_ms"] / step["reductions_ms"] if step["reductions_ms"] > 0 else 0.0
        characters = 1e3 * ranks * profile["rows"] / step["ms"]
        rows.append({"gpus": ranks, "ms": step["ms"], "characters_per_second": characters,
                     "efficiency": step["alone_ms"] / step["ms"], "not_hidden": share})
    return rows


def compute_group(group, efficiency):
    first = group[0]
    result = {"device": first["device"], "model": first["model"], "rows": first["rows"],
              "bucket_bytes": first["bucket_bytes"], "files": [profile["path"] for profile in group]}
    several = next((profile for profile in group if profile["ranks"] > 1), None)
    link = read_link(several) if several else None
    result["reducer"] = several["reducer"] if several else None
    result["link"] = link
    result["measured"] = predict_measured(group, link)
    if link and first["on_gpu"]:
        result["clusters"] = [{"network": name, "gbit_per_host": gigabits,
                               "steps": predict_cluster(first, link, gigabits, efficiency)}
                              for name, gigabits in NETWORKS]
    return result


# ---- Tables ----


def print_table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def percent(share):
    return "" if share is None else f"{100 * share:.1f} %"


def print_measured(rows):
    cells = []
    for row in rows:
        alone = row.get("parts_ms", row["predicted_alone_ms"])
        words = "sum of the parts" if "parts_ms" in row else f"as {rows[0]['ranks']} rank{'s' * (rows[0]['ranks'] > 1)}"
        cells.append([str(row["ranks"]), "no reductions", f"{alone:.4g} ({words})", f"{row['alone_ms']:.4g}",
                      f"{100 * (alone / row['alone_ms'] - 1):+.1f} %", "", ""])
        for kind, words in ("overlapped", "buckets beside the backward pass"), ("after", "one reduction after it"):
            if kind in row:
                step = row[kind]
                cells.append([str(row["ranks"]), words, f"{step['predicted_ms']:.4g}", f"{step['measured_ms']:.4g}",
                              f"{100 * (step['predicted_ms'] / step['measured_ms'] - 1):+.1f} %",
                              percent(step["predicted_share"]), percent(step["measured_share"])])
    print_table(["ranks", "step", "predicted, ms", "measured, ms", "difference", "not hidden, predicted",
                 "not hidden, measured"], cells)
    flats = [row for row in rows if "flat" in row]
    if flats:
        print_table(["ranks", "characters/s", "by those of 1 rank", "all gradients by the library's pointers, ms",
                     "in other memory, ms", "ratio"],
                    [[str(row["ranks"]), f"{row['characters_per_second']:,.0f}",
                      f"{row['speedup']:.3f}" if "speedup" in row else "",
                      *(f"{row['flat'][name]:.4g}" for name in ("library_ms", "plain_ms", "ratio"))] for row in flats])


def print_group(result, efficiency):
    model, link = result["model"], result["link"]
    print(f"\n## {result['device']}, hidden layers: {model.get('layers')} of {model.get('hidden')}, "
          f"{result['rows']:,} rows a rank\n\n"
          f"Buckets of {result['bucket_bytes']:,} bytes. Files: {', '.join(result['files'])}.")
    if link:
        print(f"{result['reducer']} between {link['ranks']} ranks: {1e3 * link['latency']:.3g} µs for "
              f"{link['points'][0][0]:,} bytes, {link['bytes_per_ms'] / 1e6:.4g} GB/s of bus bandwidth for "
              f"{link['points'][-1][0]:,}.")
    print("\n### Predicted beside measured")
    print_measured(result["measured"])
    for cluster in result.get("clusters", []):
        rate = f"{100 * efficiency:g} % of the nominal rate"
        print(f"\n### {HOST} GPUs a host, {cluster['network']} (predicted, {rate})")
        print_table(["GPUs", "step, ms", "characters/s", "efficiency", "reductions not hidden"],
                    [[f"{row['gpus']:,}", f"{row['ms']:.4g}", f"{row['characters_per_second']:,.0f}",
                      percent(row["efficiency"]), percent(row["not_hidden"]) if row["gpus"] > 1 else ""]
                     for row in cluster["steps"]])


# ---- The picture ----

STYLE = {"svg.hashsalt": "synced_mem", "svg.fonttype": "none", "font.size": 11, "axes.titlesize": 11, "axes.grid": True,
         "grid.color": "#dddddd", "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
         "legend.frameon": False}
COLOURS = ["#d55e00", "#0072b2", "#009e73"]


def draw_picture(results, path):
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, NullLocator
    except ImportError as error:
        raise Refused("matplotlib is not installed (Debian's package: python3-matplotlib)") from error
    results = [result for result in results if "clusters" in result]
    if not results:
        raise Refused("--picture: there are no profiles of several GPUs")
    matplotlib.rcdefaults()
    matplotlib.rcParams.update(STYLE)
    figure = Figure(figsize=(9, 1.2 + 3.6 * len(results)))
    for i, result in enumerate(results, 1):
        model = result["model"]
        axes = figure.add_subplot(len(results), 1, i, ylabel="efficiency", ylim=(0, 1.05),
                                  title=f"{result['device'].split(' (')[0]}, {model.get('layers')} × "
                                        f"{model.get('hidden')}, {result['rows']:,} rows a GPU")
        for cluster, colour, marker in zip(result["clusters"], COLOURS, "osD"):
            axes.plot([row["gpus"] for row in cluster["steps"]], [row["efficiency"] for row in cluster["steps"]],
                      color=colour, marker=marker, label=f"{cluster['network']} (predicted)")
        measured = [(row["ranks"], row["speedup"] / row["ranks"]) for row in result["measured"] if "speedup" in row]
        if measured:
            axes.plot(*zip(*measured), "k*", markersize=12, label="measured")
        axes.set_xscale("log", base=2)
        axes.set_xticks(COUNTS)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        axes.set_xlabel("GPUs, 8 a host")
        axes.legend(loc="lower left")
    figure.tight_layout()
    try:
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


# ---- The command ----


def parse_efficiency(text):
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError
    return value


def main():
    parser = argparse.ArgumentParser(prog="how_far.py", usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("profiles", nargs="+")
    parser.add_argument("--json")
    parser.add_argument("--picture")
    parser.add_argument("--efficiency", type=parse_efficiency, default=0.9)
    arguments = parser.parse_args()
    try:
        groups = group_profiles([read_profile(path) for path in arguments.profiles])
        results = [compute_group(group, arguments.efficiency) for group in groups]
        for result in results:
            print_group(result, arguments.efficiency)
        if arguments.json:
            try:
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump({"efficiency": arguments.efficiency, "groups": results}, file, indent=1)
                    file.write("\n")
            except OSError as error:
                raise Refused(f"{arguments.json}: {error.strerror}") from error
        if arguments.picture:
            draw_picture(results, arguments.picture)
    except Refused as error:
        print(f"how_far.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
