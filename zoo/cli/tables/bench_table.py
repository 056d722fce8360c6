"""A benchmark as a person reads it, and as JSON: ratios first, for they survive a slow machine."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weights.terminal import say
from zoo.bench.measure import Bench, Contender
from zoo.cli.tables import print_table
from zoo.runtime import VERSION

RATIOS = (">p50 /\nfirst", ">fastest /\nproducts")
HEADINGS = ("~file", *RATIOS, ">p50 ms", ">p95 ms", ">load s", ">peak\nMB", ">kept\nMB")


def bench_record(found: Bench) -> dict[str, Any]:
    """A benchmark for JSON."""
    options, floor = found.options, found.floor
    return {
        "runtime": f"{VERSION}, CPU",
        "machine": f"{platform.machine()}, {platform.system()}",
        "threads": options.threads,
        "rounds": options.rounds,
        "files": [record_contender(found, each) for each in found.contenders],
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


def record_contender(found: Bench, each: Contender) -> dict[str, Any]:
    """One row for JSON; ratios are None where there is nothing to divide by."""
    taken = each.footprint
    kept = (taken.load, taken.peak, taken.resident) if taken else (None, None, None)
    return {
        "name": each.name,
        "inputs": [{"name": s.name, "dtype": s.dtype, "shape": s.shape} for s in each.inputs],
        "p50_to_first": each.percentile(50) / found.contenders[0].percentile(50),
        "fastest_to_products": each.fastest / found.floor.total if found.floor.total else None,
        "p50_ms": 1e3 * each.percentile(50),
        "p95_ms": 1e3 * each.percentile(95),
        "fastest_ms": 1e3 * each.fastest,
        **dict(zip(("load_s", "peak_bytes", "kept_bytes"), kept, strict=True)),
        "times_ms": [1e3 * seconds for seconds in each.times],
    }


def show_bench(found: Bench) -> None:
    """A row a file, then what was measured how."""
    print_table(HEADINGS, [bench_row(found, each) for each in found.contenders])
    for line in bench_notes(found):
        say(line)


def bench_row(found: Bench, each: Contender) -> Iterator[str]:
    """The measures of a file."""
    told = record_contender(found, each)
    yield short(each, found)
    yield f"{told['p50_to_first']:.2f}"
    yield _shown(told["fastest_to_products"], ".2f")
    yield from (_ms(told[key]) for key in ("p50_ms", "p95_ms"))
    yield _shown(told["load_s"], ".2f")
    yield from (
        _shown(told[key] and told[key] / 1e6, ".0f") for key in ("peak_bytes", "kept_bytes")
    )


def short(each: Contender, found: Bench) -> str:
    """A file's path without the folders that all have."""
    if each.footprint is None:
        return each.name
    parents = [Path(other.name).parent for other in found.contenders if other.footprint]
    try:
        return Path(each.name).relative_to(os.path.commonpath(parents) or ".").as_posix()
    except ValueError:
        return each.name


def ratios(found: Bench) -> dict[str, dict[str, float | None]]:
    """Both ratios of every file, by its name."""
    told = {short(each, found): record_contender(found, each) for each in found.contenders}
    return {
        name: {
            "median, to that of the first file": row["p50_to_first"],
            "fastest, to the matrix products alone": row["fastest_to_products"],
        }
        for name, row in told.items()
    }


def _ms(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def _shown(value: float | None, format: str) -> str:
    return "" if value is None else f"{value:{format}}"


def bench_notes(found: Bench) -> Iterator[str]:
    """What the table has no room for."""
    options, floor = found.options, found.floor
    counts = floor.products.counts
    if floor.total:
        yield (
            f"products of the first file: {counts.total()} of {len(counts)} shapes, "
            f"{floor.products.flops / 1e9:.3g} GFLOP, alone in float32 {1e3 * floor.total:.3g} ms "
            f"({floor.products.flops / floor.total / 1e9:.0f} GFLOP/s)"
        )
    if floor.products.uncounted:
        told = ", ".join(f"{count} {op}" for op, count in floor.products.uncounted.items())
        yield f"not counted among the products: {told}"
    shapes = {"; ".join(map(str, each.inputs)) for each in found.contenders}
    yield (
        f"input {' or '.join(sorted(shapes))}; {options.rounds} rounds, threads: "
        f"{options.threads}; {VERSION}"
    )
