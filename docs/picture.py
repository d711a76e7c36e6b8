"""
Code shared by the scripts that draw pictures for the documents: the frame of an SVG picture, and the command line.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE = 14  # of the font

STYLE = f"""
text {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {SIZE}px; fill: #374151 }}
.name {{ font-size: 17px; font-weight: bold; fill: #111827%s }}
%s.arrow {{ fill: none; stroke: #6b7280; stroke-width: 1.6; marker-end: url(#head) }}
"""


def svg(script, title, size, style, parts):
    """Returns the picture as text. size: width and height; style: the end of the rule .name, and rules after it."""
    width, height = size
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            f"<!-- Drawn by docs/{script}.py. -->",
            f"<title>{title}</title>",
            f"<style>{STYLE % style}</style>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M 0 1 L 9 5 L 0 9 z" fill="#6b7280"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def main(script, usage, draw):
    """Runs the command line and ends the script. draw: returns the picture of a source; None is the default source."""
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("--check", "--update"):
        sys.exit(usage)
    mode, *source, picture = sys.argv[1:]
    drawn = draw(source[0] if source else None)
    path = pathlib.Path(picture)
    if mode == "--update":
        path.write_text(drawn, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != drawn:
        print(f"{picture} is out of date: run docs/{script}.py --update {picture}")
        sys.exit(1)
