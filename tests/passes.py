"""The page of the passes of a conversion, in their order.

`python -m tests.passes > docs/reference/passes.md` writes it.
"""

from collections.abc import Iterator

from converter.pipeline.passes import PASSES, Pass

HEAD = """# The passes in their order

`python -m tests.passes` writes this page from `converter/pipeline/passes.py`;
[Passes](../concepts/passes.md) says what they are for. What a pass marked with * has changed is
canonicalized at once. The passes of a group come again, one after the other, as long as the first
of them changes anything, {most} times at most.

| | pass | what it does | from opset |
|---|---|---|---|
"""


def page() -> str:
    """Markdown."""
    (most,) = {row.most for row in PASSES if not isinstance(row, Pass)}
    return HEAD.format(most=most) + "".join(lines())


def lines() -> Iterator[str]:
    """A line for each pass; those of a group have a number and a letter."""
    for number, row in enumerate(PASSES, 1):
        if isinstance(row, Pass):
            yield _line(str(number), row)
            continue
        for letter, step in zip("abcdef", row.passes, strict=False):
            yield _line(f"{number}{letter}", step)


def _line(number: str, step: Pass) -> str:
    mark = "\\*" if step.canonical else ""
    return f"| {number} | {step.name}{mark} | {step.purpose} | {step.since} |\n"


if __name__ == "__main__":
    print(page(), end="")
