"""Segments from masks, compared with transformers' image processor of EoMT."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers.models.eomt.image_processing_pil_eomt import EomtImageProcessorPil

from zoo.registry.lookup import info
from zoo.tasks import maps
from zoo.tasks.answer import InputPicture, InputSize, Question

SIDE, QUERIES, CLASSES = 64, 12, 5
PROCESSOR = EomtImageProcessorPil(size={"shortest_edge": SIDE, "longest_edge": SIDE}, do_pad=True)


def outputs(seed):
    """Return masks of round areas with ragged edges.

    Most of them have a class with a high score.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:16, :16]
    circles = rng.uniform((1, 1, 0.2), (15, 15, 2), (QUERIES, 3))
    areas = [6 - ((rows - y) ** 2 + (columns - x) ** 2) / size for y, x, size in circles]
    classes = rng.normal(0, 1, (QUERIES, CLASSES + 1))
    classes[range(QUERIES), rng.integers(0, CLASSES + 1, QUERIES)] += 6
    noisy = np.stack(areas) + rng.normal(0, 0.3, (QUERIES, 16, 16))
    values_by_name = {"class_queries_logits": classes, "masks_queries_logits": noisy}
    return {name: value.astype(np.float32) for name, value in values_by_name.items()}


def for_transformers(masks):
    batch = {name: torch.from_numpy(value[None]) for name, value in masks.items()}
    return SimpleNamespace(**batch, patch_offsets=None)


def assert_segments(actual, expected):
    assert len(actual.segments_info) >= 2
    np.testing.assert_array_equal(actual.segmentation, expected["segmentation"])
    for ours, theirs in zip(actual.segments_info, expected["segments_info"], strict=True):
        assert ours._asdict() == {**theirs, "score": pytest.approx(theirs["score"], abs=2e-6)}


@pytest.mark.each()
@pytest.mark.parametrize("size", [(64, 64), (90, 50), (37, 120)])
def test_segments_are_those_of_transformers(size):
    for seed in range(5):
        masks = outputs(seed)
        theirs, ours = for_transformers(masks), maps.QueryMasks(masks, size, (SIDE, SIDE))
        for stuff_classes in ([], [0, 2, 3]):
            expected = PROCESSOR.post_process_panoptic_segmentation(
                theirs, [size], threshold=0.7, stuff_classes=stuff_classes
            )
            actual = maps.post_process_panoptic_segmentation(ours, 0.7, stuff_classes=stuff_classes)
            assert_segments(actual, expected[0])
        expected = PROCESSOR.post_process_instance_segmentation(theirs, [size], threshold=0.6)
        assert_segments(maps.post_process_instance_segmentation(ours, 0.6), expected[0])
        # transformers treats padding as a part of the picture here.
        expected = PROCESSOR.post_process_semantic_segmentation(theirs, [size])[0]
        unpadded = maps.QueryMasks(masks, size, (SIDE, SIDE), padded=False)
        np.testing.assert_array_equal(maps.post_process_semantic_segmentation(unpadded), expected)


def test_no_segments_without_masks():
    masks = outputs(0)
    masks["class_queries_logits"][:] = [0] * CLASSES + [9]
    ours = maps.QueryMasks(masks, (30, 40), (SIDE, SIDE))
    for result in (
        maps.post_process_panoptic_segmentation(ours),
        maps.post_process_instance_segmentation(ours),
    ):
        assert result.segments_info == () and (result.segmentation == maps.NO_SEGMENT).all()


def test_answers_for_a_picture():
    names = ("a", "b", "c", "d", "e")
    masks = info("eomt_dinov3_coco_panoptic_small_640").config
    input_picture = InputPicture(names, (90, 50), InputSize((SIDE, SIDE), True))
    result = masks.task.answer(outputs(0), input_picture, Question())
    scores = [answer.score for answer in result.answers]
    assert result.kind == "areas" and result.drawing.size == (50, 90) and len(scores) >= 2
    assert scores == sorted(scores, reverse=True) and {*names} >= {n for n, _ in result.answers}
    logits = np.random.default_rng(2).normal(0, 1, (5, 3, 4)).astype(np.float32)
    patches = info("dinov2_vits14_ade20k_linear").config
    input_picture = InputPicture(names, (42, 56), InputSize((42, 56), False))
    result = patches.task.answer({"logits": logits}, input_picture, Question())
    enlarged = torch.nn.functional.interpolate(
        torch.from_numpy(logits)[None], (42, 56), mode="bilinear"
    )
    np.testing.assert_array_equal(result.values, enlarged[0].argmax(0))
    assert sum(answer.score for answer in result.answers) == pytest.approx(1)
