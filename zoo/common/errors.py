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
    """No model has the name that was given."""


class BadRequest(ZooError):
    """The value of an option is invalid, alone or together with other options."""


class BadOutput(ZooError):
    """The output path exists already or cannot be written."""


class BadFile(ZooError):
    """A file to verify is missing, or differs from its manifest."""


class NotVerified(ZooError):
    """A file differs too much from JAX and was not written."""


class MissingLibrary(ZooError):
    """An optional library is needed and is not installed."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error message from another library.

    The line is cut after 300 characters, and `?` replaces characters that are not printable.
    """
    text = str(error).strip().splitlines()
    return printable_line(text[0] if text else type(error).__name__)


def printable_line(line: str) -> str:
    """Return a line of text with `?` in place of characters that are not printable.

    The line is cut after 300 characters.
    """
    printable = "".join(c if c.isprintable() else "?" for c in line)
    return printable if len(printable) <= 300 else f"{printable[:300]} …"
