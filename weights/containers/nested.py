"""Find tensors and tables in the value that a training script saved.

Dictionaries, lists and lists of pairs are flattened: `{"teacher": {"backbone": {"norm.weight":
…}}}` gives the name `teacher.backbone.norm.weight`. `weights.views` finds out which network a
tensor belongs to, and the prefix of that network.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from weights.containers.bounds import MAX_VALUES
from weights.containers.pickles import NOT_DENSE, StoredTensor, UnknownObject
from weights.errors import DamagedFile

MAX_DEPTH = 16  # of nested containers
MAX_TABLE_DEPTH = 6  # of the containers and objects around a table
MAX_VISITED = 100_000  # number of values that are visited in the search for tables


def collect_tensors(
    content: object,
) -> tuple[dict[str, StoredTensor | UnknownObject], dict[str, str]]:
    """Return the tensors in the value that a file contains, and the class names of the objects that
    are skipped, both by path.

    `content` is that value: nested dictionaries and lists. Containers nested more than `MAX_DEPTH`
    deep and the attributes of objects are not searched. Other values, such as numbers, are left
    out.

    **Raises** `DamagedFile` if there are too many values, or two tensors of the same name.
    """
    tensors: dict[str, StoredTensor | UnknownObject] = {}
    objects: dict[str, str] = {}
    pending: list[tuple[str, int, Any]] = [("", 0, content)]
    for _ in range(MAX_VALUES):
        if not pending:
            return tensors, objects
        name, depth, value = pending.pop()
        if isinstance(value, StoredTensor) or value is NOT_DENSE:
            if name in tensors:
                raise DamagedFile(f"it has two tensors {name[:80]!r}")
            tensors[name] = value
        elif isinstance(value, UnknownObject):
            objects[name] = value.description
        elif isinstance(value, dict | list | tuple) and depth < MAX_DEPTH:
            entries = list(_entries(name, value))
            pending += [(key, depth + 1, part) for key, part in reversed(entries)]
    raise DamagedFile(f"it has more than {MAX_VALUES} values in its tables")


def find_tables(content: object) -> dict[str, Any]:
    """Return the non-empty lists, tuples and dictionaries of strings and numbers in a value that a
    file contains, by path.

    The search covers dictionaries and the attributes of objects, but not lists. It ends at a depth
    of `MAX_TABLE_DEPTH` and after `MAX_VISITED` values.
    """
    tables: dict[str, Any] = {}
    pending = deque([("", 0, content)])
    remaining = MAX_VISITED
    while pending and remaining > 0:
        name, depth, value = pending.popleft()
        inner = value.attributes if isinstance(value, UnknownObject) else value
        remaining -= 1 + (len(inner) if isinstance(inner, dict | list | tuple) else 0)
        if isinstance(inner, dict | list | tuple) and inner and _is_plain(inner):
            tables[name] = inner
        elif isinstance(inner, dict) and depth < MAX_TABLE_DEPTH:
            pending += [
                (f"{name}.{key}" if name else str(key), depth + 1, value)
                for key, value in inner.items()
                if isinstance(value, dict | list | tuple | UnknownObject)
            ]
    return tables


def _is_plain(container: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> bool:
    """Return True if all values of a container are strings and numbers, also if it is empty."""
    values = container.values() if isinstance(container, dict) else container
    return all(isinstance(value, str | int | float) for value in values)


def _entries(name: str, container: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each entry of a dictionary, list or tuple, but not of those
    nested in it.

    A list of pairs of a string and a value is read as a dictionary. `name` is the path of the
    container; empty for the outermost one. The path of an entry is `name`, a dot, and the entry's
    key or index.
    """
    prefix = f"{name}." if name else ""
    if isinstance(container, dict):
        pairs = iter(container.items())
    elif container and all(map(_is_named_pair, container)):
        pairs = iter(container)  # a list of pairs is a dictionary
    else:
        pairs = enumerate(container)
    for key, value in pairs:
        yield f"{prefix}{key}", value


def _is_named_pair(value: object) -> bool:
    """Return True for a tuple of a string and another value."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
