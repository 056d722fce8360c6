"""Texts as they can be shown: much of them comes from files and servers, and moves no cursor."""

from collections.abc import Callable


def printable(text: str) -> str:
    """A text in which whatever cannot be seen is written as an escape: what moves a cursor, sets a
    window's title or turns the direction of reading. Lines and tabs stay."""
    return with_escapes(text, lambda character: character.encode("unicode_escape").decode())


def with_escapes(text: str, escape: Callable[[str], str]) -> str:
    """A text with what cannot be seen escaped in some way."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else escape(c) for c in text)
