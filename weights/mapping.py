"""Declarative mapping between a checkpoint's keys and a model's leaves, checked both ways.

One table of rules a naming serves reading, where it must cover the file and the model exactly,
and writing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Literal

import numpy as np

from weights.errors import BadValues, MappingError
from weights.initializers import Float32, Shape
from weights.tensors import FLOATS, LazyTensor
from weights.transforms import SAME, Transform, shapes_before, zeros

SHOWN = 12  # how many names of one kind a message lists before it says how many more there are


@dataclass(frozen=True)
class Rule:
    """One leaf, or a family of them, and its sources.

    `{i}` and the like in `target` stand for one segment of a path and mean the same segment in
    the sources. A source that ends in `?` may be missing from a file; `missing` then gives its
    values from its shape. A rule without sources is about a leaf that the naming has no key for:
    `missing` gives that too.
    """

    target: str
    sources: tuple[str, ...]
    transform: Transform = SAME
    missing: Callable[[Shape], Float32] = zeros

    def match(self, target: str) -> tuple[str, ...] | None:
        """Keys of the sources of `target`, or None if the rule is about another leaf."""
        match = _pattern(self.target).fullmatch(target)
        return match and tuple(source.format(**match.groupdict()) for source in self.sources)

    def leaf(self, key: str) -> str | None:
        """The leaf that `key` is a source of, or None if it is none of this rule's."""
        for source in self.sources:
            if match := _pattern(source.removesuffix("?")).fullmatch(key):
                return self.target.format(**match.groupdict())
        return None


def same(*paths: str) -> tuple[Rule, ...]:
    """Rules for leaves that a file has under their own paths."""
    return tuple(Rule(path, (path,)) for path in paths)


def nested(rules: Iterable[Rule], target: str, source: str) -> tuple[Rule, ...]:
    """Rules for a network that is a part of another, in the model under `target`, in a file under
    `source`, both of which end in a dot."""
    return tuple(
        replace(
            rule,
            target=f"{target}{rule.target}",
            sources=tuple(f"{source}{key}" for key in rule.sources),
        )
        for rule in rules
    )


@cache
def _pattern(path: str) -> re.Pattern[str]:
    whole = re.escape(path).replace(re.escape("**"), ".+")
    for name in re.findall(r"{(\w+)}", path):
        hole = re.escape(f"{{{name}}}")
        whole = whole.replace(hole, f"(?P<{name}>[^.]+)", 1).replace(hole, f"(?P={name})")
    return re.compile(whole)


class PathIndex:
    """Rules by their paths, so that those that may match one of ten thousand names are found
    without trying all: by its segments, some of which stand for any."""

    def __init__(self, paths: Iterable[tuple[str, Rule]]):
        self.rules: dict[tuple[str | None, ...], dict[int, Rule]] = {}
        self.places: dict[int, dict[tuple[bool, ...], None]] = {}
        for order, (path, rule) in enumerate(paths):
            parts = path.split(".")
            free = tuple("{" in part for part in parts)
            self.rules.setdefault(_without(parts, free), {})[order] = rule
            self.places.setdefault(len(parts) - 1, {})[free] = None

    def find(self, path: str) -> list[Rule]:
        """The rules that may match a path, in their order."""
        if (places := self.places.get(path.count("."))) is None:
            return []
        found: dict[int, Rule] = {}
        for free in places:
            found |= self.rules.get(_without(path.split("."), free), {})
        return [found[order] for order in sorted(found)]


def _without(parts: list[str], free: tuple[bool, ...]) -> tuple[str | None, ...]:
    return tuple(None if free else part for part, free in zip(parts, free, strict=True))


Form = Literal["pytorch", "equimo", "huggingface", "equinox", ""]
"""How files are written: as PyTorch's archive, as Equimo's, as a folder for transformers, as leaves
of Equinox; empty where none are."""


@dataclass(frozen=True)
class Convention:
    """A publisher or a library that gives names to tensors.

    `name` is for programs, `title` for people. Files with these names are written in a `form`.
    """

    name: str
    title: str
    form: Form = ""


@dataclass(frozen=True)
class Naming:
    """How one publisher names the tensors of a family of models, by its `convention`.

    `zero` are patterns of keys that a file may have although the model has no use for them,
    provided they hold zeros only; `copies` are pairs of such a pattern and the key whose values
    those keys repeat; `computed` of keys that the model computes from its sizes. In these, `**`
    stands for any segments. `in_memory` has the names that the
    publisher's library uses while the model lives, where they are others than in its files.
    `wrappers` are the names of the module that the network is in the publisher's classifiers, where
    the linear layer lies beside it.
    """

    convention: Convention
    rules: tuple[Rule, ...]
    zero: tuple[str, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    computed: tuple[str, ...] = ()
    in_memory: Naming | None = None
    wrappers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the convention."""
        return self.convention.name

    def __hash__(self) -> int:
        """Hash of the name and the leaves: that of all rules takes as long as a view."""
        return hash((self.name, *(rule.target for rule in self.rules)))

    def repeated(self, keys: Collection[str]) -> dict[str, str]:
        """The copies that a complete file with these keys holds as well, and what they repeat. A
        `{i}` stands for all that follows the same beginning in the keys: for every block."""
        copied: dict[str, str] = {}
        for pattern, original in self.copies:
            head, brace, _ = pattern.partition("}")
            begun = map(_pattern(f"{head}{brace}.**").fullmatch, keys)
            copies = [pattern.format(**match.groupdict()) for match in begun if match] or [pattern]
            copied |= {copy: original for copy in copies if original in keys and copy != original}
        return copied

    def leaf(self, key: str) -> str | None:
        """The leaf that a file's key is about, if the naming knows it."""
        about = ((rule, leaf) for rule in self._by_source.find(key) if (leaf := rule.leaf(key)))
        return next((leaf for rule, leaf in about if rule is self._deciding(leaf)), None)

    def renamed(self, key: str, other: Naming) -> str | None:
        """Name of a file's key in another naming of the same leaves, if both have it."""
        leaf = self.leaf(key)
        own, others = (() if leaf is None else each._sources(leaf) for each in (self, other))
        return dict(zip(own, others, strict=True)).get(key) if len(own) == len(others) else None

    def _sources(self, leaf: str) -> tuple[str, ...]:
        """The keys of a leaf, those that may be missing too."""
        rule = self._deciding(leaf)
        keys = None if rule is None else rule.match(leaf)
        return tuple(key.removesuffix("?") for key in keys or ())

    def _deciding(self, leaf: str) -> Rule | None:
        """The rule that says what a leaf is called: the first that matches it."""
        return next((r for r in self._by_target.find(leaf) if r.match(leaf) is not None), None)

    @cached_property
    def _by_source(self) -> PathIndex:
        keys = ((key.removesuffix("?"), rule) for rule in self.rules for key in rule.sources)
        return PathIndex(keys)

    @cached_property
    def _by_target(self) -> PathIndex:
        return PathIndex((rule.target, rule) for rule in self.rules)

    def names(self, leaf: str) -> bool:
        """Whether it says where a leaf is, or that no file has it."""
        return self._deciding(leaf) is not None

    def knows(self, key: str) -> bool:
        """Whether files with these names have such a key, used or not."""
        return self.leaf(key) is not None or _fits_any(self.surplus, key)

    @cached_property
    def surplus(self) -> tuple[str, ...]:
        """Patterns of all keys that the model has no use for."""
        copied = (pattern for pattern, _ in self.copies)
        return (*self.zero, *self.computed, *copied)

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the linear layers on a network for pictures, the main one first."""
        sources = {rule.target: rule.sources for rule in reversed(self.rules)}
        of_pictures = {"patch_embed.proj.weight", "blocks.0.downsample.conv.weight"} & {*sources}
        names = (name for leaf in ("head", "head_dist") for name in sources.get(leaf + ".{p}", ()))
        return tuple(name.removesuffix(".{p}") for name in names) if of_pictures else ()

    @property
    def head(self) -> str:
        """Name of the linear layer on a network for pictures; empty where there is none."""
        return next(iter(self.heads), "")

    @cached_property
    def landmarks(self) -> tuple[str, ...]:
        """Keys that stand in a rule as they are, by which the others are found."""
        sources = (source for rule in self.rules for source in rule.sources)
        return tuple(dict.fromkeys(key for key in sources if "{" not in key and "?" not in key))


@dataclass(frozen=True)
class SourceKey:
    """A key of a file, the shape it must have, whether it may be missing and what it is then."""

    key: str
    shape: Shape
    optional: bool
    missing: Callable[[Shape], Float32]


@dataclass(frozen=True)
class LeafPlan:
    """Need of one leaf from a file."""

    target: str
    shape: Shape
    sources: tuple[SourceKey, ...]
    rule: Rule


def plan(rules: Iterable[Rule], shapes: Mapping[str, Shape]) -> list[LeafPlan]:
    """Find each leaf's sources. The first rule that matches a leaf decides. **Raises** `KeyError`
    if there is no rule for a leaf, which is a mistake in the table."""
    rules = tuple(rules)
    return [_plan_leaf(rules, target, shape) for target, shape in shapes.items()]


def _plan_leaf(rules: tuple[Rule, ...], target: str, shape: Shape) -> LeafPlan:
    for rule in rules:
        if (keys := rule.match(target)) is not None:
            pairs = zip(keys, shapes_before(rule.transform, shape), strict=bool(keys))
            sources = (
                SourceKey(key.removesuffix("?"), source, key.endswith("?"), rule.missing)
                for key, source in pairs
            )
            return LeafPlan(target, shape, tuple(sources), rule)
    raise KeyError(f"no rule gives the leaf {target!r}: add one to the table")


def leaf_shape(naming: Naming, file: Mapping[str, LazyTensor], leaf: str) -> Shape | None:
    """The shape that a file's tensors, by the names of the rules, give a leaf; None where they do
    not give it."""
    for rule in naming.rules:
        if (keys := rule.match(leaf)) is not None:
            shapes = [file[key].shape for key in keys if key in file]
            try:
                parts = (np.broadcast_to(np.float32(0), shape) for shape in shapes)
                return rule.transform.apply(*parts).shape if shapes else None
            except (TypeError, ValueError, IndexError):  # other shapes than the rule is about
                return None
    return None


def source_shapes(plans: Iterable[LeafPlan]) -> dict[str, Shape]:
    """Key to shape of everything that a complete file holds."""
    return {source.key: source.shape for item in plans for source in item.sources}


def apply(
    naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]
) -> dict[str, LazyTensor]:
    """Leaves from a file; values are read and transformed only when asked for.

    **Raises** `MappingError` that names every missing, unexpected and misshapen key and every
    type that holds no weights, all in one message; `BadValues` if a key that is there for
    nothing holds something.
    """
    if problems := mismatches(naming, plans, file):
        raise MappingError(
            "the checkpoint does not fit the model: " + "; ".join(problems) + ". "
            "Give the checkpoint that was published for this model."
        )
    _check_surplus(naming, _surplus(naming, plans, file), file)
    return {
        item.target: LazyTensor(item.shape, "float32", partial(_read, item, file)) for item in plans
    }


def mismatches(naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]) -> list[str]:
    """Reasons why a file does not give a model its leaves, one line a kind; nothing is read."""
    reasons = misfits(naming, plans, file)
    return [f"{len(names)} {what}: {_listed(names)}" for what, names in reasons.items() if names]


def misfits(
    naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]
) -> dict[str, list[str]]:
    """Return the keys that do not give a model its leaves, by what is wrong with them."""
    strange = {*file} - {*source_shapes(plans)} - _surplus(naming, plans, file)
    strange -= {*unused(naming, plans, file)}
    sources = {source.key: source for item in plans for source in item.sources}
    common = [(key, file[key], source.shape) for key, source in sources.items() if key in file]
    floats = ", ".join(sorted(FLOATS))
    return {
        "missing": [k for k, source in sources.items() if k not in file and not source.optional],
        "unexpected": [key for key in file if key in strange],
        "of another shape": [
            f"{key} (is {list(tensor.shape)}, must be {list(shape)})"
            for key, tensor, shape in common
            if tensor.shape != shape
        ],
        "of another type": [
            f"{key} (is {tensor.dtype}, must be {floats})"
            for key, tensor, _ in common
            if tensor.dtype not in FLOATS
        ],
    }


def unused(naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]) -> list[str]:
    """Keys of a file that are about something else than the network. What stands within it is none
    of these: a network with more in it computes another thing."""
    needed = source_shapes(plans)
    parts = {key.partition(".")[0] for key in needed}
    surplus = _surplus(naming, plans, file)
    return [
        key
        for key, tensor in file.items()
        if key not in needed and key not in surplus and _is_beside(key, tensor, parts, naming)
    ]


def _is_beside(key: str, tensor: LazyTensor, parts: Collection[str], naming: Naming) -> bool:
    """Whether a tensor that a network has no place for is none of its own."""
    if tensor.dtype not in FLOATS or 0 in tensor.shape:  # a counter, an index, no registers
        return True
    if math.prod(tensor.shape) == 1:
        return not naming.knows(key)  # a temperature
    part, dot, _ = key.partition(".")
    beside = dot and part not in parts and naming.leaf(key) is None
    return bool(beside) or key.rpartition(".")[2] == "mask_token"  # of training


def _surplus(naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]) -> set[str]:
    """Keys that a file may have although the model has no use for them."""
    needed = source_shapes(plans)
    return {key for key in file if key not in needed and _fits_any(naming.surplus, key)}


def _fits_any(patterns: Iterable[str], key: str) -> bool:
    return any(_pattern(pattern).fullmatch(key) for pattern in patterns)


def _check_surplus(naming: Naming, keys: set[str], file: Mapping[str, LazyTensor]) -> None:
    """Refuse values that the model would ignore although they mean something."""
    advice = "give the checkpoint that was published for this model."
    zero = sorted(key for key in keys if _fits_any(naming.zero, key))
    if bad := [key for key in zero if file[key].dtype not in FLOATS or file[key].read().any()]:
        condition = "which may be there only if all zeros"
        raise BadValues(f"the model has no place for {_listed(bad)}, {condition}: {advice}")
    for pattern, original in naming.copies:
        copied = sorted(key for key in keys if _pattern(pattern).fullmatch(key))
        if bad := [key for key in copied if not _is_copy(file[key], file[original])]:
            raise BadValues(f"{_listed(bad)} must repeat {original} and does not: {advice}")


def _is_copy(copy: LazyTensor, original: LazyTensor) -> bool:
    both = copy.dtype in FLOATS and original.dtype in FLOATS and copy.shape == original.shape
    return both and np.array_equal(copy.read(), original.read(), equal_nan=True)


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN
    # Names come from the file and may be anything.
    shown = ", ".join(name if name.isprintable() else ascii(name) for name in names[:SHOWN])
    return shown[:2000] + (f" and {more} more" if more > 0 else "")


def _read(item: LeafPlan, file: Mapping[str, LazyTensor]) -> Float32:
    if not item.sources:
        return item.rule.missing(item.shape)
    values = (file[s.key].read() if s.key in file else s.missing(s.shape) for s in item.sources)
    return item.rule.transform.apply(*values)
