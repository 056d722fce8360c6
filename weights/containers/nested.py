"""Tables of tensors in what a training script saved: dictionaries in dictionaries, lists of pairs.

Everything lies flat afterwards: what was `{"teacher": {"backbone": {"norm.weight": …}}}` is called
`teacher.backbone.norm.weight`, as if the script had put it so. Whose network that is, and behind
which prefix, `weights.views` finds out.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from weights.containers.bounds import MOST_VALUES
from weights.containers.pickles import NOT_DENSE, Other, StoredTensor
from weights.errors import DamagedFile

DEEPEST = 16  # containers in containers
TABLES_WITHIN = 6  # containers and objects around a table of texts
MOST_LOOKED_AT = 100_000  # values that are looked at for tables of texts


def flatten(content: object) -> tuple[dict[str, StoredTensor | Other], dict[str, str]]:
    """The tensors in a value by where they are, and the objects that were walked past: where, and
    of which class. **Raises** `DamagedFile` if there are too many, or two of one name."""
    tensors: dict[str, StoredTensor | Other] = {}
    objects: dict[str, str] = {}
    waiting: list[tuple[str, int, Any]] = [("", 0, content)]
    for _ in range(MOST_VALUES):
        if not waiting:
            return tensors, objects
        name, depth, value = waiting.pop()
        if isinstance(value, StoredTensor) or value is NOT_DENSE:
            if name in tensors:
                raise DamagedFile(f"it has two tensors {name[:80]!r}")
            tensors[name] = value
        elif isinstance(value, Other):
            objects[name] = value.what
        elif isinstance(value, dict | list | tuple) and depth < DEEPEST:
            inner = list(_entries(name, value))
            waiting += [(each, depth + 1, part) for each, part in reversed(inner)]
    raise DamagedFile(f"it has more than {MOST_VALUES} values in its tables")


def find_tables(content: object) -> dict[str, Any]:
    """The lists and dictionaries of texts and numbers in a value, by where they are: in
    dictionaries, and among the attributes of objects. What is deeper, or behind too many other
    values, is not looked for."""
    tables: dict[str, Any] = {}
    waiting = deque([("", 0, content)])
    left = MOST_LOOKED_AT
    while waiting and left > 0:
        name, depth, value = waiting.popleft()
        inside = value.attributes if isinstance(value, Other) else value
        left -= 1 + (len(inside) if isinstance(inside, dict | list | tuple) else 0)
        if isinstance(inside, dict | list | tuple) and inside and _is_plain(inside):
            tables[name] = inside
        elif isinstance(inside, dict) and depth < TABLES_WITHIN:
            waiting += [
                (f"{name}.{key}" if name else str(key), depth + 1, each)
                for key, each in inside.items()
                if isinstance(each, dict | list | tuple | Other)
            ]
    return tables


def _is_plain(container: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> bool:
    values = container.values() if isinstance(container, dict) else container
    return all(isinstance(each, str | int | float) for each in values)


def _entries(name: str, container: Any) -> Iterator[tuple[str, Any]]:
    """What is in a container, and what that is called from outside."""
    within = f"{name}." if name else ""
    if isinstance(container, dict):
        pairs = iter(container.items())
    elif container and all(map(_is_named, container)):
        pairs = iter(container)  # a list of pairs is a dictionary
    else:
        pairs = enumerate(container)
    for key, value in pairs:
        yield f"{within}{key}", value


def _is_named(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
