"""What a page makes of outputs that say where things are, beside the package's arithmetic."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from tests.clients.folders import PAGE_BOXES
from zoo.tasks.answer import InputSize
from zoo.tasks.boxes import post_process_object_detection

SIZE = (48, 64)
PROGRAM = """
import { readFileSync } from "node:fs";
const { place, logits, boxes, dims, size, shown } = JSON.parse(readFileSync(0, "utf8"));
const source = readFileSync(place, "utf8");
const { boxesOf, boxesAt } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
const tensor = (data, last) => ({ data: Float32Array.from(data), dims: [1, dims[0], last] });
const outputs = { logits: tensor(logits, dims[1]), pred_boxes: tensor(boxes, 4) };
const found = boxesOf(outputs, size, shown);
console.log(JSON.stringify({ found, there: boxesAt(found, [0.5, 0.5]).length }));
"""


@pytest.mark.parametrize(("target", "padded"), [((90, 120), False), ((100, 40), True)])
def test_a_page_finds_the_same_boxes(target, padded):
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node here, which runs what pages run")
    rng = np.random.default_rng(2)
    outputs = {
        "logits": rng.normal(0, 2, (7, 3)).astype("f4"),
        "pred_boxes": rng.uniform(0.1, 0.9, (7, 4)).astype("f4"),
    }
    shown = (48, 19) if padded else SIZE
    asked = {
        **{"place": str(PAGE_BOXES), "dims": outputs["logits"].shape},
        **{"logits": outputs["logits"].ravel().tolist(), "size": SIZE, "shown": shown},
        "boxes": outputs["pred_boxes"].ravel().tolist(),
    }
    command = [node, "--input-type=module", "--eval", PROGRAM]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True)
    assert not done.returncode, done.stderr
    answer = json.loads(done.stdout)
    wanted = post_process_object_detection(outputs, target, InputSize(SIZE, padded), threshold=0.0)
    assert [each["label"] for each in answer["found"]] == [box.label_id for box in wanted]
    np.testing.assert_allclose(
        [each["score"] for each in answer["found"]], [box.score for box in wanted], atol=1e-6
    )
    corners = np.array([each["corners"] for each in answer["found"]])
    sides = np.array([target[1], target[0]] * 2)
    np.testing.assert_allclose(
        corners * sides, [box.corners for box in wanted], rtol=1e-5, atol=1e-3
    )
    middle = [
        box
        for box in wanted
        if box.corners[0] <= target[1] / 2 < box.corners[2]
        and box.corners[1] <= target[0] / 2 < box.corners[3]
    ]
    assert answer["there"] == len(middle) > 0
