#!/usr/bin/env python3
"""layers.py SRC BUILD OBJECTS...: checks that the folders of SRC depend on one another in one direction.

SRC/layers.txt lists the folders, lowest first. A file may use its own folder and the folders listed before that one.
Each OBJECTS is a folder with objects that BUILD made of SRC. The check fails if an #include or a linked symbol leads
to a folder listed later, or if files use one another in a circle. It also fails if a file outside of SRC/system includes
a header of the operating system, or asks the preprocessor which system it is.
"""
import json
import pathlib
import re
import subprocess
import sys

# Headers of C11 that have nothing of the operating system, and those of GPU runtimes.
STANDARD = {name + ".h" for name in
            "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp stdalign stdarg stdatomic "
            "stdbool stddef stdint stdio stdlib stdnoreturn string tgmath uchar wchar wctype".split()}
OF_FOLDERS = {"device": {"cuda.h", "cuda_runtime_api.h", "nvtx3/nvToolsExt.h"}}
SYSTEMS = re.compile(r"^[ \t]*#[^\n]*?\b(_*(?:linux|unix|sun|ANDROID|APPLE|MACH|GLIBC|CYGWIN|(?:Free|Net|Open)BSD"
                     r"|DragonFly|MINGW32|MINGW64)_*|_WIN32|_WIN64|_MSC_VER)\b", re.M)


class Tree:
    def __init__(self, src):
        lines = (src / "layers.txt").read_text().splitlines()
        self.src = src
        self.layers = [line for line in lines if line and not line.startswith("#")]

    def layer(self, file):
        """Returns the index of the file's folder."""
        return self.layers.index(pathlib.PurePath(file).parts[0])

    def arrow_up(self, user, used, how):
        """Yields a line if the arrow runs up."""
        if self.layer(used) > self.layer(user):
            yield f"{user} {how}, and {self.layers[self.layer(used)]} is above {self.layers[self.layer(user)]}"

    def files(self):
        """Returns the library's files. The package for Python is none of them: it uses the public headers alone."""
        files = (path.relative_to(self.src) for path in self.src.rglob("*.[ch]"))
        return sorted(str(file) for file in files if file.parts[0] != "python")

    def includes(self):
        for user in self.files():
            if pathlib.PurePath(user).parts[0] not in self.layers:
                sys.exit(f"{user} is in none of the folders of layers.txt")
            for name in re.findall(r'^#include "([^"]+)"', (self.src / user).read_text(), re.M):
                if (self.src / name).is_file():
                    yield from self.arrow_up(user, name, f"includes {name}")
                elif ((self.src / user).parent / name).is_file():
                    yield f"{user} includes {name} without naming its folder"

    def systems(self):
        """Yields a line for each sign of the operating system outside of its folder."""
        for user in self.files():
            folder = pathlib.PurePath(user).parts[0]
            if folder == "system":
                continue
            text = (self.src / user).read_text()
            for name in re.findall(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", text, re.M):
                if name not in STANDARD | OF_FOLDERS.get(folder, set()):
                    yield f"{user} includes <{name}>, which is for system/ alone"
            for name in SYSTEMS.findall(text):
                yield f"{user} tests {name}, which is for system/ alone"


def symbols(files):
    """Yields each object, with the global symbols that it defines, and those that it needs."""
    lines = subprocess.run(["nm", "-A", *files], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    pairs = {file: [] for file in map(str, files)}
    for line in lines:
        file, symbol = line.rsplit(":", 1)
        pairs[file].append(symbol.split()[-2:])
    for file, found in pairs.items():
        yield (file, {name for kind, name in found if kind in "BCDRTVW"}, {name for kind, name in found if kind == "U"})


def uses_of(tree, build, objects):
    """Returns for each source file the files that it uses, with the symbols."""
    source, owner, needed = {}, {}, {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        made = build / entry["output"]
        if made.parent in objects and made.is_file():
            source[str(made)] = str((build / entry["file"]).resolve().relative_to(tree.src))
    for made, defined, needed_here in symbols(source) if source else []:
        needed[source[made]] = needed_here
        owner.update(dict.fromkeys(defined, source[made]))
    uses = {user: {} for user in needed}
    for user, names in needed.items():
        for name in sorted(names):
            if owner.get(name, user) != user:
                uses[user].setdefault(owner[name], []).append(name)
    return uses


def circle(uses):
    """Returns the files that are in a circle, or between two circles."""
    left = {user: set(others) for user, others in uses.items()}
    while True:
        used = set().union(*left.values()) if left else set()
        ends = {user for user, others in left.items() if not others or user not in used}
        if not ends:
            return left
        left = {user: others - ends for user, others in left.items() if user not in ends}


def main():
    src, build, *objects = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    tree = Tree(src)
    uses = uses_of(tree, build, objects)
    wrong = list(tree.includes()) + list(tree.systems())
    for user, others in sorted(uses.items()):
        for used, names in sorted(others.items()):
            wrong += tree.arrow_up(user, used, f"uses {', '.join(names)} of {used}")
    for user, others in sorted(circle(uses).items()):
        for used in sorted(others):
            wrong.append(f"in a circle: {user} uses {', '.join(uses[user][used])} of {used}")
    if not uses:
        wrong.append(f"no object of {src} is in {', '.join(map(str, objects))}")
    print("\n".join(wrong) or f"{len(uses)} files in {len(tree.layers)} layers, no arrow up, no circle")
    sys.exit(bool(wrong))


main()
