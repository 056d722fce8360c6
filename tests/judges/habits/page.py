"""The pages that list the faults of runtimes: `docs/runtimes.md`, and its details on the site."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from converter.targets.versions import versions
from tests.judges.habits import TABLES, TITLES, VERSIONS, Arrays, Habit, Runtime, kernels

INTRODUCTION = """# What runtimes get wrong

Faults of runtimes, and operators that they cannot run, in files that are right by the standard.
They were seen on CPUs, in all versions that a heading names. Faults that a newer version mended
have a heading of their own; the converter avoids them too, unless the target names newer versions
alone (`onnxruntime>=1.32`).
"""

SUMMARY = """The tables in `tests/judges/habits` have a minimal file for each fault, with its
inputs, the right result and the result of the runtime. The site shows them as a page
(`python docs/build.py`), and `tests/judges/test_habits.py` runs them. This page is written by
`python -m tests.judges.habits`.
"""

DETAILS = """Each fault has a minimal file in ONNX's text form (`onnx.parser.parse_model`), the
result that JAX gives, the result of the runtime, and what the converter does.
"""


def page() -> str:
    """Return `docs/runtimes.md`: a row for each fault."""
    rows = (line for runtime in TABLES for line in _section(runtime, _summary))
    return "\n".join([INTRODUCTION, SUMMARY, *rows, *_kernels()])


def details_page() -> str:
    """Return the page with the minimal file of each fault."""
    entries = (line for runtime in TABLES for line in _section(runtime, _entries))
    return "\n".join([INTRODUCTION, DETAILS, *entries])


def _section(runtime: Runtime, lines: Callable[[Sequence[Habit]], Iterator[str]]) -> Iterator[str]:
    yield f"## {TITLES[runtime]} {' and '.join(VERSIONS[runtime])}\n"
    for title, habits in _by_title(runtime).items():
        yield f"### {title}\n"
        yield from lines(habits)


def _summary(habits: Sequence[Habit]) -> Iterator[str]:
    yield "| fault | by the standard | the converter |"
    yield "|---|---|---|"
    for habit in habits:
        cells = (habit.name, habit.standard, habit.ours)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _entries(habits: Sequence[Habit]) -> Iterator[str]:
    for habit in habits:
        yield from _entry(habit)


def _by_title(runtime: Runtime) -> Mapping[str, Sequence[Habit]]:
    """Return a runtime's faults by heading.

    Mended faults come last, with a heading for the version that mended them.
    """
    by_title: dict[str, list[Habit]] = {title: [] for title in TABLES[runtime]}
    for title, habits in TABLES[runtime].items():
        for habit in habits:
            affected = [v for v in VERSIONS[runtime] if v in versions(habit.versions)]
            later_versions = VERSIONS[runtime][len(affected) :]
            mended_title = (
                f"Seen in {' and '.join(affected)}, mended in {later_versions[0]}"
                if later_versions
                else title
            )
            mended_before_title = f"Mended in {habit.versions.removeprefix('<')}"
            by_title.setdefault(mended_title if affected else mended_before_title, []).append(habit)
    return by_title


def _kernels() -> Iterator[str]:
    seen = " and ".join(VERSIONS["onnxruntime"])
    yield f"## Types without a kernel in ONNX Runtime {seen} at opset {kernels.OPSET}\n"
    yield "Of the types that the operators have by the standard. What it lacks in float16, it"
    yield "converts by itself.\n"
    yield "| types | operators |"
    yield "|---|---|"
    for types, operators in kernels.MISSING.items():
        yield f"| {types or 'none'} | {operators} |"
    for version, added in kernels.ADDED.items():
        listed = ", ".join(f"{operator} of {types}" for operator, types in added.items())
        yield f"\nBefore {version} also {listed}."
    yield ""


def _entry(habit: Habit) -> Iterator[str]:
    seen = habit.seen if isinstance(habit.seen, str) else _arrays(habit.seen)
    yield f"**{habit.name}.** By the standard: {habit.standard}. The converter: {habit.ours}.\n"
    yield f"```\n{habit.text}\n```\n"
    yield "| inputs | right | seen |"
    yield "|---|---|---|"
    yield f"| {_arrays(habit.inputs)} | {_arrays(habit.right)} | {seen} |\n"


def _arrays(arrays: Arrays) -> str:
    return ", ".join(
        f"`{x.tolist()}`" if x.size else f"nothing of shape `{list(x.shape)}`" for x in arrays
    )
