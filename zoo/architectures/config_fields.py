"""Fields of configurations, with the facts that say how each field is read, compared and bounded.
This module is plain data without JAX.

    @config_class
    class PyramidConfig(Configuration):
        depth: int = size("blocks.{}.norm1.weight", minimum=0, hf="encoder_layers")
        heads: int = setting(hf="encoder_attention_heads")
        norm_eps: float = detail(default=1e-5, hf="layer_norm_eps")

- `size` declares a value that the shapes of tensors determine.
- `setting` declares a value that only a settings file has.
- `detail` declares a value that a custom network of the same kind and sizes may have differently.

A field that is declared without one of these distinguishes networks. It is the same in all
checkpoints of one row of the registry. The functions below, and those of `config_settings.py`, work
on the fields of any configuration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from itertools import count, takewhile
from typing import Any, ClassVar, Literal, TypeVar, cast, dataclass_transform, get_args

MAX_SIZE, MAX_DEPTH = 1 << 17, 512
"""Largest value of a size, and largest number of blocks. A checkpoint with larger ones is rejected,
because it could exhaust memory or time."""

Shape = tuple[int, ...]

Shapes = Callable[[str], Shape | None]
"""Function from the path of a leaf to its shape in a checkpoint; None if the checkpoint has no such
leaf."""

Role = Literal["size", "setting", "detail"]

SizeReader = Callable[[Any, Shapes], Any]
"""Function that returns the value of one field. It gets the configuration of the registry's row and
the shapes of leaves."""


DescribeMissing = Callable[[Any, Shapes, Any], str]
"""Function that describes a value that the settings do not state. It gets the configuration, the
shapes of leaves and the settings, and returns part of a message; empty if the configuration's value
may be used."""


@dataclass(frozen=True)
class Key:
    """Name of a field in a settings file, with dots before the names in nested objects, such as
    `vision_config.hidden_size`.

    **Arguments:**

    - `name`: the name in the file.
    - `read`: converts the value in the file to the value of the field. It returns None if the
      file's value does not determine the field, and raises `ValueError` if the value is not valid.
      None takes a value as it is; a value of another type than the field's current one is not
      valid.
    - `write`: converts the value of the field to the value in the file. None writes the value as it
      is.
    - `library_default`: the value that the library uses if its file does not state one. None keeps
      the configuration's value.
    - `is_read`: False if the field is only written, because other settings determine it.
    """

    name: str
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    library_default: Any = None
    is_read: bool = True


def write_only(name: str, write: Callable[[Any], Any] | None = None) -> Key:
    """Return the key of a field that is written to a settings file under this name, but not read
    from it.

    `write` converts the value of the field to the value in the file; None writes it as it is.
    """
    return Key(name, write=write, is_read=False)


@dataclass(frozen=True)
class FieldFacts:
    """Facts about a field of a configuration: how it is read, compared and bounded. The arguments
    are described at `size`, `setting` and `detail`; `role` is the name of one of these functions.
    """

    role: Role
    leaf: str | SizeReader | None = None
    axis: int | None = None
    divisor: int = 1
    subtract: int = 0
    keys: Mapping[str, Key] = dataclasses.field(default_factory=dict)
    minimum: int = 1
    maximum: int = MAX_SIZE
    compare_by: Callable[[Any], Any] | None = None
    describe_missing: DescribeMissing | None = None
    neutral: int | None = None
    read_values: Callable[[Mapping[str, Any]], Any] | None = None
    optional_leaf: str = ""

    @property
    def is_in_settings(self) -> bool:
        """Whether the field is read from settings. That is so for every `setting`, and for a
        `detail` without a leaf. All other fields are only written to settings."""
        return self.role == "setting" or (self.role == "detail" and self.leaf is None)

    def measure(self, config: Configuration, shapes: Shapes) -> Any:
        """Return the value of this field in a checkpoint, read from the shapes of its leaves.

        `leaf` determines what is read:

        - A function: its result for `config` and `shapes`.
        - A path without `{}`: the length of that leaf along `axis`; None is axis 0.
        - A path with one `{}`, and `axis` None: the number of leaves with 0, 1, … for the `{}`.
        - A path with one `{}`, and an `axis`: a tuple of the lengths of these leaves along it.
        - A path with two `{}`: a tuple of counts. Entry `i` is the number of leaves with `i` for
          the first `{}` and 0, 1, … for the second.

        In the second and third case the result is `number // divisor - subtract`, where `number` is
        the length or the count. A leaf that the checkpoint lacks has the length 0. A tuple ends
        before its first 0.

        **Arguments:**

        - `config`: the configuration in the registry that has the field. Only functions use it.
        - `shapes`: the shapes of the checkpoint's leaves.
        """
        if callable(self.leaf):
            return self.leaf(config, shapes)
        assert self.leaf is not None
        numbers = self.leaf.count("{}")
        if numbers and (numbers > 1 or self.axis is not None):
            return tuple(takewhile(bool, (self._length(shapes, i) for i in count())))
        return self._length(shapes, None) // self.divisor - self.subtract

    def _length(self, shapes: Shapes, number: int | None) -> int:
        """Return one number that the path `leaf` determines.

        It is the length of an axis of that leaf. If the path has a `{}`, it is the number of leaves
        with 0, 1, … for the `{}`. `number` replaces the first `{}` of the path before; None leaves
        the path as it is.
        """
        leaf = cast(str, self.leaf)
        if number is not None:
            leaf = leaf.replace("{}", str(number), 1)
        return (
            count_numbered_leaves(shapes, leaf)
            if "{}" in leaf
            else length(shapes, leaf, self.axis or 0)
        )

    def has_size(self, value: Any, shapes: Shapes) -> bool:
        """Return True if the checkpoint's size for this field is `value`.

        If numbered leaves are counted, only the last one and the one after it are looked up. If a
        function computes the size, nothing is checked and the result is True.
        """
        if isinstance(self.leaf, str) and self.axis is None and self.leaf.count("{}") == 1:
            last = not value or shapes(self.leaf.format(value - 1)) is not None
            return last and shapes(self.leaf.format(value)) is None
        return callable(self.leaf) or bool(self.measure(Configuration(), shapes) == value)

    def is_within(self, value: Any) -> bool:
        """Return True if a value of the field is allowed.

        An integer must be between `minimum` and `maximum`, and a float must be positive. Every
        entry of a tuple must be allowed. Values of other types, such as None, booleans and texts,
        are always allowed.
        """
        if isinstance(value, tuple):
            return all(map(self.is_within, value))
        if type(value) is float:
            return value > 0
        return type(value) is not int or self.minimum <= value <= self.maximum


FACTS = "facts"
"""Key of `FieldFacts` in the metadata of a dataclass field."""


def _declare_field(facts: FieldFacts, default: Any) -> Any:
    """Return a dataclass field with these facts in its metadata. The field has no default if
    `default` is `MISSING`."""
    if default is MISSING:
        return dataclasses.field(metadata={FACTS: facts})
    return dataclasses.field(default=default, metadata={FACTS: facts})


def _keys_by_library(**names: str | Key | None) -> dict[str, Key]:
    """Return the keys of a field by the library whose settings file has them.

    A text becomes a `Key` with this name. Libraries whose key is None are left out.
    """
    keys = {
        library: Key(name) if isinstance(name, str) else name for library, name in names.items()
    }
    return {library: key for library, key in keys.items() if key is not None}


def size(
    leaf: str | SizeReader,
    axis: int | None = None,
    *,
    default: Any = MISSING,
    divisor: int = 1,
    subtract: int = 0,
    hf: str | Key | None = None,
    timm: str | Key | None = None,
    equimo: str | Key | None = None,
    minimum: int = 1,
    maximum: int = MAX_SIZE,
    compare_by: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a field that the shapes of leaves determine.

    **Arguments:**

    - `leaf`: the path of a leaf whose axis 0, or `axis`, has the size. With `{}` for a number in
      the path, the value is the number of such leaves, counted from 0. With `{}` and `axis`, or
      with `{}` twice, the value is a tuple with one entry for each number at the first `{}`. A
      function of the configuration and the shapes reads a size that needs several leaves.
    - `default`: the value in a configuration that does not state one. Without it, the field is
      required.
    - `divisor`, `subtract`: the value is `length // divisor - subtract`.
    - `hf`, `timm`, `equimo`: the name of the field in transformers' config.json, among timm's
      arguments, and in Equimo's settings. None if the library has no such setting. A `size` is
      written under these names, but never read from settings.
    - `minimum`, `maximum`: bounds of integers. A checkpoint outside the bounds is of another
      network.
    - `compare_by`: a function of the configuration. Its result is compared where networks are
      compared without the values of such fields (see `comparison_key`).

    **Returns** a dataclass field.
    """
    keys = _keys_by_library(hf=hf, timm=timm, equimo=equimo)
    return _declare_field(
        FieldFacts("size", leaf, axis, divisor, subtract, keys, minimum, maximum, compare_by),
        default,
    )


def setting(
    *,
    default: Any = MISSING,
    leaf: SizeReader | None = None,
    hf: str | Key | None = None,
    timm: str | Key | None = None,
    equimo: str | Key | None = None,
    minimum: int = 1,
    maximum: int = MAX_SIZE,
    describe_missing: DescribeMissing | None = None,
    neutral: int | None = None,
) -> Any:
    """Declare a field that only a settings file has. Arguments that are not listed here are
    described at `size`.

    **Arguments:**

    - `leaf`: a function that returns a value before the settings are read, for example one that
      fits the shapes.
    - `describe_missing`: a function that is called if no file states the value. It returns a
      description of the value, which ends with the setting that the user has to write; it is empty
      if the configuration's value may be used.
    - `neutral`: a value that fits the tensors of any network, such as one attention head.

    **Returns** a dataclass field.
    """
    keys = _keys_by_library(hf=hf, timm=timm, equimo=equimo)
    facts = FieldFacts(
        "setting",
        leaf,
        keys=keys,
        minimum=minimum,
        maximum=maximum,
        describe_missing=describe_missing,
        neutral=neutral,
    )
    return _declare_field(facts, default)


def detail(
    *,
    default: Any = MISSING,
    leaf: str | SizeReader | None = None,
    subtract: int = 0,
    hf: str | Key | None = None,
    timm: str | Key | None = None,
    equimo: str | Key | None = None,
    minimum: int = 0,
    maximum: int = MAX_SIZE,
    compare_by: Callable[[Any], Any] | None = None,
    describe_missing: DescribeMissing | None = None,
    read_values: Callable[[Mapping[str, Any]], Any] | None = None,
    optional_leaf: str = "",
) -> Any:
    """Declare a field in which a custom network of the same sizes may differ from the registry's.
    Arguments that are not listed here are described at `size` and `setting`.

    **Arguments:**

    - `leaf`: as for `size`; the shapes then determine the field, and settings are not read. None if
      shapes do not determine it.
    - `read_values`: a function that gets the arrays of leaves by path and returns the value of the
      field. None if the numbers in arrays do not determine the field.
    - `optional_leaf`: the path of a leaf that a network has only if the field is true; empty if
      there is no such leaf.

    **Returns** a dataclass field.
    """
    keys = _keys_by_library(hf=hf, timm=timm, equimo=equimo)
    return _declare_field(
        FieldFacts(
            "detail",
            leaf,
            subtract=subtract,
            keys=keys,
            minimum=minimum,
            maximum=maximum,
            compare_by=compare_by,
            describe_missing=describe_missing,
            read_values=read_values,
            optional_leaf=optional_leaf,
        ),
        default,
    )


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(size, setting, detail))
def config_class(cls: type[T]) -> type[T]:
    """Return the class as a frozen dataclass whose fields are declared with `size`, `setting` and
    `detail`."""
    return dataclass(frozen=True)(cls)


class Configuration:
    """Base class of the configurations of networks and of their parts."""

    @property
    def is_consistent(self) -> bool:
        """Whether the fields fit each other; True unless a subclass checks it. Bounds of single
        fields are checked by `is_sound`."""
        return True

    @property
    def is_sound(self) -> bool:
        """Whether all fields are within their bounds and fit each other, so that a network can be
        built."""
        return all(map(_is_bounded, declared_fields(self))) and self.is_consistent


class NetworkConfig(Configuration):
    """Base class of the configurations of networks.

    - `towers`: the nested networks that a folder has separate files of, by transformers.js' names.
    - `settings_sections`: names of the section of a settings file that describes such a network, if
      it is not the full file.
    - `required_setting`: a name that a settings file must have; a file without it does not describe
      the network.
    """

    towers: ClassVar[Mapping[str, str]] = {}
    settings_sections: ClassVar[tuple[str, ...]] = ()
    required_setting: ClassVar[str] = ""


C = TypeVar("C", bound=Configuration)


@dataclass(frozen=True)
class DeclaredField:
    """A field of a configuration with its value. `facts` is None if the field was declared without
    `size`, `setting` or `detail`."""

    name: str
    facts: FieldFacts | None
    value: Any


def declared_fields(config: Configuration) -> Iterator[DeclaredField]:
    """Yield the fields of a configuration in order, each with its facts and its value. A nested
    configuration is yielded as one field; its own fields are not."""
    for field in fields(cast(Any, config)):
        yield DeclaredField(field.name, field.metadata.get(FACTS), getattr(config, field.name))


def with_fields(config: C, **values: object) -> C:
    """Return a copy of the configuration in which the named fields have these values."""
    changed: C = replace(cast(Any, config), **values)
    return changed


def _is_bounded(field: DeclaredField) -> bool:
    """Return True if the value of the field, or of each field of a nested configuration, is within
    its bounds."""
    if isinstance(field.value, Configuration):
        return field.value.is_sound
    return field.facts is None or field.facts.is_within(field.value)


def nested_configs(config: Configuration) -> Iterator[DeclaredField]:
    """Yield the fields whose values are configurations of parts, such as learned positions.

    Configurations of complete networks, such as a backbone, are left out.
    """
    for field in declared_fields(config):
        if isinstance(field.value, Configuration) and not isinstance(field.value, NetworkConfig):
            yield field


def with_parts(config: C, change: Callable[[Any], Any]) -> C:
    """Return the configuration with each nested configuration of a part replaced by `change(part)`.
    Nested networks are not changed."""
    parts = {field.name: change(field.value) for field in nested_configs(config)}
    return with_fields(config, **parts) if parts else config


def with_sizes(config: C, shapes: Shapes) -> C | None:
    """Return the configuration with the sizes of a checkpoint, whose leaves have these shapes.

    Every field that is declared with a `leaf` is read, also if it is a setting or a detail. Nested
    configurations of parts get their sizes too, from leaves whose paths begin at the network.
    Fields without a `leaf` keep their values, and so do nested networks. Return None if a value is
    not within its bounds: the checkpoint lacks a leaf, or is of another network.
    """
    sizes: dict[str, object] = {}
    for field in declared_fields(config):
        if isinstance(field.value, Configuration):
            if isinstance(field.value, NetworkConfig):
                continue
            if (part := with_sizes(field.value, shapes)) is None:
                return None
            sizes[field.name] = part
        elif field.facts is not None and field.facts.leaf is not None:
            sizes[field.name] = field.facts.measure(config, shapes)
            if not field.facts.is_within(sizes[field.name]):
                return None
    return with_fields(config, **sizes)


def has_top_level_sizes(config: Configuration, shapes: Shapes) -> bool:
    """Return True if a checkpoint has the sizes of this configuration.

    `shapes` returns the shapes of the checkpoint's leaves. Only fields that are declared with
    `size` are compared, also those of nested parts. Sizes that a function reads from several leaves
    are not compared. The check builds no network. Nested networks are not checked.
    """
    return all(
        has_top_level_sizes(field.value, shapes)
        if isinstance(field.value, Configuration) and not isinstance(field.value, NetworkConfig)
        else field.facts is None
        or field.facts.role != "size"
        or field.facts.has_size(field.value, shapes)
        for field in declared_fields(config)
    )


def absent_top_level_leaves(config: Configuration) -> set[str]:
    """Return the paths of optional leaves that a network does not have: the `optional_leaf` of each
    detail whose value is false, such as `mask_token`. Leaves of nested configurations are left out.
    """
    return {
        field.facts.optional_leaf
        for field in declared_fields(config)
        if field.facts is not None and field.facts.optional_leaf and not field.value
    }


def with_values(config: C, leaves: Mapping[str, Any]) -> C:
    """Return the configuration with new values for the fields that are read from the values of
    arrays.

    An example is whether a bias is zero everywhere. `leaves` are the arrays by path. Only fields
    that are declared with `read_values` change.
    """
    read = {
        field.name: field.facts.read_values(leaves)
        for field in declared_fields(config)
        if field.facts is not None and field.facts.read_values is not None
    }
    return with_fields(config, **read) if read else config


def comparison_key(config: Configuration, ignored_roles: Collection[str]) -> tuple[object, ...]:
    """Return the values of a configuration's fields as a tuple, by which two configurations are
    compared.

    The class of the configuration is the first entry. Fields whose role is in `ignored_roles` are
    left out. If such a field was declared with `compare_by`, the result of that function takes its
    place. A nested configuration, of a part or a network, is replaced by its own comparison key
    with the same ignored roles.
    """
    values: list[object] = [type(config)]
    for field in declared_fields(config):
        if isinstance(field.value, Configuration):
            values.append(comparison_key(field.value, ignored_roles))
        elif field.facts is None or field.facts.role not in ignored_roles:
            values.append(field.value)
        elif field.facts.compare_by is not None:
            values.append(field.facts.compare_by(config))
    return tuple(values)


def have_same_sizes(first: Configuration, second: Configuration) -> bool:
    """Return True if two configurations have the same class and equal fields. Fields that are
    declared with `detail` may differ, but the results of their `compare_by` must be equal."""
    return comparison_key(first, ("detail",)) == comparison_key(second, ("detail",))


def have_same_architecture(first: Configuration, second: Configuration) -> bool:
    """Return True if two configurations have the same class and equal fields. Fields that are
    declared with `size`, `setting` or `detail` may differ, but the results of their `compare_by`
    must be equal."""
    return comparison_key(first, get_args(Role)) == comparison_key(second, get_args(Role))


def parse_integers(value: Any) -> tuple[int, ...]:
    """Return a list or tuple of integers as a tuple. **Raises** `TypeError` for any other value,
    also if an entry is a boolean."""
    if not isinstance(value, list | tuple) or any(type(number) is not int for number in value):
        raise TypeError
    return tuple(value)


def parse_nonempty_integers(value: Any) -> tuple[int, ...] | None:
    """Return a list of integers as a tuple; None if the list is empty. **Raises** `TypeError` for
    any other value."""
    return parse_integers(value) or None


def length(shapes: Shapes, leaf: str, axis: int = 0) -> int:
    """Return the length of an axis of a leaf in a checkpoint.

    It is 0 if the checkpoint has no such leaf, or the leaf no such axis.
    """
    shape = shapes(leaf) or ()
    return shape[axis] if axis < len(shape) else 0


def count_numbered_leaves(shapes: Shapes, leaf: str) -> int:
    """Return the number of leaves in a checkpoint with 0, 1, … for the `{}` in the path `leaf`.

    Counting ends at the first missing number.
    """
    return sum(1 for _ in takewhile(lambda number: shapes(leaf.format(number)), count()))


def read_channels_between(shapes: Shapes, first: str, last: str, times: int) -> int:
    """Return the number of channels between two layers of the first block's feed-forward network.

    **Arguments:**

    - `first`, `last`: the names of the layers in `blocks.0.mlp`, such as `fc1`.
    - `times`: the first layer must have this many times as many rows as the last one has columns.
      It is 2 if the first layer computes a gate and a value.

    **Returns** the columns of the last layer; 0 if a layer is missing or the sizes do not fit.
    """
    first_shape, last_shape = (
        shapes(f"blocks.0.mlp.{layer}.weight") or () for layer in (first, last)
    )
    has_hidden_channels = len(first_shape) == len(last_shape) == 2 and (
        first_shape[0] == times * last_shape[1]
    )
    return last_shape[1] if has_hidden_channels else 0
