"""jax2onnx's own test cases through our converter: how many convert, and are right.

    python benchmarks/jax2onnx_cases.py [--only PART_OF_A_NAME] [--every 1] [--jobs 2]

Needs an environment with `jax2onnx` beside what the converter needs. A case is a function and the
shapes or values of its inputs, which that project has for every primitive, layer and example that
it knows. Each is converted at opset 23 or the newer one that it asks for, as it stands, and judged
by `converter.check` on its values or on drawn ones. `refused` comes with one sentence. JAX itself
refuses what is `untraceable`. `wrong` has other numbers than JAX. `broken` is a file that does not
run, or an error that is not ours.
"""

import argparse
import contextlib
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any

import jax
import numpy as np
from jax2onnx.plugins import plugin_system

import converter
from converter import ConverterError
from converter.verify.samples import samples

KINDS = ("right", "refused", "untraceable", "wrong", "broken", "slow")
OPSET = 23

Case = Mapping[str, Any]


@cache
def cases() -> dict[str, Case]:
    """All of them by the place and the name that they have there."""
    plugin_system.import_all_plugins()
    registries = (plugin_system.PLUGIN_REGISTRY, plugin_system.EXAMPLE_REGISTRY)
    found: dict[str, Case] = {}
    for registry in registries:
        for name, plugin in registry.items():
            metadata = plugin if isinstance(plugin, Mapping) else getattr(plugin, "metadata", {})
            for case in metadata.get("testcases") or ():
                found[f"{metadata.get('context', '')}.{name}/{case['testcase']}"] = case
    return found


def inputs(case: Case) -> list[Any]:
    """What `to_onnx` is told of a case's inputs: values, or shapes and dtypes."""
    if case.get("input_values") is not None:
        return [np.asarray(value) for value in case["input_values"]]
    shapes = [s if isinstance(s, (tuple, list)) else (s,) for s in case.get("input_shapes") or ()]
    dtypes = case.get("input_dtypes") or [np.float32] * len(shapes)
    return [(tuple(s), np.dtype(d)) for s, d in zip(shapes, dtypes, strict=True)]


def function(case: Case) -> Any:
    """The function of a case; layers of its frameworks are made when they are asked for."""
    fn = case["callable"]
    if hasattr(fn, "with_dtype"):
        fn = fn.with_dtype(np.float64 if is_wide(case) else np.float32)
    return fn.instantiate() if hasattr(fn, "instantiate") else fn


def is_wide(case: Case) -> bool:
    """Whether a case is one of float64 alone."""
    return bool(case.get("run_only_f64_variant") or case.get("enable_double_precision"))


def outcome(name: str) -> tuple[str, str]:
    """What became of a case, and what was said."""
    case = cases()[name]
    fn, specs = function(case), inputs(case)
    values = case.get("input_values")
    static = case.get("input_params") or {}
    opset = max(OPSET, case.get("opset_version") or OPSET)
    with jax.enable_x64(True) if is_wide(case) else contextlib.nullcontext():
        try:
            export = converter.to_onnx(fn, specs, kwargs=static, opset=opset)
        except ConverterError as error:
            return "refused", str(error)
        except jax.errors.JAXTypeError as error:
            return "untraceable", str(error).splitlines()[0]
        # Inputs that have values may be indices, which drawn ones would leave.
        drawn = next(samples(export.graph))[1]
        given = drawn if values is None else [np.asarray(v) for v in values]
        call = export.interface.called(fn)
        verdict = converter.check(export.model, call, given)
        if not verdict.passed:  # by more than rounding does to the largest element
            verdict = converter.check(export, fn, given)
    return ("right", "") if verdict.passed else ("wrong", str(verdict.differences[:1]))


def one(name: str) -> tuple[str, str]:
    found = outcome(name)
    jax.clear_caches()
    return found


def outcomes(names: Sequence[str], seconds: float) -> Iterator[tuple[str, tuple[str, str]]]:
    """One after the other in a process of their own, which may die of one."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context)
    for name in names:
        future = pool.submit(one, name)
        try:
            error = future.exception(seconds)
            kind, told = "broken", f"{type(error).__name__}: {error}"
        except TimeoutError as passed:
            error, kind, told = passed, "slow", f"more than {seconds:.0f} s"
        if isinstance(error, (BrokenProcessPool, TimeoutError)):
            for process in list(pool._processes.values()):
                process.kill()
            pool.shutdown(wait=False)
            pool = ProcessPoolExecutor(1, context)
        yield name, future.result() if error is None else (kind, told)
    pool.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the names of those to run")
    parser.add_argument("--every", type=int, default=1, help="one case of so many")
    parser.add_argument("--seconds", type=float, default=120, help="what a case may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    names = [name for name in cases() if asked.only in name][:: asked.every]
    counts: Counter[str] = Counter()
    parts = [names[i :: asked.jobs] for i in range(asked.jobs)]

    def run(part: Sequence[str]) -> None:
        for name, (kind, told) in outcomes(part, asked.seconds):
            counts[kind] += 1
            if kind != "right":
                print(f"{kind}: {name}: {' '.join(told.split())[:300]}", flush=True)

    with ThreadPoolExecutor(asked.jobs) as threads:
        list(threads.map(run, parts))
    total = counts.total()
    print(f"{total} cases: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS))
    print(f"{100 * counts['right'] / total:.1f} % right")


if __name__ == "__main__":
    main()
