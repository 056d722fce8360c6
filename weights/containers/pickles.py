"""The pickle inside a PyTorch checkpoint, read without running it.

A pickle is a program for a stack machine. Nothing is imported here, and nothing is built but
dictionaries, lists, tuples, texts, numbers and descriptions of tensors. What a training script
saves beside its tensors (its arguments, a set, a number of numpy's) is walked past: an `Other`
stands in its place, which has a name and nothing else. A program that asks for too much is refused.

Python's own `pickle.Unpickler` with its `find_class` replaced would run nothing either, and it
reads a table of 600 tensors in 1 ms where this takes 30. But it knows no bounds. Measured on
Python 3.11: nine bytes that write to place 100,000,000 of the memo take 1.5 GB. 200 kB that use a
tuple in a tuple in a tuple … as a key overflow the stack when it is hashed, which kills the
process. 67 bytes that double a tuple 30 times and use it as a key take 16 s, and each further
doubling twice as long. To find such programs before it runs takes a machine like this one, for
nothing else knows what becomes a key.

Source: the operations' meanings are those of `pickletools` in Python's library.
"""

import pickletools
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from weights.containers.bounds import LARGEST_SIDE, shape_of
from weights.errors import DamagedFile

BUDGET = 500_000
"""Operations, and values that calls take, in all; a table of 600 tensors takes 25,000."""

LONGEST_NAME = 200  # characters of a module and of what it holds


class MalformedPickle(DamagedFile):
    """The program is damaged."""


@dataclass(frozen=True)
class Name:
    """Something of a module that a pickle refers to: `torch._utils._rebuild_tensor_v2`."""

    text: str


@dataclass(frozen=True)
class Storage:
    """A run of `count` numbers in a member of the archive; `kind` as in `torch.FloatStorage`."""

    kind: str
    key: str
    count: int


@dataclass(frozen=True)
class StoredTensor:
    """A view into a storage: the first element's index, sizes, and strides in elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Other:
    """A value that is not described further: a sparse tensor, or an object of a class that is
    never built. `attributes` are what an object would be filled with."""

    what: str
    attributes: dict[Any, Any] = field(default_factory=dict, compare=False)


class ScriptedModule(dict[Any, Any]):
    """A module that TorchScript has saved: its attributes by their names."""


SCRIPTED = "__torch__."
"""How the names of such classes begin, which are written in the archive and never read here."""


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> StoredTensor:
    (first,) = shape_of([offset])
    if not isinstance(storage, Storage) or len(shape) != len(strides):
        raise MalformedPickle
    return StoredTensor(storage, first, shape_of(shape), shape_of(strides))


def _is_key(key: Any) -> bool:
    """Whether a dictionary here has such keys. Hashing a tuple of tuples of tuples … would overflow
    the interpreter's own stack, and integers beyond its words can all have one hash, so that a
    dictionary of them takes hours."""
    return type(key) is str or (type(key) is int and 0 <= key < LARGEST_SIDE)


def _dictionary(pairs: Any = ()) -> dict[Any, Any]:
    return {key: value for key, value in pairs if _is_key(key)}


def _paired(values: Sequence[Any]) -> dict[Any, Any]:
    """A dictionary of alternating keys and values."""
    return _dictionary(zip(values[::2], values[1::2], strict=True))


NOT_DENSE = Other("not a dense tensor")

# What is called, and what that makes. Nothing of the modules themselves is touched.
CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _dictionary,
    "collections.defaultdict": lambda *_: {},
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": lambda data, *_: data,
    "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
    "torch._utils._rebuild_sparse_tensor": lambda *_: NOT_DENSE,
    "torch._utils._rebuild_qtensor": lambda *_: NOT_DENSE,
    "torch._utils._rebuild_meta_tensor_no_storage": lambda *_: NOT_DENSE,
    "torch.Size": lambda sizes=(): tuple(sizes),
}


def unpickle(program: bytes) -> Any:
    """The value that a pickle describes, with an `Other` for everything but tensors in plain
    containers. **Raises** `MalformedPickle` for garbage and for what goes beyond `BUDGET`."""
    machine = Machine()
    try:
        for operation, argument, _ in pickletools.genops(program):
            if operation.name == "STOP":
                return machine.stack.pop()
            machine.run(operation.name, argument)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise MalformedPickle from error
    raise MalformedPickle


class Machine:
    """A stack, the places of the marks on it, a memo, and what may still be done."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.budget = BUDGET

    def run(self, name: str, argument: Any) -> None:
        """One operation."""
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
        self.budget -= count
        if self.budget < 0:
            raise MalformedPickle

    def to_mark(self) -> list[Any]:
        """Take everything above the last mark, which is gone then."""
        values = self.stack[self.marks[-1] :]
        del self.stack[self.marks.pop() :]
        return values

    def take(self, count: int) -> tuple[Any, ...]:
        """Take the topmost values."""
        start = len(self.stack) - count
        if start < (self.marks[-1] if self.marks else 0):
            raise MalformedPickle
        values = tuple(self.stack[start:])
        del self.stack[start:]
        return values

    def drop(self, values: Sequence[Any]) -> None:
        """Drop these: nothing here has a use for them."""

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def fill(self, pairs: Sequence[Any]) -> None:
        """Put alternating keys and values into the dictionary on top. Entries under keys that are
        no texts or small numbers are left out, and so is what an unknown object is filled with."""
        if isinstance(mapping := self.top(dict), dict):
            mapping.update(_paired(pairs))

    def extend(self, values: Sequence[Any]) -> None:
        if isinstance(sequence := self.top(list), list):
            sequence.extend(values)

    def build(self, state: Any) -> None:
        """Give a module or an object its attributes. Those of a dictionary (its `_metadata`) do not
        matter, and what is not a dense tensor has none."""
        if not isinstance(state, dict) or (top := self.stack[-1]) is NOT_DENSE:
            return
        if isinstance(top, ScriptedModule | Other):
            self.spend(len(state))
            (top if isinstance(top, ScriptedModule) else top.attributes).update(state)

    def top(self, kind: type[Any]) -> Any:
        """The topmost value, which must be of a kind, or unknown."""
        if not isinstance(self.stack[-1], kind | Other):
            raise MalformedPickle
        return self.stack[-1]

    def refer(self, module: Any, name: Any) -> Name:
        """A name, which alone does nothing; what it makes is decided when it is called."""
        texts = isinstance(module, str) and isinstance(name, str)
        if not texts or len(module) + len(name) > LONGEST_NAME:
            raise MalformedPickle
        text = f"{module}.{name}"
        if not (text.isascii() and text.isprintable()):  # it is shown, and could steer a terminal
            raise MalformedPickle
        return Name(text)

    def call(self, name: Any, arguments: Any) -> Any:
        """Result of a call: a tensor, a plain container, or something unknown."""
        match name, arguments:
            case Name("torch._tensor._rebuild_from_type_v2"), (function, _, inner, _):
                return self.call(function, inner)  # a tensor of a class of somebody's own
            case Name(text), tuple() if text in CALLS:
                # One list may be the argument of many calls, each of which copies it.
                self.spend(len(arguments) + sum(len(a) for a in arguments if isinstance(a, Sized)))
                return CALLS[text](*arguments)
        return Other(name.text if isinstance(name, Name) else "a call of a value")

    def instance(self, values: Sequence[Any]) -> Other | ScriptedModule:
        """An object of the class that comes first."""
        is_named = values and isinstance(values[0], Name)
        if is_named and values[0].text.startswith(SCRIPTED):
            return ScriptedModule()
        return Other(values[0].text if is_named else "an object")

    def persistent(self, reference: Any) -> Storage | Other:
        """A reference to a storage: ('storage', type, key, device, count)."""
        match reference:
            case ("storage", Name(kind), str(key), str(), int(count)) if count >= 0:
                return Storage(kind, key, count)
        return Other("a persistent reference")


BUILDABLE = (
    *(pickletools.pyint, pickletools.pyinteger_or_bool, pickletools.pyfloat),
    *(pickletools.pyunicode, pickletools.pybytes, pickletools.pybytes_or_str),
)
LITERALS = frozenset(
    operation.name
    for operation in pickletools.opcodes
    if operation.arg and operation.stack_after and operation.stack_after[0] in BUILDABLE
)
"""Numbers and texts: what they put on the stack is their argument."""


VALUES: dict[str, Callable[[Machine, Any], Any]] = {
    "EMPTY_DICT": lambda *_: {},
    "EMPTY_LIST": lambda *_: [],
    "EMPTY_TUPLE": lambda *_: (),
    "NONE": lambda *_: None,
    "NEWTRUE": lambda *_: True,
    "NEWFALSE": lambda *_: False,
    "TUPLE": lambda machine, _: tuple(machine.to_mark()),
    "TUPLE1": lambda machine, _: machine.take(1),
    "TUPLE2": lambda machine, _: machine.take(2),
    "TUPLE3": lambda machine, _: machine.take(3),
    "BINGET": lambda machine, index: machine.memo[index],
    "LONG_BINGET": lambda machine, index: machine.memo[index],
    "GLOBAL": lambda machine, names: machine.refer(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.refer(*machine.take(2)),
    "REDUCE": lambda machine, _: machine.call(*machine.take(2)),
    "BINPERSID": lambda machine, _: machine.persistent(*machine.take(1)),
    "GET": lambda machine, index: machine.memo[index],
    "DUP": lambda machine, _: machine.stack[-1],
    "LIST": lambda machine, _: machine.to_mark(),
    "DICT": lambda machine, _: _paired(machine.to_mark()),
    "EMPTY_SET": lambda *_: Other("builtins.set"),
    "FROZENSET": lambda machine, _: machine.instance(
        [Name("builtins.frozenset"), *machine.to_mark()]
    ),
    "PERSID": lambda *_: Other("a persistent reference"),
    "NEWOBJ": lambda machine, _: machine.instance(machine.take(2)),
    "NEWOBJ_EX": lambda machine, _: machine.instance(machine.take(3)),
    "OBJ": lambda machine, _: machine.instance(machine.to_mark()),
    "INST": lambda machine, names: machine.instance(
        [machine.refer(*names.split(" ", 1)), *machine.to_mark()]
    ),
    "EXT1": lambda *_: Other("a registered object"),
    "EXT2": lambda *_: Other("a registered object"),
    "EXT4": lambda *_: Other("a registered object"),
}
"""What puts a value on the stack."""

CHANGES: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": lambda *_: None,
    "FRAME": lambda *_: None,
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "SETITEM": lambda machine, _: machine.fill(machine.take(2)),
    "SETITEMS": lambda machine, _: machine.fill(machine.to_mark()),
    "APPEND": lambda machine, _: machine.extend(machine.take(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.to_mark()),
    "BINPUT": lambda machine, index: machine.put(index),
    "LONG_BINPUT": lambda machine, index: machine.put(index),
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "ADDITEMS": lambda machine, _: machine.drop(machine.to_mark()),
    "POP": lambda machine, _: machine.drop(machine.take(1)),
    "POP_MARK": lambda machine, _: machine.drop(machine.to_mark()),
    "PUT": lambda machine, index: machine.put(index),
    "BUILD": lambda machine, _: machine.build(*machine.take(1)),
}
"""What changes what is there."""
