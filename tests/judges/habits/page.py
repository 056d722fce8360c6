"""The page that lists them."""

from collections.abc import Iterator, Mapping, Sequence

from converter.targets.versions import versions
from tests.judges.habits import TABLES, TITLES, VERSIONS, Arrays, Habit, Runtime, kernels

INTRODUCTION = """# Runtimes

What runtimes get wrong, or cannot run, of files that are right by the standard: each with a
minimal file in ONNX's text form (`onnx.parser.parse_model`), what JAX gives for it, what the
runtime gives, and what our converter does about it. It was seen on CPUs, in all versions that the
heading names. What the newest of them has mended is listed apart. The converter does the same about
it as before, unless the target names newer versions alone (`onnxruntime>=1.32`).
`tests/judges/test_habits.py` runs every file.
"""


def page() -> str:
    """`docs/runtimes.md`."""
    sections = (line for runtime in TABLES for line in _section(runtime))
    return "\n".join([INTRODUCTION, *sections, *_kernels()])


def _section(runtime: Runtime) -> Iterator[str]:
    yield f"## {TITLES[runtime]} {' and '.join(VERSIONS[runtime])}\n"
    for title, habits in _by_title(runtime).items():
        yield f"### {title}\n"
        for habit in habits:
            yield from _entry(habit)


def _by_title(runtime: Runtime) -> Mapping[str, Sequence[Habit]]:
    """What is mended comes last, by the version that mended it."""
    found: dict[str, list[Habit]] = {title: [] for title in TABLES[runtime]}
    for title, habits in TABLES[runtime].items():
        for habit in habits:
            having = [v for v in VERSIONS[runtime] if v in versions(habit.versions)]
            later = VERSIONS[runtime][len(having) :]
            mended = f"Seen in {' and '.join(having)}, mended in {later[0]}" if later else title
            before = f"Mended in {habit.versions.removeprefix('<')}"
            found.setdefault(mended if having else before, []).append(habit)
    return found


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
