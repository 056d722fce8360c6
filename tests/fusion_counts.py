"""Count the operators and near misses of every conversion in the tables of the tests.

`fusion_counts.json` has a line for each program: the number of nodes by operator and the number of
near misses by reason, at opsets 18 and 23. A change of a recogniser that gains or loses a fusion is
a difference from this file. It holds for the version of JAX that its first line names.

    python -m tests.fusion_counts                      print the differences
    python -m tests.fusion_counts "programs resize"    only for programs whose names start with this
    python -m tests.fusion_counts --write [PREFIX...]  write the lines of these programs again

Programs are converted, not run. Frameworks that are not installed are left out.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import jax

import converter
from tests.conformance import Case
from tests.frameworks.examples import FRAMEWORKS
from tests.frameworks.rows import Row, sized
from tests.generated import record
from tests.programs.table import PROGRAMS
from tests.seeded import NETWORKS, nano
from zoo import info
from zoo.architectures.architecture import Config
from zoo.architectures.builder import abstract
from zoo.architectures.dual.dual_config import TextConfig
from zoo.export.make import convert_model
from zoo.export.request import Signature

FILE = Path(__file__).with_name("fusion_counts.json")
OPSETS = ("18", "23")
ANY = "any"
BATCH = 50
"""Programs between two writes of the file, and between two clearings of the caches of JAX."""

Counts: TypeAlias = dict[str, Any]
"""Numbers of operators and of near misses by opset, or by `ANY` where all opsets have the same; the
name of the error if a program is refused."""

Convert: TypeAlias = Callable[[int], converter.Export]
"""Convert a program at an opset."""


def programs() -> dict[str, Convert]:
    """Return all programs by name, sorted."""
    return dict(sorted([*_cases(), *_layers(), *_networks()]))


def _cases() -> Iterator[tuple[str, Convert]]:
    for name, case in PROGRAMS.items():
        yield f"programs {name}", partial(_convert_case, case)


def _convert_case(case: Case, opset: int) -> converter.Export:
    with jax.enable_x64(case.x64):
        return case.export(opset)


def _layers() -> Iterator[tuple[str, Convert]]:
    for framework in FRAMEWORKS:
        for row in framework.rows() if framework.installed else ():
            yield f"{framework.title} {row.name}", partial(_convert_row, row)


def _convert_row(row: Row, opset: int) -> converter.Export:
    fn, params = row.bind(*sized(row.specs))
    return converter.to_onnx(fn, row.specs, params=params, opset=opset)


def _networks() -> Iterator[tuple[str, Convert]]:
    texts = {name: info(name).config for name in ("siglip_digits_text", "siglip_digits_dual")}
    for name, config in {**NETWORKS, **texts}.items():
        small = nano(config)
        sizes: dict[str, tuple[int, int] | None] = {"open": None}
        if not isinstance(config, TextConfig):
            sizes["fixed"] = (4 * config.stride, 6 * config.stride)
        for label, size in sizes.items():
            yield f"zoo {name} {label}", partial(_convert_network, small, size)


def _convert_network(config: Config, size: tuple[int, int] | None, opset: int) -> converter.Export:
    return convert_model(abstract(config), opset, Signature(size, None))


def count(convert: Convert) -> Counts:
    """Convert a program at every opset and return what is counted."""
    counts = {opset: _counts(convert, int(opset)) for opset in OPSETS}
    first, *others = counts.values()
    return counts if any(other != first for other in others) else {ANY: first}


def _counts(convert: Convert, opset: int) -> Counts:
    try:
        with warnings.catch_warnings(action="ignore"):
            report = convert(opset).report
    except (converter.UnsupportedError, converter.SpecError) as error:
        return {"error": type(error).__name__}
    missed = {f"{miss.pattern}: {miss.reason}": miss.count for miss in report.near_misses}
    counts = {"operators": report.histogram, "missed": dict(sorted(missed.items()))}
    return {kind: numbers for kind, numbers in counts.items() if numbers}


def read() -> tuple[str, dict[str, Counts]]:
    """Return the version of JAX that wrote the file, and the counts by program; empty without a
    file."""
    content = json.loads(FILE.read_text()) if FILE.exists() else {"jax": "", "programs": {}}
    return content["jax"], content["programs"]


def write(counts: Mapping[str, Counts]) -> None:
    """Write the file, programs sorted by name."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(counts[name], separators=(',', ':'))}"
        for name in sorted(counts)
    ]
    head = f'{{"jax": {json.dumps(jax.__version__)}, "programs": {{\n'
    FILE.write_text(head + ",\n".join(lines) + "\n}}\n")


def differences(name: str, written: Counts, counted: Counts) -> list[str]:
    """Return one sentence for each number that differs."""
    sentences = []
    for opset in OPSETS:
        old, new = (line.get(opset, line.get(ANY, {})) for line in (written, counted))
        if old.get("error") != new.get("error"):
            sentences.append(f"{name} at {opset}: {old.get('error')} -> {new.get('error')}")
        for kind in ("operators", "missed"):
            before, after = old.get(kind, {}), new.get(kind, {})
            sentences += [
                f"{name} at {opset}: {key}: {before.get(key, 0)} -> {after.get(key, 0)}"
                for key in sorted({*before, *after})
                if before.get(key, 0) != after.get(key, 0)
            ]
    return sentences


def _update(chosen: Mapping[str, Convert], known: Iterable[str], resume: bool) -> None:
    """Write the lines of the chosen programs. Lines of programs that are not in ``known`` are
    deleted. With ``resume`` only missing lines are written."""
    names = {*known}
    counts = {name: line for name, line in read()[1].items() if name in names}
    remaining = [name for name in chosen if not (resume and name in counts)]
    for start in range(0, len(remaining), BATCH):
        counts |= {name: count(chosen[name]) for name in remaining[start : start + BATCH]}
        write(counts)
        jax.clear_caches()
        print(f"{min(start + BATCH, len(remaining))} of {len(remaining)}", flush=True)
    if set(remaining) == names:
        record("tests/fusion_counts.json")


def _compare(chosen: Mapping[str, Convert]) -> None:
    """Print the differences between the chosen programs and the file."""
    _, written = read()
    for number, (name, convert) in enumerate(chosen.items()):
        for sentence in differences(name, written.get(name, {}), count(convert)):
            print(sentence, flush=True)
        if number % BATCH == 0:
            jax.clear_caches()
    print(f"{len(chosen)} programs compared")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fusion_counts")
    parser.add_argument("prefix", nargs="*", help="only programs whose names start with one")
    parser.add_argument("--write", action="store_true", help="write the file")
    parser.add_argument("--resume", action="store_true", help="write only lines that are missing")
    options = parser.parse_args()
    all_programs = programs()
    prefixes = tuple(options.prefix) or ("",)
    chosen = {name: convert for name, convert in all_programs.items() if name.startswith(prefixes)}
    if options.write:
        _update(chosen, all_programs, options.resume)
    else:
        _compare(chosen)


if __name__ == "__main__":
    main()
