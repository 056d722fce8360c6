"""Tables and JSON of a benchmark.

The first columns are ratios of times, because they are nearly the same on all machines.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoo.apps.bench.measure import Bench, MeasuredModel
from zoo.apps.show.chart import TimedRow
from zoo.artifacts.measured import describe_load, is_busy
from zoo.cli.tables import Block, Table
from zoo.common.runtime import VERSION
from zoo.export.timing.rounds import describe_machine


def _format_ms(value: float) -> str:
    """Return milliseconds as text: with one decimal from 10 ms on, otherwise with three."""
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"


BENCH_COLUMNS = {
    "p50_to_first": (">p50 /\nfirst", "{:.2f}".format),
    "fastest_to_products": (">fastest /\nproducts", "{:.2f}".format),
    "p50_ms": (">p50 ms", _format_ms),
    "p95_ms": (">p95 ms", _format_ms),
    "load_s": (">load s", "{:.2f}".format),
    "peak_bytes": (">peak\nMB", lambda n: f"{n / 1e6:.0f}"),
    "kept_bytes": (">kept\nMB", lambda n: f"{n / 1e6:.0f}"),
}
"""The columns of a benchmark after the file, by their names in JSON.

Each has a heading and the function that formats its numbers.
"""


def bench_record(bench: Bench) -> dict[str, Any]:
    """Return a benchmark as `--json` prints it."""
    options, floor = bench.options, bench.product_times
    return {
        "runtime": f"{VERSION}, CPU",
        "machine": describe_machine(),
        "others": bench.busy_cores,
        "busy": is_busy(bench.busy_cores),
        "threads": options.threads,
        "rounds": options.rounds,
        "files": [measurement_record(bench, model) for model in bench.models],
        "products": {
            "ms": 1e3 * floor.total,
            "flops": floor.products.flops,
            "uncounted": floor.products.uncounted,
            "shapes": [
                {"op": product.op, "left": product.left, "right": product.right}
                | {"weight": product.constant, "count": count, "flops": product.flops}
                | {"ms": 1e3 * floor.seconds[product]}
                for product, count in floor.products.counts.items()
            ],
        },
    }


def measurement_record(bench: Bench, model: MeasuredModel) -> dict[str, Any]:
    """Return the measurements of one file of a benchmark as `--json` prints them.

    Ratios are relative to the first file. The ratio to its matrix products is None if it has none.
    Memory and loading times are None if they were not measured.
    """
    return {
        "name": model.name,
        "inputs": [
            {"name": spec.name, "dtype": spec.dtype, "shape": spec.shape} for spec in model.inputs
        ],
        "p50_to_first": model.percentile(50) / bench.models[0].percentile(50),
        "fastest_to_products": model.fastest / bench.product_times.total
        if bench.product_times.total
        else None,
        "p50_ms": 1e3 * model.percentile(50),
        "p95_ms": 1e3 * model.percentile(95),
        "fastest_ms": 1e3 * model.fastest,
        "load_s": model.footprint and model.footprint.load,
        "peak_bytes": model.footprint and model.footprint.peak,
        "kept_bytes": model.footprint and model.footprint.resident,
        "times_ms": [1e3 * seconds for seconds in model.times],
    }


def bench_blocks(bench: Bench) -> Iterator[Block]:
    """Yield what is printed about a benchmark: a row for each file, then its conditions.

    The conditions are the matrix products, the inputs, the machine and its load.
    """
    rows = []
    for model in bench.models:
        record = measurement_record(bench, model)
        cells = ((record[key], form) for key, (_, form) in BENCH_COLUMNS.items())
        rows.append(
            (short_name(model, bench), *("" if n is None else form(n) for n, form in cells))
        )
    yield Table(("~file", *(heading for heading, _ in BENCH_COLUMNS.values())), rows)
    products, total = bench.product_times.products, bench.product_times.total
    if total:
        yield (
            f"products of the first file: {products.counts.total()} of {len(products.counts)} "
            f"shapes, {products.flops / 1e9:.3g} GFLOP, alone in float32 {1e3 * total:.3g} ms "
            f"({products.flops / total / 1e9:.0f} GFLOP/s)"
        )
    if products.uncounted:
        uncounted = ", ".join(f"{count} {op}" for op, count in products.uncounted.items())
        yield f"not counted among the products: {uncounted}"
    shapes = {"; ".join(map(str, model.inputs)) for model in bench.models}
    measured = f"{bench.options.rounds} rounds, threads: {bench.options.threads}; {VERSION}"
    yield f"input {' or '.join(sorted(shapes))}; {measured}"
    yield f"{describe_machine()}; {describe_load(bench.busy_cores)}"


def short_name(model: MeasuredModel, bench: Bench) -> str:
    """Return the path of a measured file relative to the folder that contains all measured files.

    The name of a model that is not in a file is returned unchanged.
    """
    if model.footprint is None:
        return model.name
    parents = [Path(other.name).parent for other in bench.models if other.footprint]
    try:
        return Path(model.name).relative_to(os.path.commonpath(parents) or ".").as_posix()
    except ValueError:
        return model.name


def timed_rows(bench: Bench) -> list[TimedRow]:
    """Return the rows of the chart of a benchmark: the times of each file in milliseconds."""
    first = bench.models[0].percentile(50)
    return [
        TimedRow(
            name=short_name(model, bench),
            fastest=1e3 * model.fastest,
            median=1e3 * model.percentile(50),
            p95=1e3 * model.percentile(95),
            ratio=model.percentile(50) / first,
        )
        for model in bench.models
    ]
