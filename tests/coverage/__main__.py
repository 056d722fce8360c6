"""Write the page to stdout."""

from tests.coverage.page import page

print(page(), end="")
