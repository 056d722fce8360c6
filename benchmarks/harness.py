"""Test the converter on JAX's own table of uses of its primitives.

python benchmarks/harness.py [--sample 12] [--opset 23] [--only PART_OF_A_NAME] [--jobs 2]

The program prints a row for each group, and each case without a correct file, with the reason. The
exit status is 1 if a case is wrong or broken and not in the list of known ones.
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
def sampled_harnesses(size: int) -> dict[str, Any]:
    return sample(whole(), size)


def run_harness(name: str, size: int, opset: int) -> Outcome:
    """Return the outcome of one harness. It runs in a separate process, because it may crash."""
    return outcome(sampled_harnesses(size)[name], opset)


def run_in_process(names: Sequence[str], size: int, opset: int) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcome of each harness. They run one after the other in a process that is replaced
    if it crashes."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context)
    for name in names:
        future = pool.submit(run_harness, name, size, opset)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            pool = ProcessPoolExecutor(1, context)
        description = f"{type(error).__name__}: {error}"
        yield name, future.result() if error is None else Outcome("broken", description)
    pool.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sample", type=int, default=12, help="largest number of harnesses in a group"
    )
    parser.add_argument("--opset", type=int, default=23)
    parser.add_argument("--only", default="", help="run only harnesses whose names contain this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    table = sampled_harnesses(options.sample)
    names = [name for name in table if options.only in name]
    parts = [names[i :: options.jobs] for i in range(options.jobs)]
    with ThreadPoolExecutor(options.jobs) as threads:
        part_results = threads.map(
            lambda part: list(run_in_process(part, options.sample, options.opset)), parts
        )
        results = {name: result for part in part_results for name, result in part}
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
