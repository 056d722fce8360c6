"""The part of the page about performance that has files beside `jax.jit`, and its picture."""

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from benchmarks.pages import number, table
from zoo.show.chart import bars

SIZES = ("small", "realistic")
"""Of each program's inputs."""

COLUMNS = (
    ("jit, ms", "jit_ms", ".3f"),
    ("file, ms", "file_ms", ".3f"),
    ("nodes", "nodes", ""),
    ("conversion, s", "seconds", ".1f"),
)
"""Of each program at the larger size: headings, fields, and the forms of numbers."""

SHOWN_JIT = "Time of files over that of jax.jit, the median of each group"

Row = dict[str, Any]

BESIDE = """Functions whose parameters are closed over, converted with the usual options, beside the
`jax.jit` of the same function, at two sizes of inputs: `python benchmarks/against_jit.py --json
benchmarks/results/performance.json`. File and function took turns in one process on two threads; a
ratio is the fastest run of the file over the fastest run of XLA's. XLA is given arrays that are its
own already.
It was measured with ONNX Runtime 1.32 on two cores.
"""

LEFT = """What is far above 1 is so for one of these reasons.

- **A loop over few numbers.** ONNX Runtime takes a loop node by node: 0.3 µs for a node whatever it
  computes, and 1 µs for a step. XLA compiles the step, which then takes 10 to 100 ns. What does not
  depend on the step before is computed for all steps at once, a state that is scaled by known
  numbers by doubling, and a loop of few nodes is written out. More is not done about it: loops and
  small recurrences may be slow, since a rewrite of nodes does not change what a node costs, and
  what runs for long in a network are its products. What is left is a recurrence that is not linear
  or mixes its numbers (`kalman filter`): that of an equation of three numbers is 55 nodes or more,
  and 17 µs for a step (those of `lorenz`, `hunters`, `euler` and `odeint`). A step of `collatz` is
  8 nodes and 2 µs, where XLA takes 60 ns; `edit distance` has 1,600 steps of a loop in a loop; a
  step of `ctc loss` has three sums of exponentials of 9 nodes each, which keep the digits of
  `logaddexp`.
- **Stencils of small arrays.** `heat equation` adds up 1,024 numbers 12 times in a step, for which
  XLA takes 1 µs altogether, as all is one loop over the array; a node takes 0.5 µs. `descent of
  energy` is 30 such nodes.
- **Decompositions.** XLA calls LAPACK, which is compiled. A file has a loop of columns, of which a
  step is 6 nodes (`cholesky`), 8 (`solve`), 19 (`lu`) or 23 (`qr`), in 0.3 µs each: that alone is
  three to five times what LAPACK takes for the whole of a matrix of 32 rows. `eigh` and `svd` take
  some twelve steps of all Jacobi's rotations at once, which are 70 nodes with ten products of
  matrices, 50 µs. What `svd`, `lstsq` and `pinv` take besides is a QR decomposition.
- **`Where`.** It takes 1.0 ms to choose between two arrays of 150,000 numbers by an irregular
  condition, and an addition of them takes 0.03 ms. A search in a table, as `jnp.interp` and
  `jnp.histogram` do it, is mostly such choices.
- **Draws.** A hash of Threefry is 100 nodes, five for each of its 20 rounds, so that the least draw
  takes 40 µs. Keys that are made one of another (`keys of a loop`) take that for each step. Those
  that reject draw for all lanes until the last is accepted, as XLA's vectorised loop does; XLA on a
  CPU takes the lanes of `gamma` one after the other.
"""


def by_group(rows: Sequence[Row]) -> dict[str, list[list[float]]]:
    """The ratios of each group at each size."""
    return {
        group: [[r["ratio"] for r in rows if key(r)[::2] == (group, size)] for size in SIZES]
        for group in dict.fromkeys(row["group"] for row in rows)
    }


def jit_section(rows: Sequence[Row]) -> Iterator[str]:
    """The groups, then every program."""
    yield f"\n## Beside jax.jit\n\n{BESIDE}"
    yield f"![{SHOWN_JIT}](images/against_jit.png)\n"
    groups = by_group(rows)
    groups["all"] = [[*chain(*each)] for each in zip(*groups.values(), strict=True)]
    headings = chain(*((f"{size}, median", f"{size}, most") for size in SIZES))
    shown = (
        [group, str(len(found[0])), *chain(*((f"{median(x):.2f}", f"{max(x):.1f}") for x in found))]
        for group, found in groups.items()
    )
    yield from table(["group", "programs", *headings], shown)
    yield LEFT
    yield f"Times, nodes and conversion are those of the {SIZES[1]} size.\n"
    yield from table(
        ["program", *SIZES, *(heading for heading, _, _ in COLUMNS)],
        [
            [
                f"{large['group']}: {large['name']}",
                *(number(row["ratio"], ".2f") for row in (small, large)),
                *(number(large[field], form) for _, field, form in COLUMNS),
            ]
            for small, large in zip(rows[::2], rows[1::2], strict=True)
        ],
    )


def key(row: Row) -> tuple[str, str, str]:
    return row["group"], row["name"], row["size"]


def jit_picture(rows: Sequence[Row]) -> Figure:
    """The medians of each group, in logarithms."""
    groups = {
        group: dict(zip(SIZES, map(median, found), strict=True))
        for group, found in by_group(rows).items()
    }
    chart = bars(SHOWN_JIT, groups, mark=1)
    chart.axes[0].set_xscale("log")
    return chart
