"""Printed texts: control characters, encodings, closed or full outputs, pictures in a terminal."""

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
"""C0 and C1 control characters, marks of direction, line separators and surrogates."""


def is_shown(text):
    return all(c.isprintable() or c in "\n\t" for c in text)


@pytest.mark.parametrize(
    "print_text",
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
def test_no_control_characters_are_printed(print_text, capsys):
    print_text(f"before\x1b[2J\x9b5n\u202e{HOSTILE}after")
    out, err = capsys.readouterr()
    printed = out + err
    assert is_shown(printed) and "before" in printed and "after" in printed


def test_ordinary_texts_are_unchanged():
    for text in ("ViT-S/16 · 1e-5", "modèle, 模型, мо́дель", "a\n\tb", "🐈"):
        assert printable(text) == text


def test_json_keeps_hostile_texts(capsys):
    value = {HOSTILE.encode("utf-8", "ignore").decode(): "模型\n\x07"}
    print_json(value)
    assert json.loads(capsys.readouterr().out) == value


def run_zoo(*arguments, out=subprocess.PIPE, **variables):
    """Run the command in a process. It may print one sentence on stderr, or nothing."""
    command, environment = [sys.executable, "-m", "zoo", *arguments], os.environ | variables
    process = subprocess.run(
        command, stdout=out, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr.count("\n") == bool(process.stderr) and "Traceback" not in process.stderr
    return process


def test_an_encoding_that_lacks_letters():
    process = run_zoo("info", "模型", PYTHONIOENCODING="latin-1")
    assert process.returncode == 2 and "\\u6a21" in process.stderr


@pytest.mark.each()
@pytest.mark.parametrize("arguments", [("list",), ("list", "--json")])
def test_a_closed_pipe(arguments):
    """The reader has closed the pipe, as in `zoo list | head`. Typer and rich exit with 1."""
    read, write = os.pipe()
    os.close(read)
    process = run_zoo(*arguments, out=write)
    os.close(write)
    assert (process.returncode, process.stderr) == (1, "")


@pytest.mark.each()
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
@pytest.mark.parametrize("arguments", [("list",), ("list", "--json")])
def test_a_full_disk(arguments):
    with open("/dev/full", "w") as full:
        process = run_zoo(*arguments, out=full)
    assert process.returncode == 2
    assert process.stderr.startswith("error: stdout cannot be written")


def test_closed_streams():
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
    """The terminal of a container has 0 rows and columns, and gets no picture."""
    terminal, program_end = pty.openpty()
    fcntl.ioctl(program_end, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    settings = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=program_end,
        stdout=program_end,
        stderr=program_end,
        env=settings,
    ) as process:
        os.close(program_end)
        shown = b""
        while b"through" not in shown and b"Traceback" not in shown:
            shown += os.read(terminal, 1 << 16)
        process.kill() if b"Traceback" in shown else process.wait()
    os.close(terminal)
    assert process.returncode == 0, shown.decode()
    assert ("▀" in shown.decode() or "▄" in shown.decode()) == bool(columns)
