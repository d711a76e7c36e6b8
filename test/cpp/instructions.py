"""
instructions.py OBJDUMP C-ARCHIVE C++-ARCHIVE: fails unless each function of the first archive has the same instructions in
the second. The names of functions that report a failure may differ, as may the order of functions.
"""
import re
import subprocess
import sys


def functions_of(objdump, path):
    """Returns the instructions of each function of hot.h, its cold part included, with the names of what they call."""
    command = [objdump, "-dr", "--no-show-raw-insn", "-C", path]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {}
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        name = lines and re.match(r"[0-9a-f]+ <(hot_\w+)((?:\.\w+)*)>:$", lines[0])
        if not name:
            continue
        begin = int(lines[0].split()[0], 16)
        for line in lines[1:]:
            if instruction := readable(line, begin):
                found.setdefault((name[1], name[2]), []).append(instruction)
    return found


def readable(line, begin):
    """Returns an instruction with its targets relative to the function, or a relocation with its symbol's kind."""
    if relocation := re.match(r"\s+[0-9a-f]+: (R_\w+)\s+(.*)", line):
        symbol = relocation[2]
        return relocation[1] + (" " + symbol if symbol.startswith("synced_mem_") else " other")
    parts = line.split(":", 1)
    if len(parts) < 2 or not re.fullmatch(r"\s*[0-9a-f]+", parts[0]):
        return None
    text = re.sub(r"<.*>", "", parts[1].split("#")[0]).strip()
    if re.match(r"(nop|data16|xchg +%ax,%ax|cs nop)", text):
        return None
    target = re.fullmatch(r"(\w+) +([0-9a-f]+)", text)
    return f"{target[1]} {int(target[2], 16) - begin:+}" if target else re.sub(r"\s+", " ", text)


def main(objdump, in_c, in_cpp):
    wanted, found = functions_of(objdump, in_c), functions_of(objdump, in_cpp)
    if not {"hot_read", "hot_write_on", "hot_first", "hot_push"} <= {name for name, _ in wanted}:
        sys.exit(f"{in_c}: functions are missing")
    failed = 0
    for key, instructions in sorted(wanted.items()):
        same = found.get(key) == instructions
        failed += not same
        print("".join(key) + f": {len(instructions)} lines" + ("" if same else ", not the same"))
        if not same:
            print("  in C:   " + "\n          ".join(instructions))
            print("  in C++: " + "\n          ".join(found.get(key, [])))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
