"""RF-DETR and DEIMv2 beside transformers' (5.24): in JAX and as files, checkpoints, and answers."""

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
SIZES = {"deim": ((64, 96), (128, 96))}
"""Those that are tried, where they are others than RF-DETR's."""

ATOL, LARGEST = 2e-5, 7
"""Ten times what was seen, of logits up to 7; larger ones have a larger error."""


def pictures(count, size, seed=1):
    return torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(seed))


def run(model, images):
    found = eqx.filter_jit(batched)(model, jnp.asarray(images.numpy()))
    return {name: np.asarray(x) for name, x in found.items()}


def assert_near(got, want, atol=ATOL):
    assert got.keys() == want.keys()
    for name, value in want.items():
        most = atol * max(1, abs(value).max() / LARGEST)
        np.testing.assert_allclose(got[name], value, rtol=0, atol=most, err_msg=name)
    assert want["pred_boxes"].std() > 0.1


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """As transformers saves them: RF-DETR by windows along a side, `masks` has those of things too;
    and DEIMv2."""
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
def test_is_what_transformers_computes(kind, size, saved):
    """By default files are compared, below."""
    own = saved[kind]
    images = pictures(2, size)
    assert_near(run(zoo.from_pretrained(None, own.path), images), own.outputs(images))


@pytest.mark.full
def test_one_that_norms_less_and_tells_no_places(tmp_path):
    """DEIMv2 as transformers' script makes it of the smaller networks, which have no registers."""
    own = deim(
        tmp_path / "own",
        backbone_config={"apply_layernorm": False, "num_register_tokens": 0, "key_bias": True},
        eval_size=[64, 96],
        decoder_n_points=2,
    )
    images = pictures(1, own.size)
    assert_near(run(zoo.from_pretrained(None, own.path), images), own.outputs(images))


def test_windows_of_a_picture_that_is_no_square(saved, monkeypatch):
    """transformers takes a window's height for its width, and puts patches elsewhere."""
    cut = RfDetrDinov2Embeddings.window_partition

    def in_order(self, embeddings, height, width):
        # The two are read for the number of patches in a window alone.
        count = self.config.num_windows
        rows, columns = height // self.patch_size, width // self.patch_size
        first, patches = embeddings[:, :1], embeddings[:, 1:]
        parts = patches.reshape(len(patches), count, rows // count, count, columns // count, -1)
        parts = parts.transpose(2, 3).reshape(len(patches) * count**2, -1, patches.shape[-1])
        return torch.cat([first.repeat_interleave(count**2, 0), parts], 1)

    own, images = saved[2], pictures(1, (48, 80))
    model = zoo.from_pretrained(None, own.path)
    scrambled = own.outputs(images)
    monkeypatch.setattr(RfDetrDinov2Embeddings, "window_partition", in_order)
    assert_near(run(model, images), own.outputs(images))
    monkeypatch.setattr(RfDetrDinov2Embeddings, "window_partition", cut)
    assert abs(run(model, images)["logits"] - scrambled["logits"]).max() > 0.1


@pytest.mark.full
def test_fewer_places_than_queries(saved):
    """The others begin with boxes of their own, which transformers refuses to do."""
    model = zoo.from_pretrained(None, saved[1].path)
    found = run(model, pictures(1, (16, 24)))
    assert found["pred_boxes"].shape == (1, 9, 4) and np.isfinite(found["logits"]).all()


def test_what_does_not_fit(saved, tmp_path):
    """Windows and patches have to fill the picture, and queries need places."""
    many = deim(tmp_path / "many", num_queries=100)
    for own, size, told in (
        (saved[2], (48, 40), "multiples of 16"),
        (saved["deim"], (64, 80), "multiples of 32"),
        (many, (64, 64), "84 positions for 100 queries"),
    ):
        model = zoo.from_pretrained(None, own.path)
        with pytest.raises(ValueError, match=told):
            jax.eval_shape(model, jax.ShapeDtypeStruct((3, *size), "float32"))
    with pytest.raises(MappingError, match=r"decoder_offset_scale is 0\.25"):
        zoo.from_pretrained(None, deim(tmp_path / "other", decoder_offset_scale=0.25).path)


@pytest.mark.parametrize("masks", [pytest.param(False, marks=pytest.mark.full), True])
def test_checkpoint_of_its_authors(masks, tmp_path):
    own = detection.of_authors(tmp_path, masks=masks)
    settings = own.path.parent / "transformers" / "config.json"
    (tmp_path / "pytorch_model.bin").write_bytes(own.path.read_bytes())
    (tmp_path / "config.json").write_bytes(settings.read_bytes())
    images = pictures(1, own.size)
    model = zoo.from_pretrained(None, tmp_path / "pytorch_model.bin")
    assert_near(run(model, images), own.outputs(images))


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
def test_file_beside_transformers(kind, opset, saved, tmp_path):
    """At sizes that the file was not converted for."""
    own, file = saved[kind], tmp_path / "model.onnx"
    model = zoo.from_pretrained(None, own.path)
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
        got = dict(zip(names, live.run(None, {"pixel_values": images.numpy()}), strict=True))
        assert_near(got, own.outputs(images), atol=1e-4)


def test_answers_are_those_of_transformers():
    # That of RF-DETR needs torchvision, and has these lines too.
    processor = DeformableDetrImageProcessorPil()
    rng = np.random.default_rng(0)
    for threshold in (0.0, 0.3, 0.7):
        logits = rng.normal(0, 2, (6, 5)).astype(np.float32)
        boxes = rng.uniform(0, 1, (6, 4)).astype(np.float32)
        batch = {
            "logits": torch.from_numpy(logits[None]),
            "pred_boxes": torch.from_numpy(boxes[None]),
        }
        (want,) = processor.post_process_object_detection(
            SimpleNamespace(**batch), threshold, [(90, 130)], top_k=len(boxes)
        )
        got = post_process_object_detection(
            {"logits": logits, "pred_boxes": boxes}, (90, 130), threshold=threshold
        )
        assert [each.label_id for each in got] == want["labels"].tolist()
        np.testing.assert_allclose([each.score for each in got], want["scores"], atol=1e-6)
        corners = np.reshape([each.corners for each in got], (-1, 4))
        np.testing.assert_allclose(corners, want["boxes"], atol=1e-4)


@pytest.mark.parametrize("fed", [InputSize((64, 96), False), InputSize((64, 64), True)])
def test_pixels_of_things(fed):
    """Of several in one place the surest, as transformers' `post_process_instance_segmentation`,
    which needs torchvision and pads nothing; here with torch's interpolation."""
    rng = np.random.default_rng(3)
    outputs = {
        "logits": rng.normal(0, 2, (6, 5)).astype(np.float32),
        "pred_boxes": rng.uniform(0, 1, (6, 4)).astype(np.float32),
        "pred_masks": rng.normal(-0.5, 1, (6, 16, 24)).astype(np.float32),
    }
    target = (50, 30)
    boxes = post_process_object_detection(outputs, target, fed, 0.6)
    areas = instance_areas(outputs, boxes, target, fed)
    # A padded picture of these sides fills the height, and 38 of 64 columns.
    whole = (50, round(30 * 64 / 38)) if fed.padded else target
    masks = torch.from_numpy(outputs["pred_masks"])[None]
    resized = torch.nn.functional.interpolate(masks, size=whole, mode="bilinear")[0].numpy()
    wanted = np.full(target, -1)
    for number, box in enumerate(boxes):
        inside = resized[box.query][:, : target[1]] > 0
        wanted[inside & (wanted == -1)] = number
    assert len(boxes) > 2 and len(np.unique(wanted)) > 3
    # A logit may be zero but for rounding.
    assert (areas != wanted).mean() < 1e-3
    picture = Image.new("RGB", (30, 50), (100, 100, 100))
    drawn = np.asarray(draw_boxes(picture, boxes, [*"abcde"], areas))
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 3
    assert np.asarray(picture).std() == 0
    assert instance_areas({"logits": outputs["logits"]}, boxes, target) is None


def test_boxes_of_a_padded_picture():
    """What was padded at the right and at the bottom is no part of it."""
    outputs = {
        "logits": np.full((1, 2), 3, "f4"),
        "pred_boxes": np.array([[0.25, 0.5, 0.5, 1]], "f4"),
    }
    (found,) = post_process_object_detection(outputs, (200, 100), InputSize((64, 64), True), 0.1)
    assert found.corners == (0, 0, 100, 200)


@pytest.mark.parametrize(
    ("kind", "target"), [*product([2, "masks"], ["folder", "model.pth"]), ("deim", "folder")]
)
@pytest.mark.each("kind", "target")
def test_weights_go_back(target, kind, saved, tmp_path):
    """What only training asks too, such as all groups of queries, of which inference uses one."""
    own, place = saved[kind], tmp_path / target
    convert_file(GivenCheckpoint(own.path), place, None, False, Quiet())
    images = pictures(1, own.size)
    if target == "folder":
        model = CLASSES[kind].from_pretrained(place)
        with torch.no_grad():
            assert_near(detection.named(model(images)), own.outputs(images))
        written = model.state_dict()
        there = CLASSES[kind].from_pretrained(own.path).state_dict()
    else:
        written, there = torch.load(place), load_file(own.path / "model.safetensors")
    assert written.keys() == there.keys()
    assert all(torch.equal(written[key], value) for key, value in there.items() if value.ndim)


def test_sizes_are_sound():
    config = zoo.info("rf_detr_nano").config
    assert config.is_sound and config.stride == 32 and config.native == (384, 384)
    assert zoo.info("rf_detr_base").native == (560, 560)
    assert not replace(config, layers=(3, 13)).is_sound
    config = zoo.info("deimv2_l").config
    assert config.is_sound and config.stride == 32
    assert not replace(config, layers=(6, 9, 13)).is_sound
    assert not replace(config, finder=replace(config.finder, bins=31)).is_sound


@pytest.fixture(scope="module")
def canvases():
    """Digits that nobody trained on."""
    return scatter(split_digits()[1], 40, seed=5)


@pytest.mark.full
def test_digits_that_nobody_trained_on(canvases):
    entry = zoo.info("boxes_digits")
    pixels = normalize_images(jnp.asarray(canvases.images), entry.preprocessing)
    found = run(zoo.from_pretrained("boxes_digits"), torch.tensor(np.asarray(pixels)))
    right = total = 0
    for row, (boxes, labels) in enumerate(zip(canvases.boxes, canvases.labels, strict=True)):
        own = {name: value[row] for name, value in found.items()}
        answers = post_process_object_detection(own, canvases.images.shape[1:])
        for box, label in zip(boxes[labels >= 0], labels[labels >= 0], strict=True):
            total += 1
            right += any(a.label_id == label and near(box, a.corners) for a in answers)
    assert total > 80 and right / total > 0.85


def near(one, other):
    """Whether two boxes have more than half of their area in common."""
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    common = np.prod(np.clip(high - low, 0, None))
    areas = [np.prod(np.subtract(box[2:], box[:2])) for box in (one, other)]
    return common > 0.5 * (sum(areas) - common)


def test_half_precision_keeps_boxes(tmp_path):
    """Nothing between the last boxes and the output is rounded to eleven bits."""
    file = tmp_path / "half.onnx"
    zoo.to_onnx(zoo.from_pretrained("boxes_digits"), file, opset=18, precision="fp16", verify=False)
    graph = onnx.load(file).graph
    makers = {name: node for node in graph.node for name in node.output}
    assert makers["pred_boxes"].op_type == "Concat"
    for name in makers["pred_boxes"].input:
        assert makers[name].op_type in {"Add", "Mul"}
    assert makers["logits"].op_type == "Cast"


def test_low_precisions_are_judged_by_what_they_say():
    """The order of queries says nothing, nor does what one is not sure of."""
    rng = np.random.default_rng(4)
    shapes = {"logits": (2, 8, 5), "pred_boxes": (2, 8, 4), "pred_masks": (2, 8, 6, 6)}
    wanted = {name: rng.normal(-2, 2, shape).astype("f4") for name, shape in shapes.items()}
    wanted["pred_boxes"] = rng.uniform(0, 1, shapes["pred_boxes"]).astype("f4")
    order = rng.permutation(8)
    got = {name: value[:, order] for name, value in wanted.items()}
    for one, other in zip(*(each.values() for each in align_detections(got, wanted)), strict=True):
        np.testing.assert_array_equal(one, other)
    unsure = {name: value.copy() for name, value in wanted.items()}
    sure = {name: value.copy() for name, value in wanted.items()}
    best = wanted["logits"][0].max(axis=-1)
    unsure["pred_boxes"][0, best.argmin()] += 0.5
    sure["pred_boxes"][0, best.argmax()] += 0.5
    one, other = (
        compare(*(each["pred_boxes"] for each in align_detections(got, wanted))).cosine
        for got in (unsure, sure)
    )
    assert 10 * (1 - one) < 1 - other and other < 0.99
    alone = {"logits": wanted["logits"]}
    assert align_detections(alone, alone) == (alone, alone)


@pytest.mark.full
@pytest.mark.parametrize("opset", [18, pytest.param(23, marks=pytest.mark.full)])
def test_eight_bits_move_boxes_by_less_than_half_a_pixel(opset, canvases, tmp_path):
    """Those that the network is sure of. A file has to be verified too, by a photograph."""
    entry, model = zoo.info("boxes_digits"), zoo.from_pretrained("boxes_digits")
    zoo.to_onnx(model, tmp_path / "m.onnx", opset=opset, precision="int8", verify=opset == 23)
    pixels = np.asarray(normalize_images(jnp.asarray(canvases.images), entry.preprocessing))
    live, names = session(tmp_path / "m.onnx"), ["logits", "pred_boxes"]
    got = dict(zip(names, live.run(names, {"pixel_values": pixels}), strict=True))
    pairs = zip(
        *(boxes_in(each, (64, 64)) for each in (got, run(model, torch.tensor(pixels)))), strict=True
    )
    moves = [
        min(
            abs(np.subtract(each.corners, box.corners)).max()
            for each in found
            if each.label_id == box.label_id
        )
        for found, wanted in pairs
        for box in wanted
        if box.score > 0.5
    ]
    assert len(moves) > 80 and max(moves) < 0.5


def test_average_precision_is_that_of_pycocotools(canvases):
    pytest.importorskip("pycocotools", reason="average precision needs pycocotools")
    dataset = to_coco_dataset(canvases)
    right = [to_coco_box(thing["image_id"], truth(thing)) for thing in dataset["annotations"]]
    assert len(right) == int((canvases.labels >= 0).sum())
    assert mean_average_precision(dataset, right) == pytest.approx(1)
    assert mean_average_precision(dataset, []) == 0
    found = measure(zoo.from_pretrained("boxes_digits"), zoo.info("boxes_digits"), canvases)
    assert 0.5 < found < 1


def truth(thing):
    left, top, width, height = thing["bbox"]
    return Box(thing["category_id"] - 1, 1.0, (left, top, left + width, top + height))


def test_run_prints_boxes(zoo, canvases):
    grey = np.rint(np.repeat(canvases.images[0][..., None], 3, -1) * 255).astype(np.uint8)
    Image.fromarray(grey).save(zoo.here / "canvas.png")
    said = zoo("run", "boxes_digits", "canvas.png", "--threshold", 0.3, "--json")
    (told,) = json.loads(said.out)
    assert told["files"] == ["canvas-boxes.png"] and (zoo.here / "canvas-boxes.png").is_file()
    for answer in told["answers"]:
        left, top, right, bottom = answer["box"]
        assert answer["score"] > 0.3 and left < right and top < bottom
    assert told["answers"]
