"""Declarative mapping from a checkpoint's keys to a model's leaves, checked both ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial

from weights.distributions import Float32, Shape
from weights.errors import MappingError
from weights.tensors import FLOATS, LazyTensor

SHOWN = 12
"""How many names of one kind a message lists before it says how many more there are."""


@dataclass(frozen=True)
class Transform:
    """How the tensors in a file become one leaf.

    `source_shape` gives the shape that each source must have, from the leaf's. `apply` gets the
    sources' values in the rule's order.
    """

    name: str
    source_shape: Callable[[Shape], Shape]
    apply: Callable[..., Float32]


SAME = Transform("same", lambda shape: shape, lambda values: values)
UNBATCH = Transform("unbatch", lambda shape: (1, *shape), lambda values: values[0])
PER_CHANNEL = Transform(
    "per channel", lambda shape: shape[:1], lambda values: values[:, None, None]
)
MASKED = Transform("masked", lambda shape: shape, lambda values, mask: values * mask)


@dataclass(frozen=True)
class Rule:
    """One leaf, or a family of them, and its source.

    `{i}` and the like in `target` stand for one segment of a path and mean the same segment in
    the sources.
    """

    target: str
    sources: tuple[str, ...]
    transform: Transform = SAME

    def match(self, target: str) -> tuple[str, ...] | None:
        """Keys of the sources of `target`, or None if the rule is about another leaf."""
        found = _pattern(self.target).fullmatch(target)
        return found and tuple(source.format(**found.groupdict()) for source in self.sources)


@cache
def _pattern(target: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^.]+)", re.escape(target)))


@dataclass(frozen=True)
class Plan:
    """What one leaf needs from a file."""

    target: str
    shape: Shape
    sources: tuple[str, ...]
    transform: Transform

    @property
    def source_shape(self) -> Shape:
        """The shape that each source must have."""
        return self.transform.source_shape(self.shape)


def plan(rules: Iterable[Rule], shapes: Mapping[str, Shape]) -> list[Plan]:
    """Find each leaf's sources. The first rule that matches a leaf decides.

    **Raises** `KeyError` if there is no rule for a leaf, which is a mistake in the table.
    """
    rules = tuple(rules)
    plans: list[Plan] = []
    for target, shape in shapes.items():
        for rule in rules:
            sources = rule.match(target)
            if sources is not None:
                plans.append(Plan(target, shape, sources, rule.transform))
                break
        else:
            raise KeyError(f"no rule gives the leaf {target!r}: add one to the table")
    return plans


def source_shapes(plans: Iterable[Plan]) -> dict[str, Shape]:
    """Key to shape of everything that a complete file holds."""
    return {source: item.source_shape for item in plans for source in item.sources}


def apply(plans: list[Plan], file: Mapping[str, LazyTensor]) -> dict[str, LazyTensor]:
    """Leaves from a file; values are read and transformed only when asked for.

    **Raises** `MappingError` that names every missing, unexpected and misshapen key and every
    type that holds no weights, all in one message.
    """
    problems = compare(source_shapes(plans), file)
    if problems:
        raise MappingError(
            "the checkpoint does not fit the model: " + "; ".join(problems) + ". "
            "Give the checkpoint that was published for this model."
        )
    return {
        item.target: LazyTensor(item.shape, "float32", partial(_read, item, file)) for item in plans
    }


def compare(expected: Mapping[str, Shape], file: Mapping[str, LazyTensor]) -> list[str]:
    """What a file lacks, has too much of, or has in another shape or type, one line each."""
    common = [key for key in expected if key in file]
    found = (
        ("missing", [key for key in expected if key not in file]),
        ("unexpected", [key for key in file if key not in expected]),
        (
            "of another shape",
            [
                f"{key} (is {list(file[key].shape)}, must be {list(expected[key])})"
                for key in common
                if file[key].shape != expected[key]
            ],
        ),
        (
            "of another type",
            [
                f"{key} (is {file[key].dtype}, must be a float)"
                for key in common
                if file[key].dtype not in FLOATS
            ],
        ),
    )
    return [f"{len(names)} {what}: {_listed(names)}" for what, names in found if names]


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _read(item: Plan, file: Mapping[str, LazyTensor]) -> Float32:
    return item.transform.apply(*(file[source].read() for source in item.sources))
