"""Measure how precisely `boxes_digits` finds digits: in JAX, in files, and in a browser's
WebAssembly.

python benchmarks/boxes.py

The program writes `benchmarks/results/boxes.json` and a table of `docs/how-to/answers.md`. The
browser's part needs Node, and onnxruntime-web from npm (`tests/clients`). It runs the arithmetic of
the web page.
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
from notebooks.training.classifier import normalize_images
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
"""Smallest score of a box that is compared, and largest distance from its counterpart as a share of
the box's shorter side."""

RESULTS = Path(__file__).with_name("results") / "boxes.json"
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "answers.md"

PictureBoxes = list[list[Box]]

WORDS = """The table shows the mean average precision of `boxes_digits` in percent, for overlaps
from 50 to 95 %, on {canvases} canvases with {digits} digits that the network was not trained on. It
also shows the largest and the mean distance of an edge from the same edge in JAX, for boxes whose
score in JAX is above {sure:.0%}. The distances are in pixels of the canvas of {side} x {side}.
"""


def in_runtime(file: Path, pixels: np.ndarray, size: tuple[int, int]) -> PictureBoxes:
    """Return the boxes that a file finds in ONNX Runtime."""
    names = ["logits", "pred_boxes"]
    outputs = runtime.session(file).run(names, {"pixel_values": pixels})
    return boxes_in(dict(zip(names, outputs, strict=True)), size)


def in_browser(
    files: Mapping[str, Path], pixels: np.ndarray, side: int, folder: Path
) -> dict[str, PictureBoxes]:
    """Return the boxes that files find in onnxruntime-web, by the name of the file."""
    programs = folders.node_folder(folder, environments.node())
    file_names = {name: str(file) for name, file in files.items()}
    request = {"files": file_names, "pixel_values": encode(pixels)}
    answer = folders.ask(["node", programs / "run_boxes_web.mjs"], request)

    def box(entry: dict) -> Box:
        return Box(entry["label"], entry["score"], tuple(side * edge for edge in entry["corners"]))

    pictures = answer["found"].items()
    return {name: [[*map(box, picture)] for picture in boxes] for name, boxes in pictures}


def measure_moves(boxes: PictureBoxes, expected: PictureBoxes) -> dict[str, float]:
    """Return the distances of the edges of sure boxes from those in JAX, and the number of missing
    boxes."""
    edge_distances, missing = [], 0
    for expected_boxes, actual_boxes in zip(expected, boxes, strict=True):
        for box in expected_boxes:
            if box.score <= SURE:
                continue
            candidates = [
                candidate for candidate in actual_boxes if candidate.label_id == box.label_id
            ]
            distances = [
                np.abs(np.subtract(candidate.corners, box.corners)).max()
                for candidate in candidates
            ]
            nearest = min(distances, default=np.inf)
            if nearest > SAME * min(np.subtract(box.corners[2:], box.corners[:2])):
                missing += 1
            else:
                edge_distances.append(float(nearest))
    return {
        "largest": max(edge_distances),
        "mean": float(np.mean(edge_distances)),
        "missing": missing,
    }


def measure_variants(canvases: ScatteredDigits) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name and the precision of each way to run the network."""
    entry, model = zoo.info("boxes_digits"), zoo.from_pretrained("boxes_digits")
    pixels = np.asarray(normalize_images(jnp.asarray(canvases.images), entry.preprocessing))
    side = canvases.images.shape[1]
    with TemporaryDirectory() as folder:
        work, files = Path(folder), dict[str, Path]()
        for opset, name in product(OPSETS, PRECISIONS):
            files[f"{name}, opset {opset}"] = file = work / f"{name}-{opset}.onnx"
            zoo.to_onnx(model, file, opset=opset, precision=name)
        expected = boxes_in(eqx.filter_jit(batched)(model, jnp.asarray(pixels)), (side, side))
        yield "JAX", {"precision": 100 * measure(model, entry, canvases)}
        boxes_of = {name: in_runtime(file, pixels, (side, side)) for name, file in files.items()}
        browser_files = {f"{name}, in the browser": file for name, file in files.items()}
        boxes_of |= in_browser(browser_files, pixels, side, work / "node")
        for name, found in boxes_of.items():
            yield (
                name,
                {"precision": 100 * precision(found, canvases)} | measure_moves(found, expected),
            )


def render(content: dict) -> Iterator[str]:
    """Yield the lines of the table, and the machine."""
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
        "ways": dict(measure_variants(canvases)),
    }
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    PAGE.write_text(with_part(PAGE.read_text(), "boxes", render(content)))


if __name__ == "__main__":
    main()
