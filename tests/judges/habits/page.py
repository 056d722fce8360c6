"""The pages that list what runtimes get wrong."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from converter.targets.versions import parse_versions
from tests.judges.habits import TABLES, TITLES, VERSIONS, Arrays, Habit, Runtime, kernels

INTRODUCTION = """# What runtimes get wrong

This page lists the known faults of runtimes, and operators that a runtime cannot run, for files
that are valid by the ONNX standard. We observed each fault on CPUs, in all versions in the heading.
If a newer version has fixed a fault, the fault is in a separate section. The converter also avoids
these faults, unless the target is limited to newer versions (`onnxruntime>=1.32`).
"""

SUMMARY = """The column "by the standard" describes the correct behaviour. If it is not obvious,
this column also describes what the runtime does. The column "the converter" describes how the
converter avoids the fault.

The tables in `tests/judges/habits` contain a minimal file for each fault, with the inputs, the
correct result and the result of the runtime. `tests/judges/test_habits.py` runs these files. The
documentation site also shows these files (`python docs/build.py`). Run `python -m
tests.judges.habits` to write this page.
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
    """Return the faults by heading. Fixed faults come last, by the version that fixed them."""
    found: dict[str, list[Habit]] = {title: [] for title in TABLES[runtime]}
    for title, habits in TABLES[runtime].items():
        for habit in habits:
            having = [v for v in VERSIONS[runtime] if v in parse_versions(habit.versions)]
            later = VERSIONS[runtime][len(having) :]
            fixed = f"Seen in {' and '.join(having)}, fixed in {later[0]}" if later else title
            before = f"Fixed in {habit.versions.removeprefix('<')}"
            found.setdefault(fixed if having else before, []).append(habit)
    return found


def _kernels() -> Iterator[str]:
    seen = " and ".join(VERSIONS["onnxruntime"])
    yield f"## Types without a kernel in ONNX Runtime {seen} at opset {kernels.OPSET}\n"
    yield "The standard allows these types for the operators. ONNX Runtime has no kernels for them."
    yield "float16 is not in the table, because ONNX Runtime converts float16 itself.\n"
    yield "| types without a kernel | operators |"
    yield "|---|---|"
    for types, operators in kernels.MISSING.items():
        yield f"| {types or 'none'} | {operators} |"
    for version, added in kernels.ADDED.items():
        listed = ", ".join(f"{operator} of {types}" for operator, types in added.items())
        yield f"\nBefore {version}, {listed} had no kernel either."
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
