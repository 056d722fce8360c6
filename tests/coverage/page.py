"""The page: a row for every primitive, and the reason for every refusal."""

from pathlib import Path

import jax

from converter.errors import UnsupportedError
from converter.frontend.refused import REFUSAL_REASONS
from tests.converter.harness.refused import REMAINING
from tests.converter.harness.table import DTYPES
from tests.coverage.primitives import opsets, primitives, ways
from tests.coverage.tables import Use, uses_by_primitive

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"

HEAD = """# Can my function be converted?

Call `converter.explain`. It traces your function without writing a file. It lists all operations
that cannot be converted, with the lines of your code:

```python
import jax
import jax.numpy as jnp
import converter


def network(x):
    return jax.nn.softmax(jnp.sort(x, axis=-1))


print(converter.explain(network, [("batch", 8)]))
```

You can also search for the primitives of your function in the tables on this page.
`jax.make_jaxpr(network)(jnp.ones((2, 8)))` prints the primitives. The tables contain all primitives
of JAX {jax} and of Equinox. If a primitive cannot be converted, it is in the [table of refused
primitives](#refused) with the reason. Most of the other primitives are [public
primitives](#public-primitives).

<div class="find-in-tables" data-label="Find a primitive" data-example="cumsum">
Your browser finds a name with Ctrl+F.
</div>

- **How** describes how the converter handles the primitive. *A rule*: a rule writes ONNX operators
  for the primitive. *A function in its place*: the converter traces a JAX function that computes
  the same result. *Another form*: the passes rewrite the primitive as other primitives. *Inlined*:
  the primitive only wraps a function, and this function is converted.
- **Opsets** contains the oldest opset that supports the primitive. A second number is a newer opset
  with a better operator.
- **Dtypes** contains the dtypes for which a test has checked the result in ONNX Runtime, or *all*
  if these are all dtypes that JAX supports for the primitive.
- **Operators** contains the operators in the file of a short test. If the operators depend on the
  opset, the cell also contains the opset.
"""

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = tuple(d for d in DTYPES if "int" in d)
MEASURED_OPSETS = (17, 18, 23, 26)
MAX_OPERATORS = 8
"""The number of operators that a row names."""

MAX_STEPS = 25
"""From this number of steps on, a function does not show the operators of one of its primitives."""


def page() -> str:
    """Return the text of the page."""
    public = primitives()
    refused = {name for name in public if ways()[name] == "refused"}
    parts = [HEAD.format(jax=jax.__version__)]
    for title, is_public in (("Public primitives", True), ("Primitives inside of JAX", False)):
        rows = [_row(name) for name in public if public[name] == is_public and name not in refused]
        parts.append(f"## {title}\n\n{_table(rows)}")
    parts.append(f"## Refused\n\n{refusals(refused)}")
    parts.append(f"## JAX's own harness\n\n{harness()}")
    return "\n".join(parts)


def _table(rows: list[tuple[str, ...]]) -> str:
    head = ("primitive", "how", "opsets", "dtypes", "operators")
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _row(name: str) -> tuple[str, ...]:
    uses = uses_by_primitive().get(name, [])
    dtypes = set[str]().union(*(use.dtypes for use in uses))
    return (f"`{name}`", ways()[name], opsets(name), _dtypes(dtypes), _operators(uses))


def _dtypes(names_found: set[str]) -> str:
    """Return the dtypes in the order of the table. All floats, or all integers, become one word."""
    words = []
    for word, names in (("floats", FLOATS), ("integers", INTEGERS)):
        if names_found >= set(names):
            words.append(word)
            names_found = names_found - set(names)
    return ", ".join([*words, *(d for d in DTYPES if d in names_found)])


def _operators(uses: list[Use]) -> str:
    """Return the operators of a primitive, with opsets if they differ between opsets.

    They are those of the shortest function with nonempty inputs. A long function is not used.
    """
    nonempty = [use for use in uses if all(x.size for x in use.draw())]
    shortest = sorted(nonempty or uses, key=lambda use: use.steps)[:1]
    texts = [
        _operators_at(use, opset)
        for use in shortest
        if use.steps < MAX_STEPS
        for opset in MEASURED_OPSETS
    ]
    pairs = zip(MEASURED_OPSETS, texts, ["", *texts], strict=False)
    changes = [f"{opset}: {text}" for opset, text, before in pairs if text != before]
    return "; ".join(changes) if len(changes) > 1 else "".join(texts[-1:])


def _operators_at(use: Use, opset: int) -> str:
    try:
        operators = use.operators(opset)
    except UnsupportedError:
        return ""
    ending = f" and {len(operators) - MAX_OPERATORS} more" if len(operators) > MAX_OPERATORS else ""
    return ", ".join(operators[:MAX_OPERATORS]) + ending


def refusals(names: set[str]) -> str:
    """Return the table of reasons, each with the refused primitives of these names."""
    by_reason: dict[str, list[str]] = {}
    for name in sorted(names):
        by_reason.setdefault(REFUSAL_REASONS[name], []).append(f"`{name}`")
    rows = [
        f"| {reason} | {', '.join(primitive_names)} |"
        for reason, primitive_names in sorted(by_reason.items())
    ]
    return "\n".join(["| reason | primitives |", "|---|---|", *rows]) + "\n"


def harness() -> str:
    """Return the table of JAX's harness: the remaining cases, and the reason for each."""
    lines = ["| left | reason |", "|---|---|"]
    return (
        "\n".join([*lines, *(f"| `{name}` | {reason} |" for name, reason in REMAINING.items())])
        + "\n"
    )
