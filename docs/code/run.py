"""
run.py PROGRAM SEEDS [EXPECTED]: runs an example SEEDS times. Each run has another seed, which decides the schedule of
the emulated runtime. The output must equal the file EXPECTED, which a page shows. Meson names the program that runs those
of another system.
"""
import os
import shlex
import subprocess
import sys


def main(program, seeds, expected=None):
    runner = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
    for seed in range(int(seeds)):
        environment = {**os.environ, "SYNCED_MEM_EMU_SEED": str(seed), "SYNCED_MEM_EMU_LEAKS": "1"}
        result = subprocess.run([*runner, program], stdout=subprocess.PIPE, text=True, check=False, env=environment)
        sys.stdout.write(result.stdout)
        if result.returncode:
            return result.returncode
        if expected:
            with open(expected, encoding="utf-8") as file:
                if result.stdout != file.read():
                    print(f"the output differs from {expected}", file=sys.stderr)
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
