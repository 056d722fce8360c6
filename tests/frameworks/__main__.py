"""Write the page `docs/frameworks.md`, apart from its examples: `python -m tests.frameworks`."""

from tests.frameworks.examples import FRAMEWORKS, Framework
from tests.frameworks.rows import PAGE, example, operators, reasons, table
from tests.generated import record

HEAD = """# Frameworks

You can convert models of these frameworks without changes. The converter does not patch the
frameworks, and you do not need a base class. There is a page with a complete model and common
errors for [Flax NNX](frameworks/flax-nnx.md), [Flax Linen](frameworks/flax-linen.md),
[Equinox](frameworks/equinox.md), [Keras 3](frameworks/keras.md) and [Haiku](frameworks/haiku.md).

The following tables list the ONNX operators of each layer at opset 23. Layers with the same
operators share a row. The batch size is dynamic, unless the framework requires a number. For each
file, the results in ONNX Runtime are equal to the results of JAX.
"""


def section(framework: Framework) -> str:
    """Return the section of a framework: its example, the table of its layers, and the layers that
    it lacks."""
    skip = '<!-- skip: next "tests/frameworks runs it" -->'
    lines = [f"## {framework.title}", "", skip, f"```python\n{example(framework.title)}```", ""]
    lines += table((row.name, operators(row.convert()[1])) for row in framework.rows())
    if excluded := framework.excluded():
        lines += ["", "These layers are not in the table:", "", *reasons(excluded)]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text("\n\n".join([HEAD.strip(), *map(section, FRAMEWORKS)]) + "\n")
    record("docs/frameworks.md")
