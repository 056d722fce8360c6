"""Read the pickle in a PyTorch checkpoint without running it.

A pickle is a program for a stack machine. This module imports nothing and creates only
dictionaries, lists, tuples, strings, numbers and descriptions of tensors. Other values that
training scripts save, such as arguments, sets and numpy numbers, become an `UnknownObject` with the
name of their class. A program that exceeds the limits is rejected.

Python's own `pickle.Unpickler` with a different `find_class` would not run anything either, and
reads a table of 600 tensors in 1 ms instead of 30 ms. But it has no limits. Measured on Python
3.11:

- Nine bytes that store a value at index 100,000,000 of the memo take 1.5 GB.
- 200 kB with a tuple in a tuple in a tuple … as a key overflow the stack when the key is hashed,
  which kills the process.
- 67 bytes that double a tuple 30 times and use it as a key take 16 s. Each further doubling doubles
  the time.

Only an interpreter such as this one knows which values become keys, so it is needed to find such
programs.

Source: the meanings of the operations are those in `pickletools` of Python's library.
"""

import pickletools
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from weights.containers.bounds import MAX_SIDE, parse_shape
from weights.errors import DamagedFile

BUDGET = 500_000
"""Largest total number of operations and of values that calls take. A table of 600 tensors takes
25,000."""

MAX_NAME_LENGTH = 200  # characters of the names of a module and of its attribute


class MalformedPickle(DamagedFile):
    """The program is invalid or exceeds the limits."""


@dataclass(frozen=True)
class Name:
    """Name of an attribute of a module that a pickle refers to:
    `torch._utils._rebuild_tensor_v2`."""

    text: str


@dataclass(frozen=True)
class Storage:
    """Array of numbers in a member of the archive.

    **Arguments:**

    - `kind`: the class of the storage, such as `torch.FloatStorage`.
    - `key`: the name of the member in the folder `data`.
    - `count`: the number of numbers.
    """

    kind: str
    key: str
    count: int


@dataclass(frozen=True)
class StoredTensor:
    """Tensor that a pickle describes: a view into a storage.

    **Arguments:**

    - `offset`: the index of the first element in the storage.
    - `strides`: the steps along each axis, in elements.
    """

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class UnknownObject:
    """Value of a pickle that is neither a tensor nor a plain container: a sparse tensor, or an
    object of any class. The class is not imported.

    **Arguments:**

    - `description`: the name of the class, or a phrase.
    - `attributes`: the values that unpickling would set on the object.
    """

    description: str
    attributes: dict[Any, Any] = field(default_factory=dict, compare=False)


class ScriptedModule(dict[Any, Any]):
    """Module that TorchScript has saved: its attributes by name."""


SCRIPTED = "__torch__."
"""Prefix of the class names of scripted modules. Their code is in the archive and is not read."""


def _rebuild_tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> StoredTensor:
    """Return the tensor that the arguments of `torch._utils._rebuild_tensor` in a pickle describe.
    Further arguments are ignored.

    **Raises** `DamagedFile` if an argument is invalid.
    """
    (first,) = parse_shape([offset])
    if not isinstance(storage, Storage) or len(shape) != len(strides):
        raise MalformedPickle
    return StoredTensor(storage, first, parse_shape(shape), parse_shape(strides))


def _is_valid_key(key: Any) -> bool:
    """Return True if a dictionary may have this key: a string, or an integer from 0 to below
    `MAX_SIDE`.

    Hashing deeply nested tuples overflows the stack of the interpreter. Large integers can all have
    the same hash, so that a dictionary of them takes hours.
    """
    return type(key) is str or (type(key) is int and 0 <= key < MAX_SIDE)


def _make_dictionary(pairs: Any = ()) -> dict[Any, Any]:
    """Return a dictionary of pairs (key, value). Pairs whose keys are not valid are left out."""
    return {key: value for key, value in pairs if _is_valid_key(key)}


def _pair_up(values: Sequence[Any]) -> dict[Any, Any]:
    """Return a dictionary of alternating keys and values."""
    return _make_dictionary(zip(values[::2], values[1::2], strict=True))


NOT_DENSE = UnknownObject("not a dense tensor")

# Functions that replace the callables of a pickle. The modules themselves are not imported.
CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _make_dictionary,
    "collections.defaultdict": lambda *_: {},
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils._rebuild_parameter": lambda data, *_: data,
    "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
    "torch._utils._rebuild_sparse_tensor": lambda *_: NOT_DENSE,
    "torch._utils._rebuild_qtensor": lambda *_: NOT_DENSE,
    "torch._utils._rebuild_meta_tensor_no_storage": lambda *_: NOT_DENSE,
    "torch.Size": lambda sizes=(): tuple(sizes),
}


def unpickle(program: bytes) -> Any:
    """Return the value that a pickle describes, without running it.

    Tensors become `StoredTensor`s, and modules of TorchScript `ScriptedModule`s. Dictionaries,
    lists, tuples, strings, bytes, numbers and None stay what they are, except that dictionaries
    lose items with invalid keys. Everything else becomes an `UnknownObject`.

    **Raises** `MalformedPickle`, or another `DamagedFile`, if the program is invalid or exceeds
    `BUDGET`.
    """
    machine = Machine()
    try:
        for operation, argument, _ in pickletools.genops(program):
            if operation.name == "STOP":
                return machine.stack.pop()
            machine.run_operation(operation.name, argument)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise MalformedPickle from error
    raise MalformedPickle


class Machine:
    """Stack machine that runs the program of a pickle.

    It has a stack, the positions of the marks on it, a memo (values that the program uses again, by
    index), and a remaining budget of operations.
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.budget = BUDGET

    def run_operation(self, name: str, argument: Any) -> None:
        """Run one operation of a pickle. `name` is its name in `pickletools`, such as `SETITEMS`,
        and `argument` its argument.

        **Raises** `MalformedPickle` if the operation is not known or not possible here.
        """
        self.spend(1)
        if name in LITERALS:
            self.stack.append(argument)
        elif name in VALUES:
            self.stack.append(VALUES[name](self, argument))
        elif name in CHANGES:
            CHANGES[name](self, argument)
        else:
            raise MalformedPickle(f"its program has the operation {name}")

    def spend(self, count: int) -> None:
        """Reduce the budget by `count`. **Raises** `MalformedPickle` if nothing is left."""
        self.budget -= count
        if self.budget < 0:
            raise MalformedPickle

    def pop_to_mark(self) -> list[Any]:
        """Remove the values above the last mark, and the mark, from the stack. Return the values,
        the topmost one last."""
        values = self.stack[self.marks[-1] :]
        del self.stack[self.marks.pop() :]
        return values

    def pop_values(self, count: int) -> tuple[Any, ...]:
        """Remove the topmost `count` values from the stack and return them, the topmost one last.

        **Raises** `MalformedPickle` if fewer values are above the last mark.
        """
        start = len(self.stack) - count
        if start < (self.marks[-1] if self.marks else 0):
            raise MalformedPickle
        values = tuple(self.stack[start:])
        del self.stack[start:]
        return values

    def ignore(self, values: Sequence[Any]) -> None:
        """Do nothing. The values have been removed from the stack, and are not used."""

    def memoize(self, index: int) -> None:
        """Store the topmost value at an index of the memo, from which later operations take it
        again."""
        self.memo[index] = self.stack[-1]

    def set_items(self, pairs: Sequence[Any]) -> None:
        """Add items to the dictionary on top of the stack. `pairs` has keys and values alternately.

        Items with invalid keys are left out. The items of an unknown object are ignored.
        """
        if isinstance(mapping := self.peek(dict), dict):
            mapping.update(_pair_up(pairs))

    def append_items(self, values: Sequence[Any]) -> None:
        """Append values to the list on top of the stack. They are ignored if the topmost value is
        an unknown object."""
        if isinstance(sequence := self.peek(list), list):
            sequence.extend(values)

    def set_state(self, state: Any) -> None:
        """Set attributes of the module or object on top of the stack. `state` has them by name;
        another value than a dictionary is ignored.

        The attributes of a dictionary (its `_metadata`) are ignored, and so are those of
        `NOT_DENSE`, which all tensors that are not dense share.
        """
        if not isinstance(state, dict) or (peek := self.stack[-1]) is NOT_DENSE:
            return
        if isinstance(peek, ScriptedModule | UnknownObject):
            self.spend(len(state))
            (peek if isinstance(peek, ScriptedModule) else peek.attributes).update(state)

    def peek(self, kind: type[Any]) -> Any:
        """Return the topmost value without removing it.

        **Raises** `MalformedPickle` unless it is of the type `kind` or an unknown object.
        """
        if not isinstance(self.stack[-1], kind | UnknownObject):
            raise MalformedPickle
        return self.stack[-1]

    def make_name(self, module: Any, name: Any) -> Name:
        """Return the name of an attribute of a module, which is neither imported nor called.

        **Raises** `MalformedPickle` if it is too long, or contains unprintable characters.
        """
        texts = isinstance(module, str) and isinstance(name, str)
        if not texts or len(module) + len(name) > MAX_NAME_LENGTH:
            raise MalformedPickle
        text = f"{module}.{name}"
        if not (text.isascii() and text.isprintable()):  # messages contain it
            raise MalformedPickle
        return Name(text)

    def call(self, name: Any, arguments: Any) -> Any:
        """Return the result of a call that a pickle contains. Nothing of the file is executed.

        `name` is the `Name` of the function. If it is one of `CALLS`, the result is a tensor or a
        plain container; otherwise it is an unknown object.
        """
        match name, arguments:
            case Name("torch._tensor._rebuild_from_type_v2"), (function, _, inner, _):
                return self.call(function, inner)  # a tensor of a user's subclass
            case Name(text), tuple() if text in CALLS:
                # One list may be the argument of many calls, each of which copies it.
                self.spend(len(arguments) + sum(len(a) for a in arguments if isinstance(a, Sized)))
                return CALLS[text](*arguments)
        return UnknownObject(name.text if isinstance(name, Name) else "a call of a value")

    def make_instance(self, values: Sequence[Any]) -> UnknownObject | ScriptedModule:
        """Return the object that a pickle creates. The first of `values` is its class; the others
        are arguments, which are not used.

        An object of a class of TorchScript is a `ScriptedModule`, any other an `UnknownObject`.
        """
        is_named = values and isinstance(values[0], Name)
        if is_named and values[0].text.startswith(SCRIPTED):
            return ScriptedModule()
        return UnknownObject(values[0].text if is_named else "an object")

    def load_persistent(self, reference: Any) -> Storage | UnknownObject:
        """Return the storage that a persistent reference describes: ('storage', type, key, device,
        count). A reference of another form gives an `UnknownObject`."""
        match reference:
            case ("storage", Name(kind), str(key), str(), int(count)) if count >= 0:
                return Storage(kind, key, count)
        return UnknownObject("a persistent reference")


BUILDABLE = (
    *(pickletools.pyint, pickletools.pyinteger_or_bool, pickletools.pyfloat),
    *(pickletools.pyunicode, pickletools.pybytes, pickletools.pybytes_or_str),
)
LITERALS = frozenset(
    operation.name
    for operation in pickletools.opcodes
    if operation.arg and operation.stack_after and operation.stack_after[0] in BUILDABLE
)
"""Operations that push their argument, a number or a string, on the stack."""


VALUES: dict[str, Callable[[Machine, Any], Any]] = {
    "EMPTY_DICT": lambda *_: {},
    "EMPTY_LIST": lambda *_: [],
    "EMPTY_TUPLE": lambda *_: (),
    "NONE": lambda *_: None,
    "NEWTRUE": lambda *_: True,
    "NEWFALSE": lambda *_: False,
    "TUPLE": lambda machine, _: tuple(machine.pop_to_mark()),
    "TUPLE1": lambda machine, _: machine.pop_values(1),
    "TUPLE2": lambda machine, _: machine.pop_values(2),
    "TUPLE3": lambda machine, _: machine.pop_values(3),
    "BINGET": lambda machine, index: machine.memo[index],
    "LONG_BINGET": lambda machine, index: machine.memo[index],
    "GLOBAL": lambda machine, names: machine.make_name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.make_name(*machine.pop_values(2)),
    "REDUCE": lambda machine, _: machine.call(*machine.pop_values(2)),
    "BINPERSID": lambda machine, _: machine.load_persistent(*machine.pop_values(1)),
    "GET": lambda machine, index: machine.memo[index],
    "DUP": lambda machine, _: machine.stack[-1],
    "LIST": lambda machine, _: machine.pop_to_mark(),
    "DICT": lambda machine, _: _pair_up(machine.pop_to_mark()),
    "EMPTY_SET": lambda *_: UnknownObject("builtins.set"),
    "FROZENSET": lambda machine, _: machine.make_instance(
        [Name("builtins.frozenset"), *machine.pop_to_mark()]
    ),
    "PERSID": lambda *_: UnknownObject("a persistent reference"),
    "NEWOBJ": lambda machine, _: machine.make_instance(machine.pop_values(2)),
    "NEWOBJ_EX": lambda machine, _: machine.make_instance(machine.pop_values(3)),
    "OBJ": lambda machine, _: machine.make_instance(machine.pop_to_mark()),
    "INST": lambda machine, names: machine.make_instance(
        [machine.make_name(*names.split(" ", 1)), *machine.pop_to_mark()]
    ),
    "EXT1": lambda *_: UnknownObject("a registered object"),
    "EXT2": lambda *_: UnknownObject("a registered object"),
    "EXT4": lambda *_: UnknownObject("a registered object"),
}
"""Functions of the operations that push a value on the stack."""

CHANGES: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": lambda *_: None,
    "FRAME": lambda *_: None,
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "SETITEM": lambda machine, _: machine.set_items(machine.pop_values(2)),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "APPEND": lambda machine, _: machine.append_items(machine.pop_values(1)),
    "APPENDS": lambda machine, _: machine.append_items(machine.pop_to_mark()),
    "BINPUT": lambda machine, index: machine.memoize(index),
    "LONG_BINPUT": lambda machine, index: machine.memoize(index),
    "MEMOIZE": lambda machine, _: machine.memoize(len(machine.memo)),
    "ADDITEMS": lambda machine, _: machine.ignore(machine.pop_to_mark()),
    "POP": lambda machine, _: machine.ignore(machine.pop_values(1)),
    "POP_MARK": lambda machine, _: machine.ignore(machine.pop_to_mark()),
    "PUT": lambda machine, index: machine.memoize(index),
    "BUILD": lambda machine, _: machine.set_state(*machine.pop_values(1)),
}
"""Functions of the operations that change the machine without pushing a value."""
