"""The pickle inside a PyTorch checkpoint, read without running it.

A pickle is a program for a stack machine. This one knows only what a table of tensors needs:
nothing is imported, no object is built but dictionaries, lists, tuples and descriptions of
tensors, and a program that asks for more is refused.

Source: the operations' meanings are those of `pickletools` in Python's library.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


class Refused(Exception):
    """The program asks for something that is not a tensor."""


class Malformed(Exception):
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
class Tensor:
    """A view into a storage: the first element's index, sizes, and strides in elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Other:
    """A value that is not described further: a sparse tensor, a type, a device."""

    what: str


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Tensor:
    lists = (shape, strides)
    numbers = [offset, *shape, *strides]
    if not isinstance(storage, Storage) or len(shape) != len(strides):
        raise Malformed
    if not all(type(n) is int and 0 <= n < 1 << 48 for n in numbers):
        raise Malformed
    return Tensor(storage, offset, *(tuple(numbers) for numbers in lists))


def _dictionary(pairs: Any = ()) -> dict[Any, Any]:
    return _table([item for key, value in pairs for item in (key, value)])


def _table(items: Sequence[Any]) -> dict[Any, Any]:
    # Hashing a tuple of tuples of tuples … would overflow the interpreter's own stack.
    if not all(type(key) in (str, int) for key in items[::2]):
        raise Malformed
    return dict(zip(items[::2], items[1::2], strict=True))


def _other(what: str) -> Callable[..., Other]:
    return lambda *_: Other(what)


# What may be called, and what that makes. Nothing of the modules themselves is touched.
CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _dictionary,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": lambda data, *_: data,
    "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
    "torch._utils._rebuild_sparse_tensor": _other("not a dense tensor"),
    "torch._utils._rebuild_qtensor": _other("not a dense tensor"),
    "torch._utils._rebuild_meta_tensor_no_storage": _other("not a dense tensor"),
    "torch.serialization._get_layout": _other("layout"),
    "torch.Size": lambda sizes=(): tuple(sizes),
    "torch.device": _other("device"),
}

CONSTANTS: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
LITERALS = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "INT",
        "LONG",
        "BINFLOAT",
        "FLOAT",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "UNICODE",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
    ]
)
NOTHING = frozenset({"PROTO", "FRAME"})


def load(program: bytes) -> Any:
    """The value that a pickle describes.

    **Raises** `Refused` for anything but tensors in plain containers, `Malformed` for garbage.
    """
    machine = Machine()
    try:
        for operation, argument, _ in pickletools.genops(program):
            if operation.name == "STOP":
                return machine.stack.pop()
            machine.run(operation.name, argument)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise Malformed from error
    raise Malformed


class Machine:
    """A stack, the places of the marks on it, and a memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, name: str, argument: Any) -> None:
        """One operation."""
        if name in CONSTANTS:
            self.stack.append(CONSTANTS[name]())
        elif name in LITERALS:
            self.stack.append(argument)
        elif name in OPERATIONS:
            OPERATIONS[name](self, argument)
        elif name not in NOTHING:
            raise Refused(f"operation {name}")

    def to_mark(self) -> list[Any]:
        """Take everything above the last mark, which is gone then."""
        values = self.stack[self.marks[-1] :]
        del self.stack[self.marks.pop() :]
        return values

    def take(self, count: int) -> tuple[Any, ...]:
        """Take the topmost values."""
        start = len(self.stack) - count
        if start < (self.marks[-1] if self.marks else 0):
            raise Malformed
        values = tuple(self.stack[start:])
        del self.stack[start:]
        return values

    def mark(self) -> None:
        self.marks.append(len(self.stack))

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def fill(self, pairs: Sequence[Any]) -> None:
        """Put alternating keys and values into the dictionary on top."""
        table = self.stack[-1]
        if not isinstance(table, dict):
            raise Malformed
        table.update(_table(pairs))

    def extend(self, values: Sequence[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise Malformed
        target.extend(values)

    def refer(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise Malformed
        text = f"{module}.{name}"
        # A name of torch's alone does nothing; what may be called is decided when it is called.
        if text not in CALLS and module not in ("torch", "torch.storage"):
            raise Refused(text)
        self.stack.append(Name(text))

    def call(self) -> None:
        name, arguments = self.take(2)
        if not isinstance(name, Name) or name.text not in CALLS:
            raise Refused(name.text if isinstance(name, Name) else "a call of a value")
        self.stack.append(CALLS[name.text](*arguments))

    def build(self) -> None:
        """Attributes of a dictionary (its `_metadata`) do not matter; nothing else has any."""
        self.take(1)
        if not isinstance(self.stack[-1], dict | Tensor):
            raise Refused("an object's state")

    def persistent(self) -> None:
        """A reference to a storage: ('storage', type, key, device, count)."""
        (reference,) = self.take(1)
        match reference:
            case ("storage", Name(kind), str(key), str(), int(count)) if count >= 0:
                self.stack.append(Storage(kind, key, count))
            case _:
                raise Malformed


OPERATIONS: dict[str, Callable[[Machine, Any], None]] = {
    "MARK": lambda machine, _: machine.mark(),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.to_mark())),
    "TUPLE1": lambda machine, _: machine.stack.append(machine.take(1)),
    "TUPLE2": lambda machine, _: machine.stack.append(machine.take(2)),
    "TUPLE3": lambda machine, _: machine.stack.append(machine.take(3)),
    "SETITEM": lambda machine, _: machine.fill(machine.take(2)),
    "SETITEMS": lambda machine, _: machine.fill(machine.to_mark()),
    "APPEND": lambda machine, _: machine.extend(machine.take(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.to_mark()),
    "BINPUT": lambda machine, index: machine.put(index),
    "LONG_BINPUT": lambda machine, index: machine.put(index),
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "BINGET": lambda machine, index: machine.get(index),
    "LONG_BINGET": lambda machine, index: machine.get(index),
    "GLOBAL": lambda machine, names: machine.refer(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.refer(*machine.take(2)),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
    "BINPERSID": lambda machine, _: machine.persistent(),
}
