"""RF-DETR and DEIMv2 compared with transformers (5.24).

The networks are compared in JAX and as files, and so are checkpoints and answers.
"""

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import (
    Deimv2ForObjectDetection,
    RfDetrForInstanceSegmentation,
    RfDetrForObjectDetection,
)
from transformers.models.deformable_detr.image_processing_pil_deformable_detr import (
    DeformableDetrImageProcessorPil,
)
from transformers.models.rf_detr.modeling_rf_detr import RfDetrDinov2Embeddings

import zoo
from converter.model.verdict import compare
from notebooks.training.box_training import (
    boxes_in,
    mean_average_precision,
    measure,
    to_coco_box,
    to_coco_dataset,
)
from notebooks.training.classifier import normalize_images
from tests.references import detection
from tests.references.deim import deim
from weights.errors import MappingError
from weights.progress import Quiet
from zoo.architectures.builder import batched
from zoo.checkpoints.convert import convert_file
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.runtime import session
from zoo.data.digits.data import split_digits
from zoo.data.digits.scattered import scatter
from zoo.tasks.answer import InputSize
from zoo.tasks.boxes import (
    Box,
    align_detections,
    draw_boxes,
    instance_areas,
    post_process_object_detection,
)

CLASSES = {
    **{2: RfDetrForObjectDetection, "masks": RfDetrForInstanceSegmentation},
    "deim": Deimv2ForObjectDetection,
}
"""Classes of transformers, by the kinds of checkpoints."""
SIZES = {"deim": ((64, 96), (128, 96))}
"""Sizes of pictures for files, for kinds that do not use RF-DETR's."""

ATOL, LARGEST = 2e-5, 7
"""Limit of a difference, which is ten times the largest measured one, for logits up to `LARGEST`.

The limit is in proportion to larger logits.
"""


def pictures(count, size, seed=1):
    return torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(seed))


def run(model, images):
    outputs = eqx.filter_jit(batched)(model, jnp.asarray(images.numpy()))
    return {name: np.asarray(x) for name, x in outputs.items()}


def assert_near(actual, expected, atol=ATOL):
    """Compare the outputs, whose boxes must vary."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        limit = atol * max(1, abs(value).max() / LARGEST)
        np.testing.assert_allclose(actual[name], value, rtol=0, atol=limit, err_msg=name)
    assert expected["pred_boxes"].std() > 0.1


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Checkpoints as transformers saves them.

    The kinds are RF-DETR by its number of windows along a side, RF-DETR with masks, and DEIMv2.
    """
    folder = tmp_path_factory.mktemp("rf_detr")
    boxes = {n: detection.rf_detr(folder / f"{n}", n) for n in (1, 2)}
    masks = detection.rf_detr(folder / "masks", 2, masks=True)
    return boxes | {"masks": masks, "deim": deim(folder / "deim")}


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        pytest.param(2, (48, 48), marks=pytest.mark.full),
        pytest.param(1, (40, 56), marks=pytest.mark.full),
        pytest.param(1, (24, 32), marks=pytest.mark.full),
        pytest.param(2, (64, 64), marks=pytest.mark.full),
        pytest.param("masks", (48, 48), marks=pytest.mark.full),
        pytest.param("masks", (64, 64), marks=pytest.mark.full),
        pytest.param("deim", (64, 96), marks=pytest.mark.full),
        pytest.param("deim", (128, 96), marks=pytest.mark.full),
    ],
)
def test_agrees_with_transformers(kind, size, saved):
    """The network in JAX computes transformers' outputs. The default tier compares files."""
    checkpoint = saved[kind]
    images = pictures(2, size)
    assert_near(run(zoo.from_pretrained(None, checkpoint.path), images), checkpoint.outputs(images))


@pytest.mark.full
def test_a_deim_without_backbone_norms_and_registers(tmp_path):
    """A DEIMv2 without norms of its backbone's states or registers agrees.

    transformers' conversion script makes the smaller networks so.
    """
    checkpoint = deim(
        tmp_path / "own",
        backbone_config={"apply_layernorm": False, "num_register_tokens": 0, "key_bias": True},
        eval_size=[64, 96],
        decoder_n_points=2,
    )
    images = pictures(1, checkpoint.size)
    assert_near(run(zoo.from_pretrained(None, checkpoint.path), images), checkpoint.outputs(images))


def test_windows_of_a_picture_that_is_no_square(saved, monkeypatch):
    """The outputs agree if transformers' partition into windows is corrected.

    transformers swaps the height and width of a window and therefore permutes patches.
    """
    original_partition = RfDetrDinov2Embeddings.window_partition

    def partition_in_order(self, embeddings, height, width):
        # Height and width only determine the number of patches in a window.
        count = self.config.num_windows
        rows, columns = height // self.patch_size, width // self.patch_size
        class_token, patches = embeddings[:, :1], embeddings[:, 1:]
        parts = patches.reshape(len(patches), count, rows // count, count, columns // count, -1)
        parts = parts.transpose(2, 3).reshape(len(patches) * count**2, -1, patches.shape[-1])
        return torch.cat([class_token.repeat_interleave(count**2, 0), parts], 1)

    checkpoint, images = saved[2], pictures(1, (48, 80))
    model = zoo.from_pretrained(None, checkpoint.path)
    with_permuted_patches = checkpoint.outputs(images)
    monkeypatch.setattr(RfDetrDinov2Embeddings, "window_partition", partition_in_order)
    assert_near(run(model, images), checkpoint.outputs(images))
    monkeypatch.setattr(RfDetrDinov2Embeddings, "window_partition", original_partition)
    assert abs(run(model, images)["logits"] - with_permuted_patches["logits"]).max() > 0.1


@pytest.mark.full
def test_fewer_positions_than_queries(saved):
    """The other queries start from their learned boxes. transformers refuses such pictures."""
    model = zoo.from_pretrained(None, saved[1].path)
    outputs = run(model, pictures(1, (16, 24)))
    assert outputs["pred_boxes"].shape == (1, 9, 4) and np.isfinite(outputs["logits"]).all()


def test_pictures_of_other_sizes_are_refused(saved, tmp_path):
    """Windows and patches must fill the picture, and there must be a position for each query."""
    with_many_queries = deim(tmp_path / "many", num_queries=100)
    for checkpoint, size, message in (
        (saved[2], (48, 40), "multiples of 16"),
        (saved["deim"], (64, 80), "multiples of 32"),
        (with_many_queries, (64, 64), "84 positions for 100 queries"),
    ):
        model = zoo.from_pretrained(None, checkpoint.path)
        with pytest.raises(ValueError, match=message):
            jax.eval_shape(model, jax.ShapeDtypeStruct((3, *size), "float32"))
    with pytest.raises(MappingError, match=r"decoder_offset_scale is 0\.25"):
        zoo.from_pretrained(None, deim(tmp_path / "other", decoder_offset_scale=0.25).path)


@pytest.mark.parametrize("masks", [pytest.param(False, marks=pytest.mark.full), True])
def test_a_checkpoint_of_the_authors(masks, tmp_path):
    checkpoint = detection.authors_checkpoint(tmp_path, masks=masks)
    settings = checkpoint.path.parent / "transformers" / "config.json"
    (tmp_path / "pytorch_model.bin").write_bytes(checkpoint.path.read_bytes())
    (tmp_path / "config.json").write_bytes(settings.read_bytes())
    images = pictures(1, checkpoint.size)
    model = zoo.from_pretrained(None, tmp_path / "pytorch_model.bin")
    assert_near(run(model, images), checkpoint.outputs(images))


@pytest.mark.parametrize(
    ("kind", "opset"),
    [
        ("masks", 18),
        pytest.param(2, 23, marks=pytest.mark.full),
        pytest.param(2, 18, marks=pytest.mark.full),
        pytest.param("masks", 23, marks=pytest.mark.full),
        ("deim", 23),
        pytest.param("deim", 18, marks=pytest.mark.full),
    ],
)
def test_file_agrees_with_transformers(kind, opset, saved, tmp_path):
    """A file agrees at sizes that it was not converted for."""
    checkpoint, file = saved[kind], tmp_path / "model.onnx"
    model = zoo.from_pretrained(None, checkpoint.path)
    zoo.to_onnx(model, file, opset=opset, size="dynamic", verify=False)
    graph = onnx.load(file).graph
    counts = Counter(node.op_type for node in graph.node)
    assert counts["GridSample"] == (9 if kind == "deim" else 3) and counts["GatherND"] <= 1
    assert "BatchNormalization" not in counts
    mode = {
        a.name: a.s for node in graph.node if node.op_type == "GridSample" for a in node.attribute
    }
    assert mode["mode"] == (b"linear" if opset == 23 else b"bilinear")
    live = session(file)
    for count, size in zip((1, 3), SIZES.get(kind, ((48, 48), (64, 64))), strict=True):
        images = pictures(count, size, seed=size[0])
        names = [output.name for output in live.get_outputs()]
        actual = dict(zip(names, live.run(None, {"pixel_values": images.numpy()}), strict=True))
        assert_near(actual, checkpoint.outputs(images), atol=1e-4)


def test_answers_are_those_of_transformers():
    # RF-DETR's own processor needs torchvision. Its method has the same code.
    processor = DeformableDetrImageProcessorPil()
    rng = np.random.default_rng(0)
    for threshold in (0.0, 0.3, 0.7):
        logits = rng.normal(0, 2, (6, 5)).astype(np.float32)
        boxes = rng.uniform(0, 1, (6, 4)).astype(np.float32)
        batch = {
            "logits": torch.from_numpy(logits[None]),
            "pred_boxes": torch.from_numpy(boxes[None]),
        }
        (expected,) = processor.post_process_object_detection(
            SimpleNamespace(**batch), threshold, [(90, 130)], top_k=len(boxes)
        )
        actual = post_process_object_detection(
            {"logits": logits, "pred_boxes": boxes}, (90, 130), threshold=threshold
        )
        assert [box.label_id for box in actual] == expected["labels"].tolist()
        np.testing.assert_allclose([box.score for box in actual], expected["scores"], atol=1e-6)
        corners = np.reshape([box.corners for box in actual], (-1, 4))
        np.testing.assert_allclose(corners, expected["boxes"], atol=1e-4)


@pytest.mark.parametrize("input_size", [InputSize((64, 96), False), InputSize((64, 64), True)])
def test_pixels_belong_to_the_surest_instance(input_size):
    """A pixel belongs to the surest instance whose mask contains it.

    transformers' `post_process_instance_segmentation` computes the same, but needs torchvision and
    does not support padding. The expected areas are computed with torch's interpolation.
    """
    rng = np.random.default_rng(3)
    outputs = {
        "logits": rng.normal(0, 2, (6, 5)).astype(np.float32),
        "pred_boxes": rng.uniform(0, 1, (6, 4)).astype(np.float32),
        "pred_masks": rng.normal(-0.5, 1, (6, 16, 24)).astype(np.float32),
    }
    target = (50, 30)
    boxes = post_process_object_detection(outputs, target, input_size, 0.6)
    areas = instance_areas(outputs, boxes, target, input_size)
    # A padded picture of this size fills the height and 38 of 64 columns.
    padded_target = (50, round(30 * 64 / 38)) if input_size.padded else target
    masks = torch.from_numpy(outputs["pred_masks"])[None]
    resized = torch.nn.functional.interpolate(masks, size=padded_target, mode="bilinear")[0].numpy()
    expected = np.full(target, -1)
    for number, box in enumerate(boxes):
        mask = resized[box.query][:, : target[1]] > 0
        expected[mask & (expected == -1)] = number
    assert len(boxes) > 2 and len(np.unique(expected)) > 3
    # A logit may be so close to zero that rounding decides its sign.
    assert (areas != expected).mean() < 1e-3
    picture = Image.new("RGB", (30, 50), (100, 100, 100))
    drawn = np.asarray(draw_boxes(picture, boxes, [*"abcde"], areas))
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 3
    assert np.asarray(picture).std() == 0
    assert instance_areas({"logits": outputs["logits"]}, boxes, target) is None


def test_boxes_of_a_padded_picture():
    """Boxes are relative to the picture without the padding at the right and at the bottom."""
    outputs = {
        "logits": np.full((1, 2), 3, "f4"),
        "pred_boxes": np.array([[0.25, 0.5, 0.5, 1]], "f4"),
    }
    (box,) = post_process_object_detection(outputs, (200, 100), InputSize((64, 64), True), 0.1)
    assert box.corners == (0, 0, 100, 200)


@pytest.mark.parametrize(
    ("kind", "target"), [*product([2, "masks"], ["folder", "model.pth"]), ("deim", "folder")]
)
@pytest.mark.each("kind", "target")
def test_converted_checkpoints_have_all_tensors(target, kind, saved, tmp_path):
    """A converted checkpoint has all tensors of the original.

    Some are only used in training, such as all groups of queries but one.
    """
    checkpoint, path = saved[kind], tmp_path / target
    convert_file(GivenCheckpoint(checkpoint.path), path, None, False, Quiet())
    images = pictures(1, checkpoint.size)
    if target == "folder":
        model = CLASSES[kind].from_pretrained(path)
        with torch.no_grad():
            assert_near(detection.output_arrays(model(images)), checkpoint.outputs(images))
        written = model.state_dict()
        original = CLASSES[kind].from_pretrained(checkpoint.path).state_dict()
    else:
        written, original = torch.load(path), load_file(checkpoint.path / "model.safetensors")
    assert written.keys() == original.keys()
    assert all(torch.equal(written[key], value) for key, value in original.items() if value.ndim)


def test_sizes_are_sound():
    config = zoo.info("rf_detr_nano").config
    assert config.is_sound and config.stride == 32 and config.native_size == (384, 384)
    assert zoo.info("rf_detr_base").native_size == (560, 560)
    assert not replace(config, layers=(3, 13)).is_sound
    config = zoo.info("deimv2_l").config
    assert config.is_sound and config.stride == 32
    assert not replace(config, layers=(6, 9, 13)).is_sound
    assert not replace(config, finder=replace(config.finder, bins=31)).is_sound


@pytest.fixture(scope="module")
def canvases():
    """Pictures with digits that were not used in training."""
    return scatter(split_digits()[1], 40, seed=5)


@pytest.mark.full
def test_boxes_of_held_out_digits(canvases):
    entry = zoo.info("boxes_digits")
    pixels = normalize_images(jnp.asarray(canvases.images), entry.preprocessing)
    outputs = run(zoo.from_pretrained("boxes_digits"), torch.tensor(np.asarray(pixels)))
    correct = total = 0
    for row, (boxes, labels) in enumerate(zip(canvases.boxes, canvases.labels, strict=True)):
        picture_outputs = {name: value[row] for name, value in outputs.items()}
        answers = post_process_object_detection(picture_outputs, canvases.images.shape[1:])
        for box, label in zip(boxes[labels >= 0], labels[labels >= 0], strict=True):
            total += 1
            correct += any(a.label_id == label and near(box, a.corners) for a in answers)
    assert total > 80 and correct / total > 0.85


def near(first, second):
    """Return whether two boxes have more than half of their area in common."""
    low, high = np.maximum(first[:2], second[:2]), np.minimum(first[2:], second[2:])
    common = np.prod(np.clip(high - low, 0, None))
    areas = [np.prod(np.subtract(box[2:], box[:2])) for box in (first, second)]
    return common > 0.5 * (sum(areas) - common)


def test_half_precision_keeps_boxes(tmp_path):
    """No box is rounded to float16 between the last layer and the output."""
    file = tmp_path / "half.onnx"
    zoo.to_onnx(zoo.from_pretrained("boxes_digits"), file, opset=18, precision="fp16", verify=False)
    graph = onnx.load(file).graph
    node_of_output = {name: node for node in graph.node for name in node.output}
    assert node_of_output["pred_boxes"].op_type == "Concat"
    for name in node_of_output["pred_boxes"].input:
        assert node_of_output[name].op_type in {"Add", "Mul"}
    assert node_of_output["logits"].op_type == "Cast"


def test_detections_are_aligned_before_a_comparison():
    """The comparison ignores the order of queries, and weighs boxes by their scores."""
    rng = np.random.default_rng(4)
    shapes = {"logits": (2, 8, 5), "pred_boxes": (2, 8, 4), "pred_masks": (2, 8, 6, 6)}
    expected = {name: rng.normal(-2, 2, shape).astype("f4") for name, shape in shapes.items()}
    expected["pred_boxes"] = rng.uniform(0, 1, shapes["pred_boxes"]).astype("f4")
    order = rng.permutation(8)
    actual = {name: value[:, order] for name, value in expected.items()}
    for first, second in zip(
        *(x.values() for x in align_detections(actual, expected)), strict=True
    ):
        np.testing.assert_array_equal(first, second)
    moved_unsure = {name: value.copy() for name, value in expected.items()}
    moved_sure = {name: value.copy() for name, value in expected.items()}
    best = expected["logits"][0].max(axis=-1)
    moved_unsure["pred_boxes"][0, best.argmin()] += 0.5
    moved_sure["pred_boxes"][0, best.argmax()] += 0.5
    first, second = (
        compare(*(x["pred_boxes"] for x in align_detections(actual, expected))).cosine
        for actual in (moved_unsure, moved_sure)
    )
    assert 10 * (1 - first) < 1 - second and second < 0.99
    alone = {"logits": expected["logits"]}
    assert align_detections(alone, alone) == (alone, alone)


@pytest.mark.full
@pytest.mark.parametrize("opset", [18, pytest.param(23, marks=pytest.mark.full)])
def test_eight_bits_move_boxes_by_less_than_half_a_pixel(opset, canvases, tmp_path):
    """Boxes with a score above 0.5 move by less than half a pixel.

    At one opset the file is also verified with a photograph.
    """
    entry, model = zoo.info("boxes_digits"), zoo.from_pretrained("boxes_digits")
    zoo.to_onnx(model, tmp_path / "m.onnx", opset=opset, precision="int8", verify=opset == 23)
    pixels = np.asarray(normalize_images(jnp.asarray(canvases.images), entry.preprocessing))
    live, names = session(tmp_path / "m.onnx"), ["logits", "pred_boxes"]
    actual = dict(zip(names, live.run(names, {"pixel_values": pixels}), strict=True))
    pairs = zip(
        *(boxes_in(x, (64, 64)) for x in (actual, run(model, torch.tensor(pixels)))), strict=True
    )
    moves = [
        min(
            abs(np.subtract(candidate.corners, box.corners)).max()
            for candidate in actual_boxes
            if candidate.label_id == box.label_id
        )
        for actual_boxes, expected_boxes in pairs
        for box in expected_boxes
        if box.score > 0.5
    ]
    assert len(moves) > 80 and max(moves) < 0.5


def test_average_precision_is_that_of_pycocotools(canvases):
    pytest.importorskip("pycocotools", reason="average precision needs pycocotools")
    dataset = to_coco_dataset(canvases)
    correct_boxes = [to_coco_box(row["image_id"], true_box(row)) for row in dataset["annotations"]]
    assert len(correct_boxes) == int((canvases.labels >= 0).sum())
    assert mean_average_precision(dataset, correct_boxes) == pytest.approx(1)
    assert mean_average_precision(dataset, []) == 0
    precision = measure(zoo.from_pretrained("boxes_digits"), zoo.info("boxes_digits"), canvases)
    assert 0.5 < precision < 1


def true_box(annotation):
    left, top, width, height = annotation["bbox"]
    return Box(annotation["category_id"] - 1, 1.0, (left, top, left + width, top + height))


def test_run_prints_boxes(zoo, canvases):
    grey = np.rint(np.repeat(canvases.images[0][..., None], 3, -1) * 255).astype(np.uint8)
    Image.fromarray(grey).save(zoo.here / "canvas.png")
    printed = zoo("run", "boxes_digits", "canvas.png", "--threshold", 0.3, "--json")
    (result,) = json.loads(printed.out)
    assert result["files"] == ["canvas-boxes.png"] and (zoo.here / "canvas-boxes.png").is_file()
    for answer in result["answers"]:
        left, top, right, bottom = answer["box"]
        assert answer["score"] > 0.3 and left < right and top < bottom
    assert result["answers"]
