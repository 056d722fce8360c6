"""Write the page."""

from tests.coverage.page import PAGE, page
from tests.generated import record

PAGE.write_text(page())
record("docs/coverage.md")
