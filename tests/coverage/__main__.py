"""Writes the page to the standard output."""

from tests.coverage.page import page

print(page(), end="")
