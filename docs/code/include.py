"""
Copies code into the pages. A page marks each place with two comments:

    <!-- code: docs/code/blob.c#make -->
    <!-- end -->

The lines between them are copied from that file, from between its comments [make] and [end]. Without #make the whole
file is copied.

    include.py --check [ROOT]     lists the pages that differ from the code; the test "docs" runs it
    include.py --update [ROOT]    updates the pages
"""
import pathlib
import re
import sys
import textwrap

LANGUAGES = {".c": "c", ".h": "c", ".cpp": "cpp", ".hpp": "cpp", ".build": "meson", ".py": "python"}
BEGIN = re.compile(r"^<!-- code: (?P<file>[^ #]+)(?:#(?P<section>\w+))? -->$")
END = "<!-- end -->"


class Mistake(Exception):
    """An error in a page, or in a file that the page names."""


def marker(line):
    """Returns the name in a line like /* [name] */ or // [name], or None."""
    match = re.fullmatch(r"\s*(?:/\* \[(\w+)\] \*/|(?://|#) \[(\w+)\])\s*", line)
    return match and (match[1] or match[2])


def section_of(path, name):
    """Returns a section's lines without their common indentation. Sections do not nest. None names the whole file."""
    if not path.is_file():
        raise Mistake(f"{path}: no such file")
    lines = path.read_text(encoding="utf-8").splitlines()
    if name is None:
        return [line for line in lines if marker(line) is None]
    inside, found = False, []
    for line in lines:
        mark = marker(line)
        if mark == name:
            inside = True
        elif inside and mark == "end":
            return textwrap.dedent("\n".join(found)).splitlines()
        elif inside:
            found.append(line)
    raise Mistake(f"{path}: section [{name}] has no end" if inside else f"{path}: no section [{name}]")


def included(root, file, section):
    """Returns the lines that belong between the two comments of a page."""
    path = root / file
    return [f"```{LANGUAGES.get(path.suffix, '')}", *section_of(path, section), "```"]


def with_code(root, page):
    """Returns the lines of the page, with the current code."""
    lines, result, i = page.read_text(encoding="utf-8").splitlines(), [], 0
    while i < len(lines):
        result.append(lines[i])
        begin = BEGIN.match(lines[i])
        i += 1
        if not begin:
            continue
        result += included(root, begin["file"], begin["section"])
        while i < len(lines) and lines[i] != END:
            if BEGIN.match(lines[i]):
                break
            i += 1
        if i == len(lines) or lines[i] != END:
            raise Mistake(f"{page}: no '{END}' after '{begin[0]}'")
    return result


def first_difference(page, wanted):
    """Returns a message about the first line of the page that differs, or None."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, (line, want) in enumerate(zip(lines + [""] * len(wanted), wanted + [""] * len(lines)), 1):
        if line != want:
            return f"{page}:{number}: '{line}', the code says '{want}': run docs/code/include.py --update"
    return None


def main(mode, root="."):
    root = pathlib.Path(root)
    mistakes = []
    for page in sorted([root / "README.md", *root.glob("docs/**/*.md")]):
        try:
            wanted = with_code(root, page)
        except Mistake as mistake:
            mistakes.append(str(mistake))
            continue
        if mode == "--update":
            page.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        elif difference := first_difference(page, wanted):
            mistakes.append(difference)
    print("\n".join(mistakes), end="\n" if mistakes else "")
    return 1 if mistakes else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("--check", "--update"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
