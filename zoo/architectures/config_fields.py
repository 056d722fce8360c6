"""Fields of configurations that carry what is known of them: plain data without JAX.

    @config_class
    class PyramidConfig(Configuration):
        depth: int = size("blocks.{}.norm1.weight", least=0, most=DEEPEST, hf="encoder_layers")
        heads: int = setting(hf="encoder_attention_heads")
        norm_eps: float = detail(default=1e-5, hf="layer_norm_eps")

- `size` is a value that the shapes of tensors determine.
- `setting` is a value that only a settings file has.
- `detail` is a value that may be another one in a user's own network of the same kind and sizes.

A field without one of these tells networks apart, and is the same in all checkpoints of a row of
the registry. The functions below, and those of `config_settings.py`, work on the fields of any
configuration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from itertools import count, takewhile
from typing import Any, ClassVar, Literal, TypeVar, cast, dataclass_transform, get_args

MOST, DEEPEST = 1 << 17, 512
"""What a network has at most of anything, and of blocks: more is a trap."""

Shape = tuple[int, ...]

Shapes = Callable[[str], Shape | None]
"""The shape that a checkpoint gives a leaf; None where it has none."""

Role = Literal["size", "setting", "detail"]

SizeReader = Callable[[Any, Shapes], Any]
"""Function of a configuration with the usual values and of the shapes of leaves, which returns the
value of one field."""


Question = Callable[[Any, Shapes, Any], str]
"""Function of a configuration, the shapes of leaves, and settings that do not state a field, which
returns words about it."""


@dataclass(frozen=True)
class Key:
    """The name of a field in a settings file, with dots before names in parts of it.

    `read` makes a value of the field of what the file states, or returns None where that says
    nothing; it **raises** `ValueError` for what there is not. `write` makes what is written.
    `absent` is what the library has where its file states nothing; None keeps the usual value.
    """

    name: str
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    absent: Any = None
    is_read: bool = True


def write_only(name: str, write: Callable[[Any], Any] | None = None) -> Key:
    """Return the name of a field that is written, and not read because other values follow it."""
    return Key(name, write=write, is_read=False)


@dataclass(frozen=True)
class FieldFacts:
    """What is known of a field. `size`, `setting` and `detail` describe the arguments."""

    role: Role
    leaf: str | SizeReader | None = None
    axis: int | None = None
    per: int = 1
    less: int = 0
    keys: Mapping[str, Key] = dataclasses.field(default_factory=dict)
    least: int = 1
    most: int = MOST
    alike: Callable[[Any], Any] | None = None
    ask: Question | None = None
    neutral: int | None = None
    values: Callable[[Mapping[str, Any]], Any] | None = None
    optional_leaf: str = ""

    @property
    def is_in_settings(self) -> bool:
        """Whether settings are read: tensors do not determine the field."""
        return self.role == "setting" or (self.role == "detail" and self.leaf is None)

    def measure(self, config: Configuration, shapes: Shapes) -> Any:
        """Return the value of the field that leaves of these shapes have."""
        if callable(self.leaf):
            return self.leaf(config, shapes)
        assert self.leaf is not None
        numbers = self.leaf.count("{}")
        if numbers and (numbers > 1 or self.axis is not None):
            return tuple(takewhile(bool, (self._length(shapes, i) for i in count())))
        return self._length(shapes, None) // self.per - self.less

    def _length(self, shapes: Shapes, number: int | None) -> int:
        leaf = cast(str, self.leaf)
        if number is not None:
            leaf = leaf.replace("{}", str(number), 1)
        return (
            count_numbered(shapes, leaf) if "{}" in leaf else length(shapes, leaf, self.axis or 0)
        )

    def has_size(self, value: Any, shapes: Shapes) -> bool:
        """Return whether leaves have the size `value`, of which only the last is looked at where
        numbered leaves are counted."""
        if isinstance(self.leaf, str) and self.axis is None and self.leaf.count("{}") == 1:
            last = not value or shapes(self.leaf.format(value - 1)) is not None
            return last and shapes(self.leaf.format(value)) is None
        return callable(self.leaf) or bool(self.measure(Configuration(), shapes) == value)

    def is_within(self, value: Any) -> bool:
        """Return whether whole numbers are within the bounds, and others above zero."""
        if isinstance(value, tuple):
            return all(map(self.is_within, value))
        if type(value) is float:
            return value > 0
        return type(value) is not int or self.least <= value <= self.most


FACTS = "facts"
"""The key of a field's metadata."""


def _declared(facts: FieldFacts, default: Any) -> Any:
    if default is MISSING:
        return dataclasses.field(metadata={FACTS: facts})
    return dataclasses.field(default=default, metadata={FACTS: facts})


def _keys(**names: str | Key | None) -> dict[str, Key]:
    """Return the names in settings files by library, of those that there are."""
    keys = {
        library: Key(name) if isinstance(name, str) else name for library, name in names.items()
    }
    return {library: key for library, key in keys.items() if key is not None}


def size(
    leaf: str | SizeReader,
    axis: int | None = None,
    *,
    default: Any = MISSING,
    per: int = 1,
    less: int = 0,
    hf: str | Key | None = None,
    timm: str | Key | None = None,
    equimo: str | Key | None = None,
    least: int = 1,
    most: int = MOST,
    alike: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a field that the shapes of leaves determine.

    **Arguments:**

    - `leaf`: the path of a leaf, of which one axis has the size: the first, or `axis`. With `{}`
      for a number in the path, such leaves are counted from 0. With `{}` and `axis`, or with `{}`
      twice, the value is a tuple with an entry for each number of the first. A function of the
      configuration and the shapes reads what no leaf says alone.
    - `per`, `less`: the value is `length // per - less`.
    - `hf`, `timm`, `equimo`: the name in transformers' config.json, among timm's arguments, and in
      Equimo's settings.
    - `least`, `most`: bounds of whole numbers. A checkpoint with fewer is of another network.
    - `alike`: what is compared in place of the value where networks are compared without sizes, as
      a function of the configuration.
    """
    keys = _keys(hf=hf, timm=timm, equimo=equimo)
    return _declared(FieldFacts("size", leaf, axis, per, less, keys, least, most, alike), default)


def setting(
    *,
    default: Any = MISSING,
    leaf: SizeReader | None = None,
    hf: str | Key | None = None,
    timm: str | Key | None = None,
    equimo: str | Key | None = None,
    least: int = 1,
    most: int = MOST,
    ask: Question | None = None,
    neutral: int | None = None,
) -> Any:
    """Declare a field that only a settings file has; for arguments that are not described here,
    see `size`.

    **Arguments:**

    - `leaf`: a function that returns a first value, such as one that suits the shapes.
    - `ask`: a function that returns words about a value that no file states, which end with what
      to write into one; empty where the usual value may be taken.
    - `neutral`: a value that suits the tensors of any network.
    """
    keys = _keys(hf=hf, timm=timm, equimo=equimo)
    facts = FieldFacts("setting", leaf, keys=keys, least=least, most=most, ask=ask, neutral=neutral)
    return _declared(facts, default)


def detail(
    *,
    default: Any = MISSING,
    leaf: str | SizeReader | None = None,
    less: int = 0,
    hf: str | Key | None = None,
    timm: str | Key | None = None,
    equimo: str | Key | None = None,
    least: int = 0,
    most: int = MOST,
    alike: Callable[[Any], Any] | None = None,
    ask: Question | None = None,
    values: Callable[[Mapping[str, Any]], Any] | None = None,
    optional_leaf: str = "",
) -> Any:
    """Declare a field that may be another one in a user's own network; for arguments that are not
    described here, see `size` and `setting`.

    **Arguments:**

    - `values`: a function that reads the field from the values of leaves, by their paths.
    - `optional_leaf`: the path of a leaf that a network has only if the field is true.
    """
    keys = _keys(hf=hf, timm=timm, equimo=equimo)
    return _declared(
        FieldFacts(
            "detail",
            leaf,
            less=less,
            keys=keys,
            least=least,
            most=most,
            alike=alike,
            ask=ask,
            values=values,
            optional_leaf=optional_leaf,
        ),
        default,
    )


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(size, setting, detail))
def config_class(cls: type[T]) -> type[T]:
    """Make a frozen dataclass of a class of which fields are declared with these functions."""
    return dataclass(frozen=True)(cls)


class Configuration:
    """Base of configurations, of networks and of parts of them."""

    @property
    def is_consistent(self) -> bool:
        """Whether the fields, each of which is within its bounds, go together."""
        return True

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        return all(map(_is_bounded, declared_fields(self))) and self.is_consistent


class NetworkConfig(Configuration):
    """Base of configurations of networks.

    `settings_in` are the names of the part of a settings file that is about such a network, where
    it has one. Without `settings_need` a settings file says nothing of it.

    `towers` are its parts that folders have files of, by transformers.js' names.
    """

    towers: ClassVar[Mapping[str, str]] = {}
    settings_in: ClassVar[tuple[str, ...]] = ()
    settings_need: ClassVar[str] = ""


C = TypeVar("C", bound=Configuration)


@dataclass(frozen=True)
class DeclaredField:
    """A field of a configuration with its value; None in place of facts that it does not have."""

    name: str
    facts: FieldFacts | None
    value: Any


def declared_fields(config: Configuration) -> Iterator[DeclaredField]:
    """Yield the fields of a configuration."""
    for each in fields(cast(Any, config)):
        yield DeclaredField(each.name, each.metadata.get(FACTS), getattr(config, each.name))


def with_fields(config: C, **values: object) -> C:
    """Return the configuration with other values of some fields."""
    changed: C = replace(cast(Any, config), **values)
    return changed


def _is_bounded(each: DeclaredField) -> bool:
    if isinstance(each.value, Configuration):
        return each.value.is_sound
    return each.facts is None or each.facts.is_within(each.value)


def own_parts(config: Configuration) -> Iterator[DeclaredField]:
    """Yield the fields of a configuration that are configurations of parts, but of no networks."""
    for each in declared_fields(config):
        if isinstance(each.value, Configuration) and not isinstance(each.value, NetworkConfig):
            yield each


def with_parts(config: C, change: Callable[[Any], Any]) -> C:
    """Return the configuration with its parts changed, but for those that are networks."""
    parts = {each.name: change(each.value) for each in own_parts(config)}
    return with_fields(config, **parts) if parts else config


def with_sizes(config: C, shapes: Shapes) -> C | None:
    """Return a network of the same architecture in the sizes that a checkpoint has.

    Fields that no leaf determines keep their values, and so do parts that are networks. Return
    None if a size is not within its bounds: the checkpoint lacks a leaf, or is of another network.
    """
    found: dict[str, object] = {}
    for each in declared_fields(config):
        if isinstance(each.value, Configuration):
            if isinstance(each.value, NetworkConfig):
                continue
            if (part := with_sizes(each.value, shapes)) is None:
                return None
            found[each.name] = part
        elif each.facts is not None and each.facts.leaf is not None:
            found[each.name] = each.facts.measure(config, shapes)
            if not each.facts.is_within(found[each.name]):
                return None
    return with_fields(config, **found)


def has_own_sizes(config: Configuration, shapes: Shapes) -> bool:
    """Return whether a checkpoint has the leaves that the sizes of a configuration are read from,
    as far as one leaf says one of them: a look that needs no network to be built."""
    return all(
        has_own_sizes(each.value, shapes)
        if isinstance(each.value, Configuration) and not isinstance(each.value, NetworkConfig)
        else each.facts is None
        or each.facts.role != "size"
        or each.facts.has_size(each.value, shapes)
        for each in declared_fields(config)
    )


def absent_own_leaves(config: Configuration) -> set[str]:
    """Return the optional leaves that a network does not have, without those of its parts."""
    return {
        each.facts.optional_leaf
        for each in declared_fields(config)
        if each.facts is not None and each.facts.optional_leaf and not each.value
    }


def with_values(config: C, leaves: Mapping[str, Any]) -> C:
    """Return the configuration with the fields that the values of leaves determine."""
    read = {
        each.name: each.facts.values(leaves)
        for each in declared_fields(config)
        if each.facts is not None and each.facts.values is not None
    }
    return with_fields(config, **read) if read else config


def comparable(config: Configuration, ignored: Collection[str]) -> tuple[object, ...]:
    """Return the values of all fields, but for those with such a role, to be compared with those of
    another configuration."""
    found: list[object] = [type(config)]
    for each in declared_fields(config):
        if isinstance(each.value, Configuration):
            found.append(comparable(each.value, ignored))
        elif each.facts is None or each.facts.role not in ignored:
            found.append(each.value)
        elif each.facts.alike is not None:
            found.append(each.facts.alike(config))
    return tuple(found)


def have_same_sizes(one: Configuration, other: Configuration) -> bool:
    """Return whether two networks are the same but for details."""
    return comparable(one, ("detail",)) == comparable(other, ("detail",))


def have_same_architecture(one: Configuration, other: Configuration) -> bool:
    """Return whether two networks are the same but for sizes, settings and details."""
    return comparable(one, get_args(Role)) == comparable(other, get_args(Role))


def whole_numbers(stated: Any) -> tuple[int, ...]:
    """Return a list of whole numbers as a tuple. **Raises** `TypeError` for anything else."""
    if not isinstance(stated, list | tuple) or any(type(number) is not int for number in stated):
        raise TypeError
    return tuple(stated)


def some_numbers(stated: Any) -> tuple[int, ...] | None:
    """Return a list of whole numbers as a tuple; None for an empty one, which says nothing."""
    return whole_numbers(stated) or None


def length(shapes: Shapes, leaf: str, axis: int = 0) -> int:
    """Return the length of an axis of a leaf; 0 where there is none."""
    shape = shapes(leaf) or ()
    return shape[axis] if axis < len(shape) else 0


def count_numbered(shapes: Shapes, leaf: str) -> int:
    """Return how many leaves of numbered names there are, from 0 on."""
    return sum(1 for _ in takewhile(lambda number: shapes(leaf.format(number)), count()))


def channels_between(shapes: Shapes, first: str, last: str, times: int) -> int:
    """Return the channels between two layers of the first block; 0 where they are not those."""
    one, other = (shapes(f"blocks.0.mlp.{layer}.weight") or () for layer in (first, last))
    fitting = len(one) == len(other) == 2 and one[0] == times * other[1]
    return other[1] if fitting else 0
