"""Write the page `docs/frameworks.md`, apart from its examples: `python -m tests.frameworks`."""

from tests.frameworks.examples import FRAMEWORKS, Framework
from tests.frameworks.rows import PAGE, example, line

HEAD = """# Frameworks

Models of other people's frameworks convert as they are: nothing is patched and no base class is
needed. [Flax NNX](frameworks/flax-nnx.md), [Flax Linen](frameworks/flax-linen.md),
[Equinox](frameworks/equinox.md), [Keras 3](frameworks/keras.md) and
[Haiku](frameworks/haiku.md) each have a page with a whole model and the errors that people meet.

The tables below say which operators each layer becomes, in a file of opset 23. The layers have a
batch of any size unless their framework wants a number, and each file gave JAX's numbers in ONNX
Runtime.
"""


def section(framework: Framework) -> str:
    """Return the section of a framework: its example, the table of its layers, and the layers that
    it lacks."""
    needs = "<!-- needs the extra [frameworks]: tests/frameworks runs it -->"
    lines = [f"## {framework.title}", "", needs, f"```python{example(framework.title)}```", ""]
    lines += ["| layer | operators |", "|---|---|"]
    lines += [line(row, row.convert()[1]) for row in framework.rows()]
    if excluded := framework.excluded():
        lines += ["", "Not here:", ""]
        lines += [f"- `{name}`: {reason}" for name, reason in excluded.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text("\n\n".join([HEAD.strip(), *map(section, FRAMEWORKS)]) + "\n")
