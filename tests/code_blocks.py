"""Code blocks of Markdown texts, found by Sybil."""

from sybil import Document
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer


def code_blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a Markdown text that are in a language, in their order."""
    regions = FencedCodeBlockLexer(language)(Document(text, path="text.md"))
    return [str(region.lexemes["source"]) for region in regions]
