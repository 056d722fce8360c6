"""Run the examples of a page with Sybil: `python -P tests/page_examples.py PAGE`.

The process has none of the settings that the package `tests` makes, so that a block runs as a
reader runs it. All Python blocks of a page share a namespace. The program prints the reason of each
block that is skipped.
"""

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any
from unittest import SkipTest

from sybil import Document, Example, Region
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

ERROR_ROWS = re.compile(r"^\| `+ ?(.*?) ?`+ \| `+ ?(\w+: .*?) ?`+ \| `+ ?(.*?) ?`+ \|$", re.M)
"""Rows of tables with code, the error or warning that it raises, and the corrected code."""


def run_in_shell(example: Example) -> None:
    """Run a block of commands in a shell, and stop at the first one that fails."""
    subprocess.run(["bash", "-euo", "pipefail", "-c", example.parsed], check=True)


def reject(example: Example) -> None:
    """Raise the error about a block in another language."""
    raise AssertionError(f"{example.path}:{example.line}: no test runs this block")


def parse_other_blocks(document: Document) -> Iterator[Region]:
    """Yield the blocks that are neither Python nor commands. They fail unless they are skipped."""
    for region in FencedCodeBlockLexer(".*")(document):
        if region.lexemes["language"] not in ("python", "sh"):
            yield Region(region.start, region.end, region.lexemes["source"], reject)


PARSERS = (
    *(PythonCodeBlockParser(), CodeBlockParser("sh", run_in_shell), SkipParser()),
    parse_other_blocks,
)


def run_page(page: Path) -> None:
    """Run the examples of a page in their order. Then run its table of errors: the code raises the
    stated error, and the corrected code runs."""
    document = Document.parse(str(page), *PARSERS)
    document.namespace |= {"find_spec": find_spec, "which": which}
    for example in document:
        try:
            example.evaluate()
        except SkipTest as skipped:
            print(f"skipped: {skipped}", flush=True)
    for wrong, message, right in ERROR_ROWS.findall(document.text):
        assert error_of(wrong, document.namespace).startswith(message), wrong
        exec(right, document.namespace)


def error_of(wrong: str, names: dict[str, Any]) -> str:
    """Return the error or warning that a statement raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            exec(wrong, names)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "nothing"


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
