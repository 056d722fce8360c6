"""The tables of the page about answers, from what `answers.py` measured."""

from collections.abc import Iterator
from typing import Any

from benchmarks.pages import number, table, with_part

Row = dict[str, Any]

PEERS = ("zoo, opset 23", "torch, opset 23", "zoo, opset 18", "torch, opset 18", "Optimum")
TIMED = (*PEERS[:2], "zoo, int8", *PEERS[2:])

DIFFERENCES = """The largest difference of any output from PyTorch, beside the largest number of an
output: at the size that is timed, and at two others that are no squares, where PyTorch's network
takes them. The weights are seeded, and the networks as large as published ones. The cosines are the
least of all outputs, on two photographs. A network that finds things ranks places first: what
PyTorch gives for pictures that rounding moves is as right, and low precisions are held to what they
say of things.
"""

NODES = """Nodes of each file, and how many of them are `Attention`, beside those of
`torch.onnx.export(dynamo=True)` and of Optimum.
"""

SPEED = """The fastest run of each file on one picture, one text, and one thread, over that of the
network's matrix products alone, in turns in one process. A ratio can be below 1 in int8 alone.
"""


def with_answers(page: str, content: Row) -> str:
    """A page with the tables of now between its marks."""
    return with_part(page, "answers", measured(content))


def measured(content: Row) -> Iterator[str]:
    """The tables, and where they were measured."""
    networks = {name: row for name, row in content["networks"].items() if "speed" in row}
    yield DIFFERENCES
    yield from table(
        ["network", "opset 18", "opset 23", "largest number", "int8, cosine", "fp16, cosine"],
        [[name, *differences(found["zoo"])] for name, found in networks.items()],
    )
    yield NODES
    rows = {name: {**found["zoo"], **found} for name, found in networks.items()}
    shown = [[name, *(nodes(row.get(peer, {})) for peer in PEERS)] for name, row in rows.items()]
    yield from table(["nodes", *PEERS], shown)
    yield SPEED
    yield from table(
        ["time over products", *TIMED, "products, ms"],
        [[name, *times(found["speed"])] for name, found in networks.items()],
    )
    yield from failures(networks)
    versions = ", ".join(f"{name} {told}" for name, told in content["versions"].items())
    peers = "; ".join(dict.fromkeys(content["peers"].values()))
    yield f"Measured on {content['date']}: {content['machine']}; {versions}; beside {peers}."
    yield f"\n**{content['note']}**" if content["note"] else ""


def failures(networks: Row) -> Iterator[str]:
    """Which exporters write no file of which networks, and why."""
    for name, found in networks.items():
        for peer in PEERS:
            if told := found.get(peer, {}).get("failed"):
                why = told.replace("`", "").partition(". ")[0].partition(", but")[0]
                yield f"* {peer} writes no file of {name}: `{why}`"
    yield ""


def differences(found: Row) -> Iterator[str]:
    """At both opsets, and of the lower precisions."""
    files = [found["zoo, opset 18"], found["zoo, opset 23"]]
    yield from (number(row["max_abs"], ".1e") for row in files)
    yield number(max(row["largest"] for row in files), ".3g")
    yield from (number(found[f"zoo, {name}"]["cosine"], ".6f") for name in ("int8", "fp16"))


def nodes(row: Row) -> str:
    """How many, and how many of them are attention; nothing of a file that there is not."""
    if "nodes" not in row:
        return ""
    count = row["fused"].get("Attention")
    return f"{row['nodes']:,}" + (f" ({count})" if count else "")


def times(found: Row) -> Iterator[str]:
    """Ratios of the files, and the milliseconds of the products."""
    yield from (number(found["to_products"].get(name), ".2f") for name in TIMED)
    yield number(found["products_ms"], ".1f")
