"""
Draws the states of an object, and the transition of each access, from the table that the accessors use. TABLE is a
program that prints the table.

    states.py --check TABLE PICTURE     fails if the picture is not that of the table; used by the test
    states.py --update TABLE PICTURE    draws the picture
    states.py --update PICTURE          builds TABLE from test/spin/table.c and src/object/transitions.c and draws
"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # leaves no cache in the source tree
import picture

UN, CPU, GPU, SYN = range(4)  # the numbers of synced_mem_head_kind: bit 1 the host copy, bit 2 the device copy
NAMES = {UN: "UNINITIALIZED", CPU: "AT_CPU", GPU: "AT_GPU", SYN: "SYNCED"}

# ---- The table ----


def print_table(program):
    """Returns the output of the program, or of a program that is built here."""
    if program:
        return subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    root = picture.ROOT
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "table")
        subprocess.run([os.environ.get("CC", "cc"), f"-I{root}/src", f"-I{root}/include", f"{root}/test/spin/table.c",
                        f"{root}/src/object/transitions.c", "-o", program], check=True)
        return print_table(program)


def read_table(text):
    """Returns work and next head by head, side and mode. Heads are numbers, the others names."""
    number = {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)", text)}
    name_of = {"side": {number["CPU"]: "cpu", number["GPU"]: "gpu"},
               "mode": {number["READ"]: "read", number["MUTABLE"]: "mutable", number["OVERWRITE"]: "overwrite"},
               "work": {number["NOTHING"]: None, number["ZERO"]: "zeros", number["MOVE"]: "move"}}
    step = re.compile(r"\(state\) == (\d) && \(side\) == (\d) && \(mode\) == (\d) -> work = (\d); next = (\d)")
    return {(int(head), name_of["side"][int(side)], name_of["mode"][int(mode)]): (name_of["work"][int(work)], int(after))
            for head, side, mode, work, after in step.findall(text)}


def edges_of(table):
    """Returns the lines of text of each arrow, by head and next head. A line is a label and the work done."""
    steps = []
    for (head, side, mode), (work, after) in table.items():
        steps.append((head, after, f"{side} {mode}", {"move": "h2d" if side == "gpu" else "d2h"}.get(work, work)))
    # A push does the same as a read on the device, and fails if the host copy is stale. A pull is the mirror.
    for head in NAMES:
        for call, bit, side, transfer in ("push", CPU, "gpu", "h2d"), ("pull", GPU, "cpu", "d2h"):
            if head & bit:
                work, after = table[head, side, "read"]
                steps.append((head, after, call, transfer if work else None))
    edges = {}
    for head, after, label, work in steps:
        edges.setdefault((head, after), []).append((label, work))
    return edges


# ---- The picture ----

WIDTH, HEIGHT = 1160, 690
BOX_WIDTH, BOX_HEIGHT = 184, 76
CENTRES = {UN: (580, 58), CPU: (260, 310), GPU: (900, 310), SYN: (580, 560)}
LINE = 21  # of the labels
ADVANCE = 0.602 * picture.SIZE  # of a character

# The path of each arrow, the place of its label, and the part of the label at this place.
ARROWS = {
    (UN, CPU): ("M 510 97 L 305 268", (382, 142), "end"),
    (UN, GPU): ("M 650 97 L 855 268", (778, 142), "start"),
    (CPU, GPU): ("M 352 293 C 480 268 680 268 803 292", (580, 232), "middle"),
    (GPU, CPU): ("M 808 327 C 680 352 480 352 357 328", (580, 370), "middle"),
    (CPU, SYN): ("M 235 348 C 245 440 350 545 483 562", (258, 490), "end"),
    (GPU, SYN): ("M 925 348 C 915 440 810 545 677 562", (902, 490), "start"),
    (SYN, CPU): ("M 520 522 C 450 490 345 420 304 353", (432, 440), "start"),
    (SYN, GPU): ("M 640 522 C 710 490 815 420 856 353", (728, 440), "end"),
    (CPU, CPU): ("M 168 290 C 118 272 118 348 163 331", (122, 294), "end"),
    (GPU, GPU): ("M 992 290 C 1042 272 1042 348 997 331", (1038, 294), "start"),
    (SYN, SYN): ("M 558 598 C 542 644 618 644 603 603", (580, 660), "row"),
}
COLOURS = {"zeros": "#b45309", "h2d": "#1d4ed8", "d2h": "#15803d", None: "#374151"}

STYLE = "; text-anchor: middle", """.copy { font-size: 12px; text-anchor: middle }
.valid { fill: #ffffff }
.work { fill: #ffffff; font-size: 12px; text-anchor: middle }
"""


def text_width(label, work):
    """Returns the width of one line: the label, and a box with the work behind it."""
    return ADVANCE * len(label) + (ADVANCE * len(work) + 16 if work else 0)


def line_of_text(x, y, label, work):
    """Returns the line of one access and its work."""
    parts = [f'<text x="{x:.0f}" y="{y}">{label}</text>']
    if work:
        left = x + ADVANCE * len(label) + 8
        width = ADVANCE * len(work) + 8
        parts += [f'<rect x="{left:.0f}" y="{y - 12}" width="{width:.0f}" height="16" rx="4" fill="{COLOURS[work]}"/>',
                  f'<text class="work" x="{left + width / 2:.0f}" y="{y}">{work}</text>']
    return parts


def label_of(place, anchor, steps):
    """Returns the label of an arrow: a line for each access, or all in a row."""
    x, y = place
    if anchor == "row":
        label = ", ".join(label for label, work in steps)
        return line_of_text(x - text_width(label, None) / 2, y, label, None)
    parts = []
    for i, (label, work) in enumerate(steps):
        shift = {"start": 0, "middle": 0.5, "end": 1}[anchor] * text_width(label, work)
        parts += line_of_text(x - shift, y + i * LINE, label, work)
    return parts


def state(head):
    """Returns the box of a head: its name and the two copies, of which the valid ones are filled."""
    x, y = CENTRES[head]
    parts = [f'<rect x="{x - BOX_WIDTH // 2}" y="{y - BOX_HEIGHT // 2}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="10"'
             ' fill="#f9fafb" stroke="#374151" stroke-width="1.6"/>',
             f'<text class="name" x="{x}" y="{y - 9}">{NAMES[head]}</text>']
    for i, (copy, bit) in enumerate((("host", CPU), ("device", GPU))):
        left = x - 76 + i * 80
        fill = ' fill="#0f766e"' if head & bit else ' fill="none" stroke="#9ca3af" stroke-dasharray="3 3"'
        parts += [f'<rect x="{left}" y="{y + 3}" width="72" height="22" rx="5"{fill}/>',
                  f'<text class="copy{" valid" if head & bit else ""}" x="{left + 36}" y="{y + 18}">{copy}</text>']
    return parts


def legend():
    """Returns the meaning of the boxes."""
    lines = ["filled: this copy holds", "the current contents", ("zeros", "filled with zeros"),
             ("h2d", "host to device"), ("d2h", "device to host"), "else nothing is moved"]
    parts = []
    for i, line in enumerate(lines):
        y = HEIGHT - 128 + i * LINE
        if isinstance(line, str):
            parts.append(f'<text x="20" y="{y}">{line}</text>')
        else:
            parts += line_of_text(12, y, "", line[0])
            parts.append(f'<text x="{20 + ADVANCE * 5 + 16:.0f}" y="{y}">{line[1]}</text>')
    return parts


def draw(edges):
    """Returns the picture as text."""
    if set(edges) != set(ARROWS):
        sys.exit(f"states.py: these transitions have no arrow, or these arrows no transition: "
                 f"{sorted(set(edges) ^ set(ARROWS))}")
    parts = [part for head in NAMES for part in state(head)]
    for pair, (path, place, anchor) in ARROWS.items():
        parts.append(f'<path class="arrow" d="{path}"/>')
        parts += label_of(place, anchor, edges[pair])
    title = "States of an object: the next head and the work done, by access"
    return picture.svg("states", title, (WIDTH, HEIGHT), STYLE, parts + legend())


if __name__ == "__main__":
    picture.main("states", __doc__, lambda program: draw(edges_of(read_table(print_table(program)))))
