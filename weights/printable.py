"""Text that is safe to print. Most of it comes from files and servers."""

from collections.abc import Callable


def printable(text: str) -> str:
    """Return the text with an escape in place of every character that is not printable.

    Such characters could move the cursor, set the title of a window or reverse the direction of the
    text. Line breaks and tabs are kept.
    """
    return with_escapes(text, lambda character: character.encode("unicode_escape").decode())


def with_escapes(text: str, escape: Callable[[str], str]) -> str:
    """Return the text with every unprintable character, except line breaks and tabs, replaced by
    `escape(character)`."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else escape(c) for c in text)
