"""What may stand in a manifest's fields: nothing that is not checked.

It may come from a hub, so it may say anything: every name, size and digest is checked here, and
whoever uses them need not check again. Fields that are not known are ignored, for a later version
may add some.
"""

import re
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)

from zoo.common.staging import NAME

DIGEST = "^[0-9a-f]{64}$"
LABEL = "^[a-z0-9_]+$"
OWN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
"""The name of a folder, everywhere, and of a page, which also stands in programs."""
UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"

PATTERNS = {
    NAME: "a plain relative name",
    DIGEST: "64 hexadecimal digits",
    LABEL: "small letters, digits and `_`",
    LINE: "a line of text",
}
"""What is asked of texts, in words."""

Name = Annotated[str, Field(max_length=200, pattern=NAME)]
Digest = Annotated[str, Field(pattern=DIGEST)]
Label = Annotated[str, Field(max_length=40, pattern=LABEL)]
Line = Annotated[str, Field(max_length=200, pattern=LINE)]
Text = Annotated[str, Field(max_length=2000, pattern=LINE)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]
Side = Annotated[int, Field(ge=1, le=1 << 16)]
Edge = Annotated[int, Field(ge=1, le=1 << 13)]
"""A side of a picture that is resized, or of a square."""
Factor = Annotated[float, Field(ge=-1e6, le=1e6)]
"""A number that float32 holds, and what is computed of it with others of these."""
Three = tuple[Factor, Factor, Factor]

MOST_PIXELS = 1 << 26


def check_pixels(size: tuple[int, int]) -> tuple[int, int]:
    """**Raises** `ValueError` for a picture that no network takes."""
    if size[0] * size[1] > MOST_PIXELS:
        raise ValueError(f"a `size` has more than {MOST_PIXELS} pixels")
    return size


Size = Annotated[tuple[Side, Side], AfterValidator(check_pixels)]
"""Height and width in pixels."""


def without_controls(text: str) -> str:
    """Return the text with characters that are not shown written as Python writes them: controls,
    ends of lines, marks that turn the direction of writing, and halves of characters."""
    return UNSHOWN.sub(lambda match: ascii(match[0])[1:-1], text)


def first_fault(error: ValidationError) -> str:
    """Return the first fault that pydantic found, in words that complete a sentence."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    if first["type"] == "json_invalid":
        return f"it is no JSON ({context['error']})"
    if first["type"] == "value_error":  # our own sentence, which names the field
        return str(context["error"])
    name = ascii(".".join(map(str, first["loc"])))[1:-1]
    subject = f"`{name[:120]}`" if name else "it"
    if first["type"] == "missing":
        return f"{subject} is missing"
    expected = re.sub(r"^\w+ should", "it should", first["msg"])
    if first["type"] == "string_pattern_mismatch":
        expected = f"it should be {PATTERNS[context['pattern']]}"
    return f"{subject} is {ascii(first['input'])[:80]}: {expected}"


class Model(BaseModel):
    """Checked when it is made, by us or from a file, and never changed."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)
