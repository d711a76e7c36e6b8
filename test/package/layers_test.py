#!/usr/bin/env python3
"""layers_test.py LAYERS: checks that the script LAYERS finds the errors in small trees, and no others."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

RIGHT = {
    "layers.txt": "# lowest first\nsystem\nlow\nhigh\n",
    "system/e.c": "#ifdef __linux__\n#include <unistd.h>\n#endif\nint e(void);\nint e(void)\n{\n    return 3;\n}\n",
    "low/a.h": "int a(void);\n",
    "low/a.c": '#include "low/a.h"\nint a(void)\n{\n    return 1;\n}\n',
    "low/c.c": "int c(void);\nint c(void)\n{\n    return 2;\n}\n",
    "high/b.c": '#include "low/a.h"\nint b(void);\nint b(void)\n{\n    return a();\n}\n',
}
UP = "int b(void);\nint c(void);\nint c(void)\n{\n    return b();\n}\n"
CIRCLE = '#include "low/a.h"\nint c(void);\nint c(void)\n{\n    return a();\n}\n'
CASES = [
    ({}, "4 files in 3 layers, no arrow up, no circle"),
    ({"low/c.c": UP}, "low/c.c uses b of high/b.c, and high is above low"),
    ({"high/b.h": "", "low/a.h": '#include "high/b.h"\nint a(void);\n'}, "low/a.h includes high/b.h"),
    ({"high/b.h": "", "high/d.h": '#include "b.h"\n'}, "high/d.h includes b.h without naming its folder"),
    ({"low/c.c": CIRCLE, "low/a.c": "int c(void);\nint a(void);\nint a(void)\n{\n    return c();\n}\n"},
     "in a circle: low/c.c uses a of low/a.c"),
    ({"low/d.h": "#include <unistd.h>\n"}, "low/d.h includes <unistd.h>, which is for system/ alone"),
    ({"high/d.h": "#if defined(_WIN32)\n#endif\n"}, "high/d.h tests _WIN32, which is for system/ alone"),
    ({"other/d.h": ""}, "other/d.h is in none of the folders of layers.txt"),
]


def check(layers, changes):
    """Runs the script on the tree with the changes; returns its output and exit status."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        commands = []
        (root / "build").mkdir()
        for name, text in {**RIGHT, **changes}.items():
            path = root / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if path.suffix == ".c":
                made = root / "build" / (name.replace("/", "_") + ".o")
                commands.append((path, made))
                entry = {"file": str(path), "output": made.name}
                commands[-1] += (entry,)
        for path, made, _ in commands:
            subprocess.run([os.environ.get("CC", "cc"), f"-I{root}/src", "-c", path, "-o", made], check=True)
        (root / "build/compile_commands.json").write_text(json.dumps([entry for *_, entry in commands]))
        return subprocess.run([sys.executable, layers, root / "src", root / "build", root / "build"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


failures = 0
for changes, words in CASES:
    answer = check(sys.argv[1], changes)
    if words not in answer.stdout or (answer.returncode == 0) != (not changes):
        failures += 1
        print(f"with {sorted(changes)} the status is {answer.returncode}, the output: {answer.stdout}")
sys.exit(failures > 0)
