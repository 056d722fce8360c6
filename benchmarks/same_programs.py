"""sha256 of the files of some thousand programs: every form a recogniser has a test of, every layer
of the frameworks that are installed, and random programs.

    python benchmarks/same_programs.py > before.txt     # then change something
    python benchmarks/same_programs.py | diff before.txt -

A line is a digest of the file and of what its report counts, or why there is no file. Nothing but
the conversions is run, which takes minutes where the tests take an hour.
"""

import argparse
import hashlib
import logging
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import jax
import onnx_ir as ir

import converter
from tests.converter.fuse.test_second_readers import FORMS
from tests.frameworks.examples import FRAMEWORKS
from tests.fuzz.draw import draw
from tests.fuzz.errors import ANY
from tests.fuzz.program import function
from tests.programs.ways import wrapped

WRAPS = ("plain", "vmap-1", "scan")
Row = tuple[str, Callable[[], converter.Export]]


def forms() -> Iterator[Row]:
    for name, form in FORMS:
        for how in WRAPS:
            for opset in (18, 23):

                def convert(form=form, how=how, opset=opset) -> converter.Export:
                    case = wrapped(form, how) if how != "plain" else form
                    return case.export(opset)

                yield f"{name} {how} {opset}", convert


def layers() -> Iterator[Row]:
    for framework in FRAMEWORKS:
        for row in framework.rows() if framework.installed else ():
            yield f"{framework.title} {row.name}", lambda row=row: row.convert()[1]


def programs(count: int) -> Iterator[Row]:
    for index in range(count):

        def convert(index=index) -> converter.Export:
            program = draw(f"same/{index}")
            with jax.enable_x64(program.x64):
                fn, params = function(program)
                specs = [(spec.shape, spec.dtype) for spec in program.inputs.values()]
                options = {"opset": program.opset, "strict": program.strict}
                return converter.to_onnx(fn, specs, params=params, **options)

        yield f"program {index}", convert


def line(row: Row) -> str:
    name, convert = row
    try:
        export = convert()
    except ANY as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:80]}  {name}"
    text = ir.serde.serialize_model(export.model).SerializeToString(deterministic=True)
    report = export.report
    near = [(miss.pattern, miss.reason, miss.count) for miss in report.near_misses]
    said = f"{sorted(report.fused.items())} {near} {len(report.deviations)}".encode()
    return f"{hashlib.sha256(text + said).hexdigest()[:16]}  {name}"


def part(number: int, of: int, count: int) -> list[str]:
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    rows = [*forms(), *layers(), *programs(count)]
    return [line(row) for row in rows[number::of]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=400, help="how many random ones")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    jobs = options.jobs
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        found = [pool.submit(part, i, jobs, options.programs) for i in range(jobs)]
        for text in sorted(text for each in found for text in each.result()):
            print(text)


if __name__ == "__main__":
    main()
