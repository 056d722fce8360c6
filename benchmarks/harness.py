"""JAX's own table of uses of its primitives: how many the converter takes, and what is wrong.

    python benchmarks/harness.py [--sample 12] [--opset 23] [--only PART_OF_A_NAME] [--jobs 2]

A row for every group, and every case that is not right, with its reason. The exit status is 1 if
one is wrong or broken that is not listed.
"""

import argparse
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any

from tests.converter.harness.outcome import KINDS, Outcome, outcome
from tests.converter.harness.refused import reason
from tests.converter.harness.table import sample, whole


@cache
def chosen(size: int) -> dict[str, Any]:
    return sample(whole(), size)


def one(name: str, size: int, opset: int) -> Outcome:
    """The outcome of one harness, in a process that may die of it."""
    return outcome(chosen(size)[name], opset)


def outcomes(names: Sequence[str], size: int, opset: int) -> Iterator[tuple[str, Outcome]]:
    """The outcomes of some harnesses, one after the other in a process of their own."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context)
    for name in names:
        future = pool.submit(one, name, size, opset)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            pool = ProcessPoolExecutor(1, context)
        told = f"{type(error).__name__}: {error}"
        yield name, future.result() if error is None else Outcome("broken", told)
    pool.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=12, help="harnesses of a group, at most")
    parser.add_argument("--opset", type=int, default=23)
    parser.add_argument("--only", default="", help="part of the names of those to run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    table = chosen(options.sample)
    names = [name for name in table if options.only in name]
    parts = [names[i :: options.jobs] for i in range(options.jobs)]
    with ThreadPoolExecutor(options.jobs) as threads:
        found = threads.map(lambda part: list(outcomes(part, options.sample, options.opset)), parts)
        results = {name: result for part in found for name, result in part}
    groups: dict[str, Counter[str]] = {table[name].group_name: Counter() for name in names}
    for name in names:
        groups[table[name].group_name][results[name].kind] += 1
    total = sum(groups.values(), Counter())
    print(f"{'group':<32}" + "".join(f"{kind:>10}" for kind in KINDS))
    for group, count in [*groups.items(), ("all", total)]:
        print(f"{group:<32}" + "".join(f"{count[kind] or '':>10}" for kind in KINDS))
    for name in (n for n in names if results[n].kind not in ("right", "strict")):
        print(f"\n{results[name].kind}: {name}\n  {reason(name) or results[name].detail}")
    raise SystemExit(
        any(reason(n) is None and results[n].kind in ("wrong", "broken") for n in names)
    )


if __name__ == "__main__":
    main()
