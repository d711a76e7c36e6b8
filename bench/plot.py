"""
Draws pictures of a run of the suite, as SVG, from the suite's JSON.

    plot.py FILE FOLDER

Exit status: 0; 2 if FILE is not the suite's JSON, FOLDER can't be written to, or matplotlib is not installed.
"""
import math
import os
import sys

from rows import CLASSIC, LIMIT, OURS, Refused, read_run


def refuse(message):
    """Prints one line and ends the script."""
    print(f"plot.py: {message}", file=sys.stderr)
    sys.exit(2)


try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
except ImportError:
    refuse("matplotlib is not installed (Debian's package: python3-matplotlib)")

# A picture: the group of its rows, the file's name, the title, the kind of x, the unit of y, True for a logarithmic y,
# and its curves. A curve: the table of its rows, the owner of its figures (OURS, LIMIT or CLASSIC), and the label.
PICTURES = [
    ("transfers", "bandwidth-to-device", "Transfers to the device", "size", "GB/s", False,
     [("push", OURS, "push, page-locked"), ("push", LIMIT, "cudaMemcpyAsync, page-locked"),
      ("pageable-up", OURS, "gpu_data, pageable"), ("pageable-push", OURS, "push on a stream, pageable"),
      ("pageable-up", CLASSIC, "cudaMemcpy, pageable")]),
    ("transfers", "bandwidth-from-device", "Transfers from the device", "size", "GB/s", False,
     [("pull", OURS, "pull, page-locked"), ("pull", LIMIT, "cudaMemcpyAsync, page-locked"),
      ("pageable-down", OURS, "cpu_data, pageable"), ("pageable-pull", OURS, "pull on a stream, pageable"),
      ("pageable-down", CLASSIC, "cudaMemcpy, pageable")]),
    ("transfers", "bandwidth-both", "Both directions at once", "size", "GB/s, both together", False,
     [("both", OURS, "push and pull, page-locked"), ("both", LIMIT, "cudaMemcpyAsync on two streams, page-locked"),
      ("both", CLASSIC, "cudaMemcpy, page-locked, one after the other"),
      ("pageable-both", OURS, "pull and push, pageable"),
      ("pageable-both", CLASSIC, "cudaMemcpy, pageable, one after the other")]),
    ("transfers", "many", "Pushes of many objects, page-locked", "size", "µs an object", True,
     [("push-n", OURS, "one call"), ("push-each", OURS, "a call each"),
      ("push-n", LIMIT, "as many cudaMemcpyAsync"), ("push-n", CLASSIC, "as many cudaMemcpy")]),
    ("allocation", "allocation-first", "Page-locked memory, the first time", "size", "ms", True,
     [("pinned-first", OURS, "synced_mem"), ("pinned-first", LIMIT, "cudaHostRegister alone"),
      ("pinned-first", CLASSIC, "cudaMallocHost")]),
    ("allocation", "allocation-again", "Page-locked memory that was used before", "size", "µs a call", True,
     [("pool", OURS, "the pool alone, 1 thread"), ("pool", LIMIT, "malloc of 256 bytes"),
      ("pool-16", OURS, "the pool alone, 16 threads"), ("pool", CLASSIC, "cudaMallocHost"),
      ("pinned-again", OURS, "overwrite_cpu_data, 1 thread")]),
    ("allocation", "allocation-device", "Device memory", "size", "µs", True,
     [("device-again", OURS, "synced_mem, used before"), ("device-again", LIMIT, "cudaMallocFromPoolAsync"),
      ("device-first", OURS, "synced_mem, the first time"), ("device-again", CLASSIC, "cudaMalloc")]),
    ("allocation", "allocation-again-threads", "Page-locked memory used before, 64 KiB, by threads", "threads",
     "µs a call, the slowest thread", True,
     [("pinned-again-threads", OURS, "overwrite_cpu_data"),
      ("pinned-again-threads", LIMIT, "malloc of 256 bytes, one thread"),
      ("pinned-again-threads", CLASSIC, "cudaMallocHost, one thread")]),
    ("allocation", "allocation-device-threads", "Device memory used before, 64 KiB, by threads", "threads",
     "µs a call, the slowest thread", True,
     [("device-again-threads", OURS, "overwrite_gpu_data_on"),
      ("device-again-threads", LIMIT, "cudaMallocFromPoolAsync, as many threads"),
      ("device-again-threads", CLASSIC, "cudaMalloc, one thread")]),
    ("accessors", "accessors", "cpu_data with nothing to do", "threads", "calls a µs, all threads", False,
     [("threads-one", OURS, "one object"), ("threads-one", LIMIT, "one object, the equal call"),
      ("threads-apart", OURS, "an object each"), ("threads-one", CLASSIC, "one object, Caffe's class")]),
    ("life", "life", "Create, overwrite on the host, gpu_data, destroy", "size", "µs, without the fill", True,
     [("device", OURS, "synced_mem"), ("device", LIMIT, "the copy alone"),
      ("device", CLASSIC, "cudaMallocHost, cudaMalloc, cudaMemcpy")]),
    ("resize", "resize-host", "Resize to twice the size, contents kept on the host", "size", "µs", True,
     [("grow-host", OURS, "resize"), ("grow-host", LIMIT, "calloc and memcpy"),
      ("grow-host", CLASSIC, "another object")]),
    ("resize", "resize-device", "Resize to twice the size, contents kept on the device", "size", "µs", True,
     [("grow-device", OURS, "resize, and the wait for it"), ("grow-device", LIMIT, "a copy and a fill on the device"),
      ("grow-device", CLASSIC, "another object")]),
    ("overlap", "overlap", "A step: pushes beside kernels of their length", "size", "µs", True,
     [("fills", OURS, "push beside the kernels"), ("fills", LIMIT, "the larger of the two alone"),
      ("fills-by-hand", LIMIT, "by hand, with events"), ("fills", CLASSIC, "one after the other")]),
    ("scale", "scale", "Few objects and many", "objects", "ns an object", False,
     [("create", OURS, "create"), ("release", OURS, "release"),
      ("create", LIMIT, "malloc of 128 bytes"), ("release", LIMIT, "free")]),
    ("scale", "scale-trips", "4 KiB to the device and back", "objects", "µs a round trip", False,
     [("trip", OURS, "synced_mem"), ("trip", LIMIT, "cudaMemcpyAsync and waits"), ("trip", CLASSIC, "cudaMemcpy")]),
    ("scale", "scale-threads", "Create and release an object, by threads", "threads", "ns, the slowest thread", True,
     [("life-threads", OURS, "synced_mem"), ("life-threads", LIMIT, "malloc and free of 128 bytes"),
      ("life-threads", CLASSIC, "Caffe's object")]),
]

# ---- The figures ----


def read_figures(rows):
    """Returns the medians and quartiles: {(group, table, whose): {x: [median, lower, upper]}}."""
    names = "median", "lower_quartile", "upper_quartile"
    figures = {}
    for row in rows:
        for whose in OURS, LIMIT, CLASSIC:
            points = figures.setdefault((row["group"], row["table"], whose), {})
            if "median" in row.get(whose, {}):
                points[float(row["x"])] = [row[whose][name] for name in names]
    return figures


# ---- Curves: (whose, label, {x: [median, lower, upper]}) ----

# The library has strong colours, limits have greys, the classic way has warm colours.
COLOURS = {OURS: ["#0072b2", "#009e73", "#56b4e9"], LIMIT: ["#777777", "#b0b0b0", "#333333"],
           CLASSIC: ["#d55e00", "#e69f00", "#cc79a7"]}
MARKERS = "osD^vP"  # tell the curves apart without colours
HIDDEN = 0.03  # of the picture's height: curves nearer than this look like one


def medians(curves):
    return [values[0] for _, _, points in curves for values in points.values()]


def lies_on(points, reference, scale, height):
    """Returns whether two curves look like one at half of the first curve's points or more."""
    gaps = sorted(abs(scale(points[x][0]) - scale(reference[x][0])) for x in points)
    return gaps[(len(gaps) - 1) // 2] <= HIDDEN * height


def divide(curves, log_y):
    """Returns the curves divided by the first limit if another curve, not a limit, lies on it, else None."""
    reference = next((points for whose, _, points in curves if whose == LIMIT), {})
    if any(reference.get(x, [0])[0] <= 0 for _, _, points in curves for x in points):
        return None  # a point has nothing to be divided by
    scale = (lambda y: math.log(max(y, 1e-12))) if log_y else float
    height = scale(max(medians(curves))) - (scale(min(medians(curves))) if log_y else 0)
    if not any(lies_on(points, reference, scale, height) for whose, _, points in curves if whose != LIMIT):
        return None
    return [(whose, f"reference: {label}" if points is reference else label,
             {x: [value / reference[x][0] for value in points[x]] for x in points}) for whose, label, points in curves]


def draw_curve(axes, curves, i):
    """Draws a curve. Limits are broad and pale, so that they show below another curve."""
    whose, label, points = curves[i]
    nth = [curve[0] for curve in curves[:i]].count(whose)
    width, size, alpha, order = (4, 7, 0.6, 2) if whose == LIMIT else (1.6, 5, 1, 3)
    bars = [[max(median - lower, 0) for median, lower, _ in points.values()],
            [max(upper - median, 0) for median, _, upper in points.values()]]
    axes.errorbar(list(points), medians([curves[i]]), bars, capsize=3, marker=MARKERS[i], color=COLOURS[whose][nth % 3],
                  label=label if whose == OURS else f"{label} ({whose})", linewidth=width, markersize=size, alpha=alpha,
                  zorder=order)


def size_name(size, _):
    power = int(math.log2(max(size, 1))) // 10
    return f"{size / 1024 ** power:g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def set_x_axis(axes, along, places):
    base, step = {"size": (2, 4), "threads": (2, 2), "objects": (10, 10)}[along]
    axes.set_xscale("log", base=base)
    axes.set_xlim(min(places) / base ** 0.25, max(places) * base ** 0.25)
    axes.xaxis.set_major_locator(FixedLocator([step ** power for power in range(16)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(size_name if along == "size" else lambda x, _: f"{x:,.0f}"))
    axes.set_xlabel(f"{along} (medians; bars: from quartile to quartile)")


def set_y_axis(axes, is_ratio, log_y, heights):
    span = max(heights) / min(heights) if min(heights) > 0 else math.inf
    if log_y and 10 < span < math.inf:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < 500 else (1,)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif is_ratio:
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.9), max(high, 1.1))
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.6g}"))


def draw_curves(title, along, across, log_y, curves):
    divided = divide(curves, log_y)
    curves = divided or curves
    figure = Figure(figsize=(9, 5.2))
    figure.subplots_adjust(left=0.12, right=0.96, top=0.92, bottom=0.14 + 0.043 * len(curves))
    axes = figure.add_subplot(title=title, ylabel=f"{across} ÷ reference" if divided else across)
    for i in range(len(curves)):
        draw_curve(axes, curves, i)
    set_x_axis(axes, along, [x for _, _, points in curves for x in points])
    set_y_axis(axes, divided, log_y, medians(curves))
    figure.legend(loc="lower center")
    return figure


# ---- The timeline ----


def draw_timeline(bars):
    """Draws a row of pushes and a row of kernels, with a bar for each step in the colour of its batch."""
    last = max(end for _, _, _, end in bars)
    unit, name = (1000, "ms") if last > 5000 else (1, "µs")
    colours = ["#0072b2", "#e69f00"]
    figure = Figure(figsize=(9, 2.6))
    figure.subplots_adjust(left=0.09, right=0.97, top=0.86, bottom=0.22)
    axes = figure.add_subplot(xlim=(0, last / unit), xlabel=f"time ({name})")
    for what, step, begin, end in bars:
        row = 1 if what == "push" else 0
        axes.barh(row, (end - begin) / unit, 0.64, begin / unit, color=colours[step % 2], edgecolor="white")
        axes.text((begin + end) / 2 / unit, row, str(step), color="white", ha="center", va="center")
    axes.set_yticks([0, 1], ["kernels", "pushes"])
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    figure.legend([Patch(color=colour) for colour in colours], ["even batch", "odd batch"], loc="upper right", ncol=2)
    return figure


# ---- The files ----

STYLE = {"svg.hashsalt": "synced_mem", "svg.fonttype": "none", "font.size": 11, "axes.titlesize": 11, "axes.grid": True,
         "grid.color": "#dddddd", "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
         "xtick.labelsize": 10, "ytick.labelsize": 10, "legend.frameon": False}


def save(figure, folder, name):
    path = os.path.join(folder, f"{name}.svg")
    try:
        figure.savefig(path, metadata={"Date": None, "Creator": None})
    except OSError as error:
        refuse(f"{path}: {error.strerror}")
    print(f"  {path}")


def main(path, folder):
    try:
        machine, rows, bars = read_run(path)
    except Refused as refused:
        refuse(refused)
    figures = read_figures(rows)
    remark = " (quick run)" if machine.get("quick") else ""
    remark = " (emulated: the figures mean nothing)" if machine.get("emulated") else remark
    matplotlib.rcdefaults()  # the pictures do not depend on a user's settings
    matplotlib.rcParams.update(STYLE)
    print("\nPictures")
    for group, name, title, along, across, log_y, series in PICTURES:
        curves = [(whose, label, figures.get((group, table, whose), {})) for table, whose, label in series]
        curves = [curve for curve in curves if len(curve[2]) > 1]
        if curves:
            save(draw_curves(title + remark, along, across, log_y, curves), folder, name)
        elif any(key[0] == group for key in figures):
            print(f"  {name}: skipped: too few rows were measured")
    if bars:
        save(draw_timeline(bars), folder, "timeline")
    else:
        print("  timeline: skipped: no training overlapped on a GPU")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        refuse("usage: plot.py FILE FOLDER")
    main(*sys.argv[1:])
