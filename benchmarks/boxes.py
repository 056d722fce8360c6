"""How precisely `boxes_digits` finds digits: in JAX, as files, and in a browser's WebAssembly.

    python benchmarks/boxes.py

It writes `benchmarks/results/boxes.json` and a table of `docs/how-to/answers.md`. The browser's
part needs Node, and onnxruntime-web from npm (`tests/clients`); it runs the page's own arithmetic.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import zoo
from benchmarks.pages import number, table, with_part
from notebooks.training.box_training import boxes_in, measure, precision
from notebooks.training.classifier import normalised
from tests.clients import environments, folders
from tests.clients.tensors import encode
from zoo.architectures.builder import batched
from zoo.common import runtime
from zoo.data.digits.data import split_digits
from zoo.data.digits.scattered import ScatteredDigits, scatter
from zoo.export.timing.rounds import describe_machine
from zoo.tasks.boxes import Box

CANVASES, SEED = 300, 0
PRECISIONS, OPSETS = ("fp32", "fp16", "int8"), (18, 23)
SURE, SAME = 0.5, 0.5
"""How sure a box has to be that is compared, and which share of both two boxes of a digit share."""

RESULTS = Path(__file__).with_name("results") / "boxes.json"
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "answers.md"

Found = list[list[Box]]

WORDS = """Mean average precision of `boxes_digits` in percent, over overlaps from 50 to 95 %, on
{canvases} canvases with {digits} digits that it was not trained on. How far do boxes move that JAX
is surer of than {sure:.0%}? In pixels of the canvas of {side} x {side}: the largest distance of an
edge, and the mean.
"""


def in_runtime(file: Path, pixels: np.ndarray, size: tuple[int, int]) -> Found:
    """What a file finds in ONNX Runtime."""
    names = ["logits", "pred_boxes"]
    outputs = runtime.session(file).run(names, {"pixel_values": pixels})
    return boxes_in(dict(zip(names, outputs, strict=True)), size)


def in_browser(
    files: Mapping[str, Path], pixels: np.ndarray, side: int, here: Path
) -> dict[str, Found]:
    """What files find in onnxruntime-web, as the page says it."""
    programs = folders.node_folder(here, environments.node())
    told = {name: str(file) for name, file in files.items()}
    asked = {"files": told, "pixel_values": encode(pixels)}
    answer = folders.ask(["node", programs / "run_boxes_web.mjs"], asked)

    def box(each: dict) -> Box:
        return Box(each["label"], each["score"], tuple(side * edge for edge in each["corners"]))

    pictures = answer["found"].items()
    return {name: [[*map(box, picture)] for picture in found] for name, found in pictures}


def moved(found: Found, wanted: Found) -> dict[str, float]:
    """How far the edges of sure boxes are from those of the same digits, and which are missing."""
    distances, missing = [], 0
    for own, others in zip(wanted, found, strict=True):
        for box in own:
            if box.score <= SURE:
                continue
            alike = [each for each in others if each.label_id == box.label_id]
            near = [np.abs(np.subtract(each.corners, box.corners)).max() for each in alike]
            least = min(near, default=np.inf)
            if least > SAME * min(np.subtract(box.corners[2:], box.corners[:2])):
                missing += 1
            else:
                distances.append(float(least))
    return {"largest": max(distances), "mean": float(np.mean(distances)), "missing": missing}


def measured(canvases: ScatteredDigits) -> Iterator[tuple[str, dict[str, float]]]:
    """Every way to run the network, and how well it does."""
    entry, model = zoo.info("boxes_digits"), zoo.from_pretrained("boxes_digits")
    pixels = np.asarray(normalised(jnp.asarray(canvases.images), entry.preprocessing))
    side = canvases.images.shape[1]
    with TemporaryDirectory() as folder:
        here, files = Path(folder), dict[str, Path]()
        for opset, name in product(OPSETS, PRECISIONS):
            files[f"{name}, opset {opset}"] = place = here / f"{name}-{opset}.onnx"
            zoo.to_onnx(model, place, opset=opset, precision=name)
        wanted = boxes_in(eqx.filter_jit(batched)(model, jnp.asarray(pixels)), (side, side))
        yield "JAX", {"precision": 100 * measure(model, entry, canvases)}
        found = {name: in_runtime(file, pixels, (side, side)) for name, file in files.items()}
        told = {f"{name}, in the browser": file for name, file in files.items()}
        found |= in_browser(told, pixels, side, here / "node")
        for name, boxes in found.items():
            yield name, {"precision": 100 * precision(boxes, canvases)} | moved(boxes, wanted)


def render(content: dict) -> Iterator[str]:
    """The table, and where it was measured."""
    yield WORDS.format(sure=SURE, **content["canvases"])
    forms = {"precision": ".2f", "largest": ".3f", "mean": ".3f", "missing": ""}
    rows = [
        [name, *(number(row.get(key), form) for key, form in forms.items())]
        for name, row in content["ways"].items()
    ]
    yield from table(["", "average precision", "largest move", "mean move", "not found"], rows)
    yield f"Measured on {content['machine']}."


def main() -> None:
    canvases = scatter(split_digits()[1], CANVASES, SEED)
    content = {
        "machine": describe_machine(),
        "canvases": {
            "canvases": CANVASES,
            "digits": int((canvases.labels >= 0).sum()),
            "side": canvases.images.shape[1],
        },
        "ways": dict(measured(canvases)),
    }
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    PAGE.write_text(with_part(PAGE.read_text(), "boxes", render(content)))


if __name__ == "__main__":
    main()
