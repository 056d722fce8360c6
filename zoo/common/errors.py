"""Exceptions for wrong use of the zoo.

Each message contains what was wrong, the value that was received, and what the user can do.
"""

from weights.errors import Sentence

FAILED_CHECK = 1
WRONG_USE = 2
"""Exit codes of commands. A command with several outcomes exits with the highest code of them."""


class ZooError(Sentence):
    """Base class of the exceptions that the zoo raises about its input. The CLI exits with 2."""


class UnknownModel(ZooError):
    """A name that no model of the zoo has."""


class BadRequest(ZooError):
    """An option value that is invalid, alone or together with other options."""


class BadOutput(ZooError):
    """An output path that exists already or cannot be written."""


class BadFile(ZooError):
    """A file that is missing or invalid, or that differs from its manifest."""


class NotVerified(ZooError):
    """An exported file that differs too much from JAX. It was not written to its path."""


class MissingLibrary(ZooError):
    """An optional library that is needed and is not installed."""


def first_line(error: BaseException) -> str:
    """Return the first line of the message of an exception that another library raised.

    If the message is empty, return the name of the exception's class. Characters that are not
    printable are replaced by `?`. A line of more than 300 characters is cut to its first 300,
    followed by ` …`.
    """
    text = str(error).strip().splitlines()
    return printable_line(text[0] if text else type(error).__name__)


def printable_line(line: str) -> str:
    """Return a line of text in which `?` replaces each character that is not printable.

    A line of more than 300 characters is cut to its first 300, followed by ` …`.
    """
    printable = "".join(c if c.isprintable() else "?" for c in line)
    return printable if len(printable) <= 300 else f"{printable[:300]} …"
