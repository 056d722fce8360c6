"""What is printed is shown, whatever is in it, wherever it goes."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import unicodedata

import pytest

from weights.printable import printable
from zoo.cli.console import print_json
from zoo.cli.tables import prefix_lines, print_blocks, print_facts, print_table
from zoo.common.progress import LogProgress
from zoo.common.terminal import print_stderr, print_stdout

HOSTILE = "".join(
    chr(code)
    for code in range(0x20000)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and chr(code) not in "\n\t"
)
"""Control characters, C1, marks of direction, separators of lines, halves of characters."""


def is_shown(text):
    return all(c.isprintable() or c in "\n\t" for c in text)


@pytest.mark.parametrize(
    "tell",
    [
        print_stdout,
        print_stderr,
        print_json,
        lambda text: print_json({text: [text]}),
        lambda text: print_table(("a",), [(text,)], text),
        lambda text: print_blocks(prefix_lines(text, [text])),
        lambda text: print_facts(text, {"a": text}),
        lambda text: LogProgress().stage(text),
        lambda text: LogProgress().note(text),
    ],
)
def test_nothing_that_a_terminal_obeys(tell, capsys):
    tell(f"before\x1b[2J\x9b5n\u202e{HOSTILE}after")
    out, err = capsys.readouterr()
    told = out + err
    assert is_shown(told) and "before" in told and "after" in told


def test_ordinary_texts_stay():
    for text in ("ViT-S/16 · 1e-5", "modèle, 模型, мо́дель", "a\n\tb", "🐈"):
        assert printable(text) == text


def test_json_says_the_same(capsys):
    value = {HOSTILE.encode("utf-8", "ignore").decode(): "模型\n\x07"}
    print_json(value)
    assert json.loads(capsys.readouterr().out) == value


def zoo(*arguments, out=subprocess.PIPE, **variables):
    """The command in a process; what it says on stderr is one sentence, or nothing."""
    command, environment = [sys.executable, "-m", "zoo", *arguments], os.environ | variables
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, env=environment)
    assert done.stderr.count("\n") == bool(done.stderr) and "Traceback" not in done.stderr
    return done


def test_an_encoding_that_lacks_letters():
    done = zoo("info", "模型", PYTHONIOENCODING="latin-1")
    assert done.returncode == 2 and "\\u6a21" in done.stderr


@pytest.mark.each()
@pytest.mark.parametrize("arguments", [("list",), ("list", "--json")])
def test_a_reader_that_has_gone(arguments):
    """As `zoo list | head` ends; Typer and rich leave with 1."""
    read, write = os.pipe()
    os.close(read)
    done = zoo(*arguments, out=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.each()
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
@pytest.mark.parametrize("arguments", [("list",), ("list", "--json")])
def test_a_disk_that_is_full(arguments):
    with open("/dev/full", "w") as full:
        done = zoo(*arguments, out=full)
    assert done.returncode == 2
    assert done.stderr.startswith("error: stdout cannot be written")


def test_closed_from_the_start():
    command = f"{sys.executable} -m zoo list >&- 2>&-"
    assert subprocess.run(["sh", "-c", command]).returncode == 0


PROGRAM = """
from PIL import Image
from zoo.cli.console import print_picture
print_picture(Image.linear_gradient("L").convert("RGB"))
print("through")
"""


@pytest.mark.parametrize("rows, columns", [(40, 100), (0, 0)])
def test_a_picture_is_shown_where_there_is_room(rows, columns):
    """A container's terminal has no rows and columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    settings = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=theirs, stdout=theirs, stderr=theirs, env=settings
    ) as process:
        os.close(theirs)
        said = b""
        while b"through" not in said and b"Traceback" not in said:
            said += os.read(ours, 1 << 16)
        process.kill() if b"Traceback" in said else process.wait()
    os.close(ours)
    assert process.returncode == 0, said.decode()
    assert ("▀" in said.decode() or "▄" in said.decode()) == bool(columns)
