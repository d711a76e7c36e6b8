"""
Draws the layers of src/ from src/layers.txt, which the test of the layers reads.

    layers.py --check LAYERS PICTURE     fails if the picture is not that of the layers; used by the test
    layers.py --update LAYERS PICTURE    draws the picture
    layers.py --update PICTURE           draws the picture of src/layers.txt
"""
import html
import pathlib
import sys
import textwrap

sys.dont_write_bytecode = True  # leaves no cache in the source tree
import picture

# ---- The layers ----


def read_layers(text):
    """Returns the folders, lowest first, each with its description: the comment on the line before the folder."""
    layers, comment = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            comment = line[1:].strip()
        elif line.strip():
            if not comment:
                sys.exit(f"layers.py: line {number}: no comment before '{line}' describes it")
            layers.append((line.strip(), comment))
            comment = None
        else:
            comment = None
    return layers


# ---- The picture ----

WIDTH = 860
LEFT, BOX_WIDTH, BOX_HEIGHT, GAP = 70, 770, 48, 8  # the box of a layer
NAME, TEXT = 18, 130  # their left ends in a box
LINE, COLUMNS = 18, 74  # of the descriptions
ABOVE = "the program, by include/synced_mem.h"
BELOW = "Linux, and a GPU runtime: CUDA, the emulated one, or none"
LEGEND = "A file uses its own folder and the folders below it."

STYLE = "", ".outside { text-anchor: middle }\n"


def text_at(x, y, words, kind=None):
    kind = f' class="{kind}"' if kind else ""
    return f'<text{kind} x="{x}" y="{y}">{html.escape(words, quote=False)}</text>'


def box(y, height, look):
    return f'<rect x="{LEFT}" y="{y}" width="{BOX_WIDTH}" height="{height}" rx="8" {look}/>'


def layer(y, name, description):
    """Returns a box with the folder's name and its description in one or more lines."""
    lines = textwrap.wrap(description, COLUMNS)
    first = y + BOX_HEIGHT / 2 + 5 - (len(lines) - 1) * LINE / 2
    return [box(y, BOX_HEIGHT, 'fill="#f9fafb" stroke="#374151" stroke-width="1.6"'),
            text_at(LEFT + NAME, y + BOX_HEIGHT // 2 + 6, name + "/", "name"),
            *(text_at(LEFT + TEXT, f"{first + i * LINE:.0f}", line) for i, line in enumerate(lines))]


def outside(y, words):
    """Returns a dashed box, which is no folder of src/."""
    return [box(y, 34, 'fill="none" stroke="#9ca3af" stroke-dasharray="4 4"'),
            text_at(LEFT + BOX_WIDTH // 2, y + 22, words, "outside")]


def draw(layers):
    """Returns the picture as text."""
    top = 16 + 34 + GAP
    bottom = top + len(layers) * (BOX_HEIGHT + GAP)
    height = bottom + 34 + 44
    parts = outside(16, ABOVE)
    for i, (name, description) in enumerate(reversed(layers)):
        parts += layer(top + i * (BOX_HEIGHT + GAP), name, description)
    parts += outside(bottom, BELOW)
    parts += [text_at(14, top - 14, "uses"), f'<path class="arrow" d="M 34 {top} L 34 {bottom + 26}"/>',
              text_at(LEFT, height - 16, LEGEND)]
    return picture.svg("layers", "The layers of src/, the highest on top", (WIDTH, height), STYLE, parts)


def draw_file(layers):
    path = pathlib.Path(layers) if layers else picture.ROOT / "src/layers.txt"
    return draw(read_layers(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    picture.main("layers", __doc__, draw_file)
