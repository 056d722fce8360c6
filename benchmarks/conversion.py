"""Measure how long each stage of a conversion takes after all imports.

python benchmarks/conversion.py [ROUNDS]
python -m benchmarks.conversion --programs 30

Each round converts each network twice in a new process. `first` is the time that a user waits for.
`again` leaves out the work that JAX and Python do only once. `processor` is the processor time of
all threads in `first`, which a busy machine changes least. Each row shows its fastest round, so the
sum of the stages may be less than `all`.

With `--programs`, each program of the tests is converted in one process, at the opsets of
`tests/fusion_counts.py`. The slowest are printed with their processor time. Alternate runs of two
versions to compare them.
"""

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

import zoo
from converter.api.conversion import clean_up_model
from converter.frontend.trace import trace
from converter.ir import Graph
from converter.lower import lower
from converter.opsets import DEFAULT_TARGET
from converter.pipeline import passes
from converter.targets import find_target
from zoo.architectures.builder import abstract, batched

OPSET = 23
TARGET = find_target(DEFAULT_TARGET)
SHAPE = ("B", 3, 224, 224)
NETWORKS = ("dinov3_vits16", "dinov3_convnext_tiny")

Times = dict[str, tuple[float, float]]
"""Seconds by stage: wall-clock time, and processor time of all threads."""


def convert(name: str) -> tuple[Times, int, int]:
    """Return the times of all stages, the number of traced nodes, and the number of nodes in the
    file."""
    model = abstract(zoo.info(name).config)
    moments = [("", time.perf_counter(), time.process_time())]

    def mark(stage: str, _: Graph | None = None) -> None:
        moments.append((stage, time.perf_counter(), time.process_time()))

    graph = trace(batched, [SHAPE], model)
    mark("trace")
    traced_nodes = len(graph.nodes)
    passes.run_passes(graph, passes.PassSettings(opset=OPSET), mark)
    lowered = lower(graph, OPSET, TARGET)
    mark("lower")
    model = clean_up_model(lowered, TARGET)
    mark("tidy")
    pairs = [("all", moments[0], moments[-1])]
    pairs += [(after[0], before, after) for before, after in pairwise(moments)]
    times = {stage: (end[1] - start[1], end[2] - start[2]) for stage, start, end in pairs}
    return times, traced_nodes, len(model.graph)


def convert_twice(name: str) -> tuple[Times, Times, int, int]:
    first, *nodes = convert(name)
    return first, convert(name)[0], *nodes


def time_programs(count: int) -> None:
    """Print the slowest programs of the tests, and the processor time of these and of all."""
    # Only this measurement needs the tests and the frameworks that they import.
    from tests import fusion_counts

    times = dict[str, float]()
    for name, convert_program in fusion_counts.programs().items():
        start = time.process_time()
        fusion_counts.count(convert_program)
        times[name] = time.process_time() - start
    slowest = sorted(times, key=times.__getitem__, reverse=True)[:count]
    rows = {name: times[name] for name in slowest}
    rows |= {f"these {len(slowest)}": sum(rows.values()), f"all {len(times)}": sum(times.values())}
    for name, seconds in rows.items():
        print(f"{name:<56}{1e3 * seconds:10.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    parser.add_argument("--programs", type=int, help="time the programs of the tests instead")
    options = parser.parse_args()
    if options.programs:
        time_programs(options.programs)
        return
    context = multiprocessing.get_context("spawn")
    for name in NETWORKS:
        with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
            runs = list(pool.map(convert_twice, [name] * options.rounds))
        *_, traced_nodes, file_nodes = runs[0]
        print(f"\n{name}: {traced_nodes} nodes traced, {file_nodes} written at opset {OPSET}")
        print(f"{'ms':<24}{'first':>10}{'again':>10}{'processor':>10}")
        for stage in runs[0][0]:
            rows = [(a[stage][0], b[stage][0], a[stage][1]) for a, b, *_ in runs]
            fastest = (min(column) for column in zip(*rows, strict=True))
            print(f"{stage:<24}" + "".join(f"{1e3 * seconds:10.1f}" for seconds in fastest))


if __name__ == "__main__":
    main()
