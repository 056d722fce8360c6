"""Wrong use of the zoo. Each message says what was wrong, what was received and what to do."""

from weights.errors import Sentence

FAILED_CHECK = 1
WRONG_USE = 2
"""Exit codes of commands; an outcome of many knows its own."""


class ZooError(Sentence):
    """Base of everything that the zoo raises about its input; the CLI exits with 2."""


class UnknownModel(ZooError):
    """No model has that name."""


class BadRequest(ZooError):
    """An option's value makes no sense, alone or with the others."""


class BadOutput(ZooError):
    """The place to write to exists already or cannot be written."""


class BadFile(ZooError):
    """A file to verify is missing, or is not what its manifest says."""


class NotVerified(ZooError):
    """A file is too far from JAX, and was not written."""


class MissingLibrary(ZooError):
    """An optional library is needed and not installed."""


def first_line(error: BaseException) -> str:
    """The first line of a foreign message, short and printable."""
    text = str(error).strip().splitlines()
    return printable_line(text[0] if text else type(error).__name__)


def printable_line(line: str) -> str:
    """A line of somebody else's, short and printable."""
    shown = "".join(c if c.isprintable() else "?" for c in line)
    return shown if len(shown) <= 300 else f"{shown[:300]} …"
