"""Names of classes by their numbers, in the forms in which libraries and training scripts write
them."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated

from pydantic import BeforeValidator

from zoo.common.fields import without_controls

NUMBER = re.compile(r"\s*[+-]?\d{1,6}\s*", re.ASCII)
LONGEST_NAME = 200


def numbered_names(setting: str, value: object, *, names_first: bool = False) -> dict[int, str]:
    """Return the names of classes by number.

    **Arguments:**

    - `setting`: what the value is called, for messages.
    - `value`: a list of names; a dictionary from numbers to names, or from names to numbers; None.
    - `names_first`: whether names are the keys of a dictionary that could be read both ways, such
      as `{"1": 0, "0": 1}`.

    **Raises** `ValueError` for anything else, and for two names of one class.
    """
    found: dict[int, str] = {}
    for number, name in _pairs(setting, value, names_first):
        text = _name(setting, number, name)
        if found.setdefault(number, text) != text:
            raise ValueError(
                f"`{setting}` has two names for class {number}, {ascii(found[number])[:60]} and "
                f"{ascii(text)[:60]}"
            )
    return found


def _pairs(setting: str, value: object, names_first: bool) -> Iterable[tuple[int, object]]:
    """Numbers and names, in the order in which they are written."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return enumerate(value)
    if not isinstance(value, Mapping):
        raise ValueError(
            f"`{setting}` is {ascii(value)[:60]}: write the name of each class by its number"
        )
    keys, values = [*value.keys()], [*value.values()]
    forms = [(keys, values), (values, keys)]
    for numbers, names in reversed(forms) if names_first else forms:
        if all(map(_is_number, numbers)):
            return [(int(number), name) for number, name in zip(numbers, names, strict=True)]
    wrong = next(each for each in keys if not _is_number(each))
    raise ValueError(
        f"`{setting}` has {ascii(wrong)[:60]} where the number of a class should be: write numbers "
        "as keys, and names as values"
    )


def _is_number(value: object) -> bool:
    is_text = isinstance(value, str) and NUMBER.fullmatch(value) is not None
    return is_text or (type(value) is int and abs(value) < 1_000_000)


def _name(setting: str, number: int, name: object) -> str:
    """The name of a class, which is a number in data sets of digits."""
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        raise ValueError(
            f"`{setting}` has {ascii(name)[:60]} as the name of class {number}: write a text"
        )
    text = without_controls(str(name))
    if len(text) > LONGEST_NAME:
        raise ValueError(
            f"`{setting}` has a name of {len(text)} characters for class {number}: write at most "
            f"{LONGEST_NAME}"
        )
    return text


Id2Label = Annotated[dict[int, str], BeforeValidator(partial(numbered_names, "id2label"))]
"""Names of classes as transformers writes them."""

LabelNames = Annotated[dict[int, str], BeforeValidator(partial(numbered_names, "label_names"))]
"""Names of classes as timm writes them: a list, or a dictionary where numbers have gaps."""
