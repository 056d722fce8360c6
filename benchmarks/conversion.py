"""How long conversion takes once everything is imported, pass by pass.

    python benchmarks/conversion.py [ROUNDS]

Every round converts each network twice in a new process. `first` is what a user waits for; `again`
is without what JAX and Python do only once; `processor` is the time of all threads in `first`,
which a busy machine changes least. The fastest round of each row counts, so that `all` may be more
than its parts.
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
"""By stage: seconds on the clock, and of all threads together."""


def convert(name: str) -> tuple[Times, int, int]:
    """How long every stage takes; the nodes of the trace and of the file."""
    model = abstract(zoo.info(name).config)
    moments = [("", time.perf_counter(), time.process_time())]

    def mark(stage: str, _: Graph | None = None) -> None:
        moments.append((stage, time.perf_counter(), time.process_time()))

    graph = trace(batched, [SHAPE], model)
    mark("trace")
    traced = len(graph.nodes)
    passes.run_passes(graph, passes.PassSettings(opset=OPSET), mark)
    lowered = lower(graph, OPSET, TARGET)
    mark("lower")
    written = clean_up_model(lowered, TARGET)
    mark("tidy")
    pairs = [("all", moments[0], moments[-1])]
    pairs += [(after[0], before, after) for before, after in pairwise(moments)]
    times = {stage: (b[1] - a[1], b[2] - a[2]) for stage, a, b in pairs}
    return times, traced, len(written.graph)


def twice(name: str) -> tuple[Times, Times, int, int]:
    first, *nodes = convert(name)
    return first, convert(name)[0], *nodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    rounds = parser.parse_args().rounds
    context = multiprocessing.get_context("spawn")
    for name in NETWORKS:
        with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
            runs = list(pool.map(twice, [name] * rounds))
        *_, traced, written = runs[0]
        print(f"\n{name}: {traced} nodes traced, {written} written at opset {OPSET}")
        print(f"{'ms':<24}{'first':>10}{'again':>10}{'processor':>10}")
        for stage in runs[0][0]:
            rows = [(a[stage][0], b[stage][0], a[stage][1]) for a, b, *_ in runs]
            fastest = (min(column) for column in zip(*rows, strict=True))
            print(f"{stage:<24}" + "".join(f"{1e3 * seconds:10.1f}" for seconds in fastest))


if __name__ == "__main__":
    main()
