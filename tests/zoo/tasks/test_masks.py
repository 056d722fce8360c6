"""Segments from masks, beside transformers' image processor of EoMT."""

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
    """Round areas with ragged edges, most of them of a class that is sure."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:16, :16]
    places = rng.uniform((1, 1, 0.2), (15, 15, 2), (QUERIES, 3))
    found = [6 - ((rows - y) ** 2 + (columns - x) ** 2) / size for y, x, size in places]
    classes = rng.normal(0, 1, (QUERIES, CLASSES + 1))
    classes[range(QUERIES), rng.integers(0, CLASSES + 1, QUERIES)] += 6
    noisy = np.stack(found) + rng.normal(0, 0.3, (QUERIES, 16, 16))
    named = {"class_queries_logits": classes, "masks_queries_logits": noisy}
    return {name: value.astype(np.float32) for name, value in named.items()}


def for_transformers(found):
    batch = {name: torch.from_numpy(value[None]) for name, value in found.items()}
    return SimpleNamespace(**batch, patch_offsets=None)


def assert_segments(got, want):
    assert len(got.segments_info) >= 2
    np.testing.assert_array_equal(got.segmentation, want["segmentation"])
    for ours, theirs in zip(got.segments_info, want["segments_info"], strict=True):
        assert ours._asdict() == {**theirs, "score": pytest.approx(theirs["score"], abs=2e-6)}


@pytest.mark.each()
@pytest.mark.parametrize("size", [(64, 64), (90, 50), (37, 120)])
def test_segments_are_those_of_transformers(size):
    for seed in range(5):
        found = outputs(seed)
        theirs, ours = for_transformers(found), maps.QueryMasks(found, size, (SIDE, SIDE))
        for stuff in ([], [0, 2, 3]):
            want = PROCESSOR.post_process_panoptic_segmentation(
                theirs, [size], threshold=0.7, stuff_classes=stuff
            )
            got = maps.post_process_panoptic_segmentation(ours, 0.7, stuff_classes=stuff)
            assert_segments(got, want[0])
        want = PROCESSOR.post_process_instance_segmentation(theirs, [size], threshold=0.6)
        assert_segments(maps.post_process_instance_segmentation(ours, 0.6), want[0])
        # It takes padding for a part of the picture here.
        want = PROCESSOR.post_process_semantic_segmentation(theirs, [size])[0]
        whole = maps.QueryMasks(found, size, (SIDE, SIDE), padded=False)
        np.testing.assert_array_equal(maps.post_process_semantic_segmentation(whole), want)


def test_nothing_is_there():
    found = outputs(0)
    found["class_queries_logits"][:] = [0] * CLASSES + [9]
    ours = maps.QueryMasks(found, (30, 40), (SIDE, SIDE))
    for got in (
        maps.post_process_panoptic_segmentation(ours),
        maps.post_process_instance_segmentation(ours),
    ):
        assert got.segments_info == () and (got.segmentation == maps.NO_SEGMENT).all()


def test_what_is_said_of_a_picture():
    names = ("a", "b", "c", "d", "e")
    masks = info("eomt_dinov3_coco_panoptic_small_640").config
    asked = InputPicture(names, (90, 50), InputSize((SIDE, SIDE), True))
    told = masks.task.answer(outputs(0), asked, Question())
    scores = [each.score for each in told.answers]
    assert told.kind == "areas" and told.drawing.size == (50, 90) and len(scores) >= 2
    assert scores == sorted(scores, reverse=True) and {*names} >= {n for n, _ in told.answers}
    logits = np.random.default_rng(2).normal(0, 1, (5, 3, 4)).astype(np.float32)
    patches = info("dinov2_vits14_ade20k_linear").config
    asked = InputPicture(names, (42, 56), InputSize((42, 56), False))
    told = patches.task.answer({"logits": logits}, asked, Question())
    grown = torch.nn.functional.interpolate(
        torch.from_numpy(logits)[None], (42, 56), mode="bilinear"
    )
    np.testing.assert_array_equal(told.values, grown[0].argmax(0))
    assert sum(each.score for each in told.answers) == pytest.approx(1)
