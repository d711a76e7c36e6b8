"""
Tests the example that loads files of safetensors:

    test_safetensors.py PROGRAM

The program must refuse each malformed file, by a message that says why, and print of good ones the tensors as zlib and
json know them.
"""
import json
import os
import pathlib
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import unittest
import zlib

import corpus

PROGRAM = [*shlex.split(os.environ.get("MESON_EXE_WRAPPER", "")), sys.argv[1]]
LINE = re.compile(r'(?P<name>"(?:[^"\\]|\\.)*") (?P<dtype>\w+) (?P<shape>\[[^]]*\]) (?P<bytes>\d+) bytes, '
                  r'checksum (?P<sum>[0-9a-f]{8})')
RANDOM_FILES = 40


def play(*arguments, seed=0):
    """Runs the program, and returns its status, its output, and its messages."""
    environment = {**os.environ, "SYNCED_MEM_EMU_SEED": str(seed), "SYNCED_MEM_EMU_LEAKS": "1"}
    result = subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, check=False, env=environment)
    return result.returncode, result.stdout.decode(), result.stderr.decode(errors="replace")


def list_tensor(tensor):
    """Returns what the program must print of a tensor."""
    name, dtype, shape, contents = tensor
    return name, dtype, shape, len(contents), zlib.crc32(contents)


def read_line(line):
    match = LINE.fullmatch(line)
    return match and (json.loads(match["name"]), match["dtype"], json.loads(match["shape"]), int(match["bytes"]),
                      int(match["sum"], 16))


class Loading(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name, "model.safetensors")

    def check_output(self, output, tensors, metadata):
        lines = output.splitlines()
        texts = [f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(text, ensure_ascii=False)}"
                 for name, text in metadata.items()]
        self.assertEqual(lines[:len(texts)], texts)
        self.assertEqual([read_line(line) or line for line in lines[len(texts):]], list(map(list_tensor, tensors)))

    def check_file(self, contents, tensors, metadata, seed=0):
        corpus.write_file(self.path, contents)
        for options in ([], ["--objects"]):
            with self.subTest(options=options):
                status, output, messages = play(*options, self.path, seed=seed)
                self.assertEqual((status, messages), (0, ""))
                self.check_output(output, tensors, metadata)

    def test_malformed_files(self):
        for name, (contents, why) in corpus.MALFORMED.items():
            with self.subTest(name):
                corpus.write_file(self.path, contents)
                status, output, messages = play(self.path)
                self.assertEqual((status, output), (1, ""))
                self.assertIn(why, messages)
                self.assertTrue(messages.startswith(f"{self.path}: ") and messages.count("\n") == 1, messages)

    def test_good_files(self):
        for name, (contents, tensors, metadata) in corpus.GOOD.items():
            with self.subTest(name):
                self.check_file(contents, tensors, metadata)

    def test_random_files(self):
        for seed in range(RANDOM_FILES):
            with self.subTest(seed):
                self.check_file(*corpus.make_random(random.Random(seed)), seed=seed)

    def test_tensors_of_many_chunks(self):
        contents = random.Random(1).randbytes(10_000_003)
        header = {"a": corpus.tensor(shape=[3], place=[0, 3]),
                  "b": corpus.tensor("I32", [2_500_000], [3, 10_000_003])}
        self.check_file(corpus.make_file(header, contents),
                        [("a", "U8", [3], contents[:3]), ("b", "I32", [2_500_000], contents[3:])], {})

    def test_many_tensors(self):
        count = 20_000
        header = {f"tensor {number}": corpus.tensor(shape=[1], place=[number, number + 1])
                  for number in range(count)}
        header["__metadata__"] = {f"text {number}": "x" for number in range(count)}
        header[f"tensor {count}"] = corpus.tensor(shape=[1] * count, place=[count, count + 1])
        corpus.write_file(self.path, corpus.make_file(header, bytes(count + 1)))
        status, output, messages = play(self.path)
        self.assertEqual((status, messages, len(output.splitlines())), (0, "", 2 * count + 1))

    def measure_header(self, count):
        """Returns the seconds of the processor that a header with so many names takes."""
        header = {f"tensor {number}": corpus.tensor(shape=[0], place=[0, 0]) for number in range(count // 10)}
        header["__metadata__"] = {f"text {number}": "x" for number in range(count)}
        corpus.write_file(self.path, corpus.make_file(header))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.assertEqual(play(self.path)[0], 0)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    def test_growth(self):
        """Four times the names take about four times as long, not sixteen times; other work on the machine adds."""
        few, many = [], []
        for _ in range(20):
            few.append(self.measure_header(30_000))
            many.append(self.measure_header(120_000))
            if min(many) < 9 * max(min(few), 0.02):
                return
        self.fail(f"{few} and {many} seconds")

    def test_page(self):
        corpus.write_file(self.path, corpus.PAGE)
        status, output, _ = play(self.path)
        page = pathlib.Path(__file__).parents[2] / "docs/guide/safetensors.md"
        self.assertEqual(status, 0)
        self.assertIn(f"$ safetensors_list model.safetensors\n{output}```\n", page.read_text(encoding="utf-8"))

    def test_several_files(self):
        contents, tensors, metadata = corpus.GOOD["askew"]
        corpus.write_file(self.path, contents)
        bad = self.path.with_name("bad")
        corpus.write_file(bad, corpus.MALFORMED["hole"][0])
        status, output, messages = play(self.path, bad, self.path)
        self.assertEqual((status, messages.count("\n")), (1, 1))
        self.check_output(output, [*tensors, *tensors], metadata)

    def test_other_paths(self):
        for path, why in ((self.path, "No such file"), (self.folder.name, "no file of at least 8 bytes"),
                          ("/dev/null", "no file of at least 8 bytes")):
            status, output, messages = play(path)
            self.assertEqual((status, output), (1, ""))
            self.assertIn(why, messages)
        self.assertEqual(play()[0], 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
