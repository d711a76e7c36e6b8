"""
keeper.py PROGRAM [SERVERS]: checks docs/code/keeper.c. Servers get the weights, are killed at any moment, and start
again. Each that gets so far finds the right contents. The weights outlive servers, and a server's outlive the keeper.
"""
import pathlib
import random
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

LINES_WAIT = 60


class Process:
    """A process of the program, with pipes."""

    def __init__(self, *words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)

    def expect(self, text):
        line = self.process.stdout.readline()
        if text not in line:
            self.process.kill()
            raise AssertionError(f"{text!r} was expected, not {line!r}: {self.process.communicate()[1]}")

    def end(self):
        _, errors = self.process.communicate()
        assert self.process.returncode == 0, (self.process.returncode, errors)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        _, errors = self.process.communicate()
        return self.process.returncode, errors


def make_model(folder, draw):
    """Makes tensors of odd sizes at odd offsets. Returns the paths of list and data."""
    sizes = [draw.randrange(1, 5000) for _ in range(40)] + [0, 1, 3 << 20, 17 << 20]
    at, lines, data = 11, [], bytearray(b"eleven byte")
    for number, size in enumerate(sizes):
        data += b"?" * (number % 3)
        at = len(data)
        data += draw.randbytes(size)
        name = f"layer.{number}.weight".ljust(127 if number == 0 else 0, "x")
        lines.append(f"{name} F8_E4M3 {at} {size} {size} 1\n")
    (folder / "list").write_text("".join(lines), encoding="utf-8")
    (folder / "data").write_bytes(data)
    return folder / "list", folder / "data"


def check_refusals(program, folder, words):
    """A folder that others can enter, bad lists, a second keeper."""
    open_folder = folder / "open"
    open_folder.mkdir(mode=0o755)
    open_folder.chmod(0o755)
    bad = folder / "bad"
    for where, text, reason in ((open_folder, None, "0700"), (folder / "own", None, "another keeper"),
                                (folder / "new", "a F32 0 99999999999 1\n", "too short"),
                                (folder / "new", "a F32 0\n", "missing"), (folder / "new", "a F32 -1 4\n", "malformed"),
                                (folder / "new", "a\n", "a line needs"),
                                (folder / "new", "a b F32 0 4 1\n", "the name has a space"),
                                (folder / "new", "a b c d\n", "the name has a space"),
                                (folder / "new", f"{'a' * 128} F32 0 4 1\n", "more than 127 bytes"),
                                (folder / "new", f"{'ä' * 64} F32 0 4 1\n", "more than 127 bytes"),
                                (folder / "new", "a F32 0 1 1 1 1 1 1 1 1 1 1\n", "dimensions")):
        if text:
            bad.write_text(text, encoding="utf-8")
        result = subprocess.run([program, "keep", where, bad if text else words[0], words[1]], capture_output=True,
                                text=True, timeout=LINES_WAIT, check=False)
        assert result.returncode == 1 and reason in result.stderr, (reason, result)
    assert stat.S_IMODE((folder / "own").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "own" / "socket").stat().st_mode) == 0o600


def connect_in_vain(own, draw):
    """A client that says something, or takes nothing, and goes."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(own / "socket"))
        if draw.random() < 0.5:
            try:
                client.send(b"hello")
            except OSError:
                pass


def run_servers(program, own, data, servers, draw):
    """Kills each server: every fourth one when it has checked the weights, one when it has them, the others at any
    moment."""
    for number in range(servers):
        server = Process(program, "serve", own, data)
        if number % 4 < 2:
            server.expect("has them")
        else:
            time.sleep(draw.random() * 0.04)
        if number % 4 == 0:
            server.expect("are right")
        status, errors = server.kill()
        assert status == -signal.SIGKILL and not errors, (number, status, errors)
        if number % 20 == 0:
            connect_in_vain(own, draw)


def main(program, servers="200"):
    draw = random.Random()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        own = folder / "own"
        model = make_model(folder, draw)
        keeper = Process(program, "keep", own, *model)
        keeper.expect("keeps 44 tensors")
        check_refusals(program, folder, model)
        run_servers(program, own, model[1], int(servers), draw)
        spoiler = Process(program, "spoil", own)
        spoiler.expect("can't write them")
        spoiler.end()
        survivor = Process(program, "serve", own, model[1])
        survivor.expect("has them")
        survivor.expect("are right")
        status, _ = keeper.kill()
        assert status == -signal.SIGKILL, status
        survivor.process.stdin.write("\n")
        survivor.process.stdin.flush()
        survivor.expect("are right")
        keeper = Process(program, "keep", own, *model) # the dead one has left its socket
        keeper.expect("keeps 44 tensors")
        run_servers(program, own, model[1], 4, draw)
        keeper.kill()
        survivor.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
