"""Write the page `docs/frameworks.md`, apart from its examples: `python -m tests.frameworks`."""

from tests.frameworks.examples import FRAMEWORKS, Framework
from tests.frameworks.rows import PAGE, example, line

HEAD = """# Frameworks

You can convert models of these frameworks without changes. The converter patches nothing, and you
need no base class. [Flax NNX](frameworks/flax-nnx.md), [Flax Linen](frameworks/flax-linen.md),
[Equinox](frameworks/equinox.md), [Keras 3](frameworks/keras.md) and [Haiku](frameworks/haiku.md)
each have a page with a complete model and common errors.

The tables below list the ONNX operators of each layer, in a file of opset 23. The batch size is
open, unless the framework needs a number. The results of each file in ONNX Runtime equal those of
JAX.
"""


def section(framework: Framework) -> str:
    """Return the section of a framework: its example, the table of its layers, and the layers that
    it lacks."""
    needs = "<!-- needs the extra [frameworks]: tests/frameworks runs it -->"
    lines = [f"## {framework.title}", "", needs, f"```python{example(framework.title)}```", ""]
    lines += ["| layer | operators |", "|---|---|"]
    lines += [line(row, row.convert()[1]) for row in framework.rows()]
    if excluded := framework.excluded():
        lines += ["", "Not in the table:", ""]
        lines += [f"- `{name}`: {reason}" for name, reason in excluded.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text("\n\n".join([HEAD.strip(), *map(section, FRAMEWORKS)]) + "\n")
