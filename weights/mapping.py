"""Declarative mapping between the keys of a checkpoint and the leaves of a model.

One table of rules for each naming is used in both directions. For reading, it must cover the file
and the model exactly.
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

SHOWN_NAMES = 12  # longest list of names in a message


@dataclass(frozen=True)
class Rule:
    """Mapping of a leaf, or of a family of leaves, to the keys of its sources. A source is a tensor
    of a file from which the leaf is computed.

    **Arguments:**

    - `target`: path of the leaf. A placeholder such as `{i}` stands for one segment of the path,
      and for the same segment in the sources.
    - `sources`: keys of the sources. A source that ends in `?` is optional. A rule without sources
      is for a leaf that no file of the naming contains.
    - `transform`: transform of the sources into the leaf.
    - `missing`: function that returns the values of an optional source, or of a leaf without
      sources, from its shape.
    """

    target: str
    sources: tuple[str, ...]
    transform: Transform = SAME
    missing: Callable[[Shape], Float32] = zeros

    def find_source_keys(self, target: str) -> tuple[str, ...] | None:
        """Return the keys of the sources of the leaf `target`; None if the rule is not for this
        leaf.

        The key of an optional source keeps its `?`. The result is empty for a rule without sources.
        For the rule `blocks.{i}.norm.{p}` ← `layer.{i}.norm2.{p}`, the leaf `blocks.3.norm.bias`
        has the source `layer.3.norm2.bias`.
        """
        match = _pattern(self.target).fullmatch(target)
        return match and tuple(source.format(**match.groupdict()) for source in self.sources)

    def find_leaf(self, key: str) -> str | None:
        """Return the leaf that has the tensor `key` as a source by this rule; None if the rule has
        no such source."""
        for source in self.sources:
            if match := _pattern(source.removesuffix("?")).fullmatch(key):
                return self.target.format(**match.groupdict())
        return None


def same_names(*paths: str) -> tuple[Rule, ...]:
    """Return a rule for each path, a leaf whose tensor in the file has the leaf's own path as its
    name. Paths may contain placeholders."""
    return tuple(Rule(path, (path,)) for path in paths)


def prefix_rules(rules: Iterable[Rule], target: str, source: str) -> tuple[Rule, ...]:
    """Return the rules for a network that is a part of another one.

    **Arguments:**

    - `rules`: the rules for the network alone.
    - `target`: the prefix of its leaves in the larger model, such as `"backbone."`.
    - `source`: the prefix of its tensors in the file. Both prefixes end in a dot or are empty.
    """
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
    """Return the regular expression of a path with placeholders such as `{i}`, which match one
    segment. A placeholder that occurs twice matches the same segment both times. `**` matches one
    or more segments."""
    pattern = re.escape(path).replace(re.escape("**"), ".+")
    for name in re.findall(r"{(\w+)}", path):
        placeholder = re.escape(f"{{{name}}}")
        pattern = pattern.replace(placeholder, f"(?P<{name}>[^.]+)", 1).replace(
            placeholder, f"(?P={name})"
        )
    return re.compile(pattern)


class PathIndex:
    """Index of rules by the patterns of paths.

    It finds the rules that may match a path without trying all rules, which are thousands for some
    files.
    """

    def __init__(self, paths: Iterable[tuple[str, Rule]]):
        """Build the index of pairs of a pattern, such as `blocks.{i}.norm.{p}`, and a rule."""
        self.rules: dict[tuple[str | None, ...], dict[int, Rule]] = {}
        self.wildcards: dict[int, dict[tuple[bool, ...], None]] = {}
        for position, (path, rule) in enumerate(paths):
            parts = path.split(".")
            mask = tuple("{" in part for part in parts)
            self.rules.setdefault(_fixed_segments(parts, mask), {})[position] = rule
            self.wildcards.setdefault(len(parts) - 1, {})[mask] = None

    def find(self, path: str) -> list[Rule]:
        """Return the rules whose pattern may match a path, in the order in which the index got
        them."""
        if (wildcard_masks := self.wildcards.get(path.count("."))) is None:
            return []
        rules: dict[int, Rule] = {}
        for mask in wildcard_masks:
            rules |= self.rules.get(_fixed_segments(path.split("."), mask), {})
        return [rules[position] for position in sorted(rules)]


def _fixed_segments(parts: list[str], mask: tuple[bool, ...]) -> tuple[str | None, ...]:
    """Return the segments of a path, with None in place of those at which `mask` is True."""
    return tuple(
        None if is_wildcard else part for part, is_wildcard in zip(parts, mask, strict=True)
    )


Form = Literal["pytorch", "equimo", "huggingface", "equinox", ""]
"""Format in which files are written: PyTorch's archive, Equimo's archive, a folder for
transformers, or leaves of Equinox. Empty if files of a convention are not written."""


@dataclass(frozen=True)
class Convention:
    """Publisher or library whose names the tensors have.

    **Arguments:**

    - `name`: name for programs.
    - `title`: name for people.
    - `form`: format in which files with these names are written.
    """

    name: str
    title: str
    form: Form = ""


@dataclass(frozen=True)
class Naming:
    """Names that one publisher gives the tensors of a family of models, and how each becomes a
    leaf.

    In patterns of keys, `**` stands for one or more segments.

    **Arguments:**

    - `convention`: the publisher or library.
    - `rules`: the rules for the leaves. The first one that matches a leaf applies.
    - `zero`: patterns of keys that a file may contain although the model does not use them, if all
      values are zero.
    - `copies`: pairs of a pattern of keys and a key. A tensor that matches the pattern has the
      values of the tensor with that key, and the model does not use it.
    - `computed`: patterns of keys whose values the model computes from its sizes.
    - `in_memory`: the naming of the publisher's module in memory; None if its names are those of
      the files.
    - `wrappers`: names of the module that contains the network in the publisher's classifiers. The
      linear layer is outside of it.
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
        """Return a hash of the convention's name and the leaves. Hashing all rules takes as long as
        finding a view."""
        return hash((self.name, *(rule.target for rule in self.rules)))

    def find_copies(self, keys: Collection[str]) -> dict[str, str]:
        """Return the keys of the copies in a complete file, each with the key of the tensor that it
        repeats.

        `keys` are the keys of all other tensors. A placeholder in the pattern of a copy stands for
        every segment that follows the same beginning in these keys, such as the number of every
        block. A copy of a tensor that is not among `keys` is left out.
        """
        originals: dict[str, str] = {}
        for pattern, original in self.copies:
            beginning, brace, _ = pattern.partition("}")
            matches = map(_pattern(f"{beginning}{brace}.**").fullmatch, keys)
            copy_keys = [pattern.format(**match.groupdict()) for match in matches if match] or [
                pattern
            ]
            originals |= {
                copy: original for copy in copy_keys if original in keys and copy != original
            }
        return originals

    def find_leaf(self, key: str) -> str | None:
        """Return the leaf that has the tensor `key` as a source; None if there is none. Rules that
        an earlier rule for the same leaf replaces are not considered."""
        candidates = (
            (rule, leaf) for rule in self._by_source.find(key) if (leaf := rule.find_leaf(key))
        )
        return next((leaf for rule, leaf in candidates if rule is self._find_rule(leaf)), None)

    def rename_key(self, key: str, other: Naming) -> str | None:
        """Return the name that a tensor has in another naming of the same leaves.

        Return None if one of the namings does not have the tensor, or if its leaf has another
        number of sources there.
        """
        leaf = self.find_leaf(key)
        keys, other_keys = (
            () if leaf is None else naming._sources(leaf) for naming in (self, other)
        )
        return (
            dict(zip(keys, other_keys, strict=True)).get(key)
            if len(keys) == len(other_keys)
            else None
        )

    def _sources(self, leaf: str) -> tuple[str, ...]:
        """Return the keys of the tensors of a leaf, including optional ones, without `?`; empty if
        no rule covers the leaf."""
        rule = self._find_rule(leaf)
        keys = None if rule is None else rule.find_source_keys(leaf)
        return tuple(key.removesuffix("?") for key in keys or ())

    def _find_rule(self, leaf: str) -> Rule | None:
        """Return the first rule that matches a leaf; None if no rule matches. It is the rule that
        applies."""
        return next(
            (r for r in self._by_target.find(leaf) if r.find_source_keys(leaf) is not None), None
        )

    @cached_property
    def _by_source(self) -> PathIndex:
        """Index of the rules by the key patterns of their source tensors. The patterns of optional
        tensors are without their `?`."""
        keys = ((key.removesuffix("?"), rule) for rule in self.rules for key in rule.sources)
        return PathIndex(keys)

    @cached_property
    def _by_target(self) -> PathIndex:
        """Index of the rules by the patterns of their leaves."""
        return PathIndex((rule.target, rule) for rule in self.rules)

    def has_leaf(self, leaf: str) -> bool:
        """Return True if a rule covers the leaf, also if the rule has no sources."""
        return self._find_rule(leaf) is not None

    def has_key(self, key: str) -> bool:
        """Return True if files with these names may contain the key, also if the model does not use
        it."""
        return self.find_leaf(key) is not None or _matches_any(self.allowed_unused, key)

    @cached_property
    def allowed_unused(self) -> tuple[str, ...]:
        """Patterns of all keys that a file may contain although the model does not use them: those
        of `zero`, `computed` and `copies`."""
        copy_patterns = (pattern for pattern, _ in self.copies)
        return (*self.zero, *self.computed, *copy_patterns)

    @property
    def heads(self) -> tuple[str, ...]:
        """Names, in the file, of the linear heads of a network for pictures, the main one first.
        Empty for a network without heads and for networks of other inputs."""
        sources = {rule.target: rule.sources for rule in reversed(self.rules)}
        of_pictures = {"patch_embed.proj.weight", "blocks.0.downsample.conv.weight"} & {*sources}
        names = (name for leaf in ("head", "head_dist") for name in sources.get(leaf + ".{p}", ()))
        return tuple(name.removesuffix(".{p}") for name in names) if of_pictures else ()

    @property
    def head(self) -> str:
        """Name of the main linear head of a network for pictures; empty if there is none."""
        return next(iter(self.heads), "")

    @cached_property
    def landmarks(self) -> tuple[str, ...]:
        """Keys of required sources without placeholders, such as `patch_embed.proj.weight`. The
        prefix before them in a file shows where a network is."""
        sources = (source for rule in self.rules for source in rule.sources)
        return tuple(dict.fromkeys(key for key in sources if "{" not in key and "?" not in key))


@dataclass(frozen=True)
class SourceKey:
    """Source of a leaf: the key of a tensor in a file, and the shape that it must have.

    **Arguments:**

    - `optional`: whether a file may lack the tensor.
    - `missing`: a function that returns the tensor's values, from its shape, if a file lacks it.
    """

    key: str
    shape: Shape
    optional: bool
    missing: Callable[[Shape], Float32]


@dataclass(frozen=True)
class LeafPlan:
    """Plan of one leaf of a model: its path (`target`), its shape, its sources in a file, and the
    rule that applies to it."""

    target: str
    shape: Shape
    sources: tuple[SourceKey, ...]
    rule: Rule


def plan_leaves(rules: Iterable[Rule], shapes: Mapping[str, Shape]) -> list[LeafPlan]:
    """Return the plan of each leaf of a model. The first rule that matches a leaf applies.

    **Arguments:**

    - `rules`: the rules of a naming.
    - `shapes`: the shape of each leaf of the model by path.

    **Raises** `KeyError` if no rule matches a leaf, which is an error in the table of rules.
    """
    rules = tuple(rules)
    return [_plan_leaf(rules, target, shape) for target, shape in shapes.items()]


def _plan_leaf(rules: tuple[Rule, ...], target: str, shape: Shape) -> LeafPlan:
    """Return the plan of the leaf `target`, which has this shape. **Raises** `KeyError` if no rule
    matches."""
    for rule in rules:
        if (keys := rule.find_source_keys(target)) is not None:
            pairs = zip(keys, shapes_before(rule.transform, shape), strict=bool(keys))
            sources = (
                SourceKey(key.removesuffix("?"), source, key.endswith("?"), rule.missing)
                for key, source in pairs
            )
            return LeafPlan(target, shape, tuple(sources), rule)
    raise KeyError(f"no rule gives the leaf {target!r}: add one to the table")


def leaf_shape(naming: Naming, file: Mapping[str, LazyTensor], leaf: str) -> Shape | None:
    """Return the shape of a leaf that is computed from the tensors of a file.

    Only required sources are used. Return None if the file has none of them, if their shapes are
    not those that the rule is for, or if no rule covers the leaf.

    **Arguments:**

    - `file`: the tensors of the file by key.
    - `leaf`: the path of the leaf.
    """
    for rule in naming.rules:
        if (keys := rule.find_source_keys(leaf)) is not None:
            shapes = [file[key].shape for key in keys if key in file]
            try:
                parts = (np.broadcast_to(np.float32(0), shape) for shape in shapes)
                return rule.transform.apply(*parts).shape if shapes else None
            except (TypeError, ValueError, IndexError):  # the rule is for other shapes
                return None
    return None


def source_shapes(plans: Iterable[LeafPlan]) -> dict[str, Shape]:
    """Return the shapes, by key, of all sources of leaves, including optional ones. `plans` are the
    plans of the leaves."""
    return {source.key: source.shape for leaf_plan in plans for source in leaf_plan.sources}


def map_tensors(
    naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]
) -> dict[str, LazyTensor]:
    """Return the leaves of a model, by path, from the tensors of a file.

    The values of leaves are read and transformed when they are used. Tensors that the naming allows
    although the model does not use them are read and checked at once.

    **Arguments:**

    - `plans`: the plan of each leaf.
    - `file`: the tensors of the file by key.

    **Raises** `MappingError` with all missing, unexpected and misshapen keys and all wrong dtypes
    in one message, and `BadValues` if keys that the model does not use have other values than the
    naming says.
    """
    if problems := describe_misfits(naming, plans, file):
        raise MappingError(
            "the checkpoint does not fit the model: " + "; ".join(problems) + ". "
            "Give the checkpoint that was published for this model."
        )
    _check_allowed_unused(naming, _find_allowed_unused(naming, plans, file), file)
    return {
        leaf_plan.target: LazyTensor(
            leaf_plan.shape, "float32", partial(_read_leaf, leaf_plan, file)
        )
        for leaf_plan in plans
    }


def describe_misfits(
    naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]
) -> list[str]:
    """Return the reasons why a file does not match a model. The list is empty if the file matches.

    There is one text for each kind of problem that `find_misfits` finds. It has the number of keys
    and the first ones. No values are read. `plans` are the plans of all leaves of the model, and
    `file` has the tensors by key.
    """
    reasons = find_misfits(naming, plans, file)
    return [
        f"{len(names)} {problem}: {_list_names(names)}"
        for problem, names in reasons.items()
        if names
    ]


def find_misfits(
    naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]
) -> dict[str, list[str]]:
    """Return the problems because of which a file does not match a model. No values are read.

    The result always has the following four lists, which are empty if there is no such problem:

    - "missing": keys of required sources that the file lacks.
    - "unexpected": keys of the file that neither the model uses nor the naming allows
      (`Naming.allowed_unused`). Unrelated keys (`find_unrelated_keys`) are left out.
    - "of another shape": texts with a key, its shape and the expected shape.
    - "of another type": texts with the key and dtype of a tensor that does not contain floats.

    `plans` are the plans of all leaves of the model, and `file` has the tensors by key.
    """
    unexpected = {*file} - {*source_shapes(plans)} - _find_allowed_unused(naming, plans, file)
    unexpected -= {*find_unrelated_keys(naming, plans, file)}
    sources = {source.key: source for leaf_plan in plans for source in leaf_plan.sources}
    present = [(key, file[key], source.shape) for key, source in sources.items() if key in file]
    floats = ", ".join(sorted(FLOATS))
    return {
        "missing": [
            key for key, source in sources.items() if key not in file and not source.optional
        ],
        "unexpected": [key for key in file if key in unexpected],
        "of another shape": [
            f"{key} (is {list(tensor.shape)}, must be {list(shape)})"
            for key, tensor, shape in present
            if tensor.shape != shape
        ],
        "of another type": [
            f"{key} (is {tensor.dtype}, must be {floats})"
            for key, tensor, _ in present
            if tensor.dtype not in FLOATS
        ],
    }


def find_unrelated_keys(
    naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]
) -> list[str]:
    """Return the keys of a file that do not belong to the network, in the order of the file:
    tensors without floats such as counters, empty tensors, single numbers, mask tokens, and tensors
    of other modules.

    Keys that the model uses or that the naming allows (`Naming.allowed_unused`) are not among them.
    Neither are other unused keys inside the network, because a network with additional tensors
    computes something else.

    `plans` are the plans of all leaves of the model, and `file` has the tensors by key.
    """
    source_keys = source_shapes(plans)
    modules = {key.partition(".")[0] for key in source_keys}
    allowed_unused = _find_allowed_unused(naming, plans, file)
    return [
        key
        for key, tensor in file.items()
        if key not in source_keys
        and key not in allowed_unused
        and _is_unrelated(key, tensor, modules, naming)
    ]


def _is_unrelated(key: str, tensor: LazyTensor, modules: Collection[str], naming: Naming) -> bool:
    """Return True if an unused tensor does not belong to the network.

    `modules` are the first segments of the keys that the model uses.
    """
    if tensor.dtype not in FLOATS or 0 in tensor.shape:  # a counter, an index, zero registers
        return True
    if math.prod(tensor.shape) == 1:
        return not naming.has_key(key)  # such as the temperature of a loss
    module, dot, _ = key.partition(".")
    is_other_module = dot and module not in modules and naming.find_leaf(key) is None
    # Only training uses the mask token.
    return bool(is_other_module) or key.rpartition(".")[2] == "mask_token"


def _find_allowed_unused(
    naming: Naming, plans: list[LeafPlan], file: Mapping[str, LazyTensor]
) -> set[str]:
    """Return the keys of a file that the model does not use, but that the naming allows
    (`Naming.allowed_unused`)."""
    source_keys = source_shapes(plans)
    return {
        key for key in file if key not in source_keys and _matches_any(naming.allowed_unused, key)
    }


def _matches_any(patterns: Iterable[str], key: str) -> bool:
    """Return True if a key matches one of these patterns."""
    return any(_pattern(pattern).fullmatch(key) for pattern in patterns)


def _check_allowed_unused(naming: Naming, keys: set[str], file: Mapping[str, LazyTensor]) -> None:
    """Read the values of keys that the model does not use, and check that the naming allows them.

    They have to be zeros or copies of other tensors, as the naming says. Values that the model
    computes (`Naming.computed`) are not checked.

    **Raises** `BadValues` for other values, which the model would ignore.
    """
    advice = "give the checkpoint that was published for this model."
    zero_keys = sorted(key for key in keys if _matches_any(naming.zero, key))
    if wrong := [
        key for key in zero_keys if file[key].dtype not in FLOATS or file[key].read().any()
    ]:
        condition = "which a file may contain only if all values are zero"
        raise BadValues(f"the model has no place for {_list_names(wrong)}, {condition}: {advice}")
    for pattern, original in naming.copies:
        # A file may leave out an optional original. Its copies are then refused.
        copies = sorted(key for key in keys if _pattern(pattern).fullmatch(key))
        if wrong := [key for key in copies if not _is_copy(file[key], file.get(original))]:
            raise BadValues(f"{_list_names(wrong)} must repeat {original} and does not: {advice}")


def _is_copy(copy: LazyTensor, original: LazyTensor | None) -> bool:
    """Return True if two tensors contain floats and have the same shape and equal values. NaN
    equals NaN. Return False if there is no original, or if one of them does not contain floats."""
    if original is None:
        return False
    comparable = copy.dtype in FLOATS and original.dtype in FLOATS and copy.shape == original.shape
    return comparable and np.array_equal(copy.read(), original.read(), equal_nan=True)


def _list_names(names: list[str]) -> str:
    """Return the first `SHOWN_NAMES` names as text, followed by the number of the remaining ones.
    Unprintable names are escaped, and a text of more than 2,000 characters is cut off."""
    remaining = len(names) - SHOWN_NAMES
    # The names come from the file, so unprintable ones are escaped.
    text = ", ".join(name if name.isprintable() else ascii(name) for name in names[:SHOWN_NAMES])
    return text[:2000] + (f" and {remaining} more" if remaining > 0 else "")


def _read_leaf(leaf_plan: LeafPlan, file: Mapping[str, LazyTensor]) -> Float32:
    """Return the values of the leaf of a plan, computed from its sources in a file. Sources that
    the file lacks have their default values."""
    if not leaf_plan.sources:
        return leaf_plan.rule.missing(leaf_plan.shape)
    values = (
        file[source.key].read() if source.key in file else source.missing(source.shape)
        for source in leaf_plan.sources
    )
    return leaf_plan.rule.transform.apply(*values)
