"""
Draws the layers of src/ from src/layers.txt, which the test of the layers reads.

    layers.py --check LAYERS PICTURE     tells whether the picture is that of the layers; the test
    layers.py --update LAYERS PICTURE    draws it
    layers.py --update PICTURE           the same, from src/layers.txt
"""
import html
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent

# ---- The layers ----


def read_layers(text):
    """Folders with a description each, lowest first. The description is the comment on the line before the folder."""
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
LEFT, BOX_WIDTH, BOX_HEIGHT, GAP = 70, 770, 48, 8  # of a layer
NAME, TEXT = 18, 130  # where they begin in a box
SIZE, LINE = 14, 18  # of the descriptions
COLUMNS = 74
ABOVE = "the program, by include/synced_mem.h"
BELOW = "Linux, and a GPU runtime: CUDA, the emulated one, or none"
LEGEND = "A file uses its own folder and the folders below it."

STYLE = f"""
text {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {SIZE}px; fill: #374151 }}
.name {{ font-size: 17px; font-weight: bold; fill: #111827 }}
.outside {{ text-anchor: middle }}
.arrow {{ fill: none; stroke: #6b7280; stroke-width: 1.6; marker-end: url(#head) }}
"""


def text_at(x, y, words, kind=None):
    kind = f' class="{kind}"' if kind else ""
    return f'<text{kind} x="{x}" y="{y}">{html.escape(words, quote=False)}</text>'


def box(y, height, look):
    return f'<rect x="{LEFT}" y="{y}" width="{BOX_WIDTH}" height="{height}" rx="8" {look}/>'


def layer(y, name, description):
    """A box with the folder's name and its description in one line or more."""
    lines = textwrap.wrap(description, COLUMNS)
    first = y + BOX_HEIGHT / 2 + 5 - (len(lines) - 1) * LINE / 2
    return [box(y, BOX_HEIGHT, 'fill="#f9fafb" stroke="#374151" stroke-width="1.6"'),
            text_at(LEFT + NAME, y + BOX_HEIGHT // 2 + 6, name + "/", "name"),
            *(text_at(LEFT + TEXT, f"{first + i * LINE:.0f}", line) for i, line in enumerate(lines))]


def outside(y, words):
    """A dashed box: no folder of src/."""
    return [box(y, 34, 'fill="none" stroke="#9ca3af" stroke-dasharray="4 4"'),
            text_at(LEFT + BOX_WIDTH // 2, y + 22, words, "outside")]


def draw(layers):
    """The picture, as text."""
    top = 16 + 34 + GAP
    bottom = top + len(layers) * (BOX_HEIGHT + GAP)
    height = bottom + 34 + 44
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
             "<!-- Drawn by docs/layers.py. -->",
             "<title>The layers of src/, the highest on top</title>",
             f"<style>{STYLE}</style>",
             '<defs><marker id="head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
             '<path d="M 0 1 L 9 5 L 0 9 z" fill="#6b7280"/></marker></defs>',
             f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    parts += outside(16, ABOVE)
    for i, (name, description) in enumerate(reversed(layers)):
        parts += layer(top + i * (BOX_HEIGHT + GAP), name, description)
    parts += outside(bottom, BELOW)
    parts += [text_at(14, top - 14, "uses"), f'<path class="arrow" d="M 34 {top} L 34 {bottom + 26}"/>',
              text_at(LEFT, height - 16, LEGEND), "</svg>"]
    return "\n".join(parts) + "\n"


def main(mode, *names):
    layers, picture = names if len(names) == 2 else (ROOT / "src/layers.txt", names[0])
    drawn = draw(read_layers(pathlib.Path(layers).read_text(encoding="utf-8")))
    path = pathlib.Path(picture)
    if mode == "--update":
        path.write_text(drawn, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != drawn:
        print(f"{picture} is not the picture of the layers: run docs/layers.py --update {picture}")
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("--check", "--update"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
