"""Types of the fields of a manifest, and the base class of the models that pydantic validates.

A manifest may come from a hub and may contain anything. Every name, size and digest is validated
when the manifest is read, so that other code can rely on them. Unknown fields are ignored, because
a later version may add fields.
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
FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
"""Pattern of the name of a folder and of a page of the site. Such a name may also stand in a
program."""
INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that are not shown: controls, line ends, marks that change the direction of writing,
and surrogates."""
LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"

PATTERNS = {
    NAME: "a plain relative name",
    DIGEST: "64 hexadecimal digits",
    LABEL: "small letters, digits and `_`",
    LINE: "a line of text",
}
"""Description of each pattern, for messages."""

Name = Annotated[str, Field(max_length=200, pattern=NAME)]
Digest = Annotated[str, Field(pattern=DIGEST)]
Label = Annotated[str, Field(max_length=40, pattern=LABEL)]
Line = Annotated[str, Field(max_length=200, pattern=LINE)]
Text = Annotated[str, Field(max_length=2000, pattern=LINE)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]
Side = Annotated[int, Field(ge=1, le=1 << 16)]
Edge = Annotated[int, Field(ge=1, le=1 << 13)]
"""The side in pixels of a square, or of a picture that is resized."""
Factor = Annotated[float, Field(ge=-1e6, le=1e6)]
"""A number that float32 can hold, also after products and sums with other factors."""
ThreeFactors = tuple[Factor, Factor, Factor]

MAX_PIXELS = 1 << 26


def check_pixels(size: tuple[int, int]) -> tuple[int, int]:
    """Return a size (height, width) in pixels unchanged, if it has at most `MAX_PIXELS` pixels.

    **Raises** `ValueError` for a larger size.
    """
    if size[0] * size[1] > MAX_PIXELS:
        raise ValueError(f"a `size` has more than {MAX_PIXELS} pixels")
    return size


Size = Annotated[tuple[Side, Side], AfterValidator(check_pixels)]
"""Height and width in pixels."""


def without_controls(text: str) -> str:
    r"""Return the text with an escape, such as `\x1b`, in place of each invisible character.

    Invisible characters are control characters (also line breaks and tabs), line separators, marks
    that change the direction of text, and surrogates.
    """
    return INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text)


def first_fault(error: ValidationError) -> str:
    """Return the first error that pydantic found, in words that complete "FILE cannot be used: …".

    Examples are "`size` is missing" and "it is no JSON (…)". The message of a validator of this
    package is returned unchanged.
    """
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    if first["type"] == "json_invalid":
        return f"it is no JSON ({context['error']})"
    if first["type"] == "value_error":  # the message of a validator in this package
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
    """Base class of immutable records that pydantic validates when they are created.

    Values are not converted to the types of the fields: a value of another type is an error, as are
    infinities and NaN.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)
