"""Mapping of tensors to leaves, lazy values, random weights, and the folders that are searched."""

import hashlib
import re
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import save_file

import zoo
from tests.loading import load, naming_of
from tests.seeded import as_file
from tests.tiers import default_rows
from weights import LazyTensor, locate, random_weights
from weights.errors import (
    BadValues,
    MappingError,
    NotACheckpoint,
    WeightsNotFound,
    WrongDigest,
)
from weights.files import Checkpoint
from weights.initializers import DRAWS, KINDS, kind_of, periods, round_to_bfloat16
from weights.load import find_nearest_naming
from weights.mapping import SHOWN_NAMES, Rule, map_tensors, plan_leaves, source_shapes
from weights.namings.meta_names import DINOV3_VIT
from weights.namings.tower_names import HUB_TIPS_VIT, TIPS_VIT
from weights.progress import Quiet
from weights.sources.locate import PublishedFiles, describe_searched_folders, find_file_or_folder
from weights.transforms import BIAS, BIAS_OUTER_THIRDS, BIAS_THIRDS, MASKED
from weights.views import summarize_names
from zoo.checkpoints.identify import summarize_checkpoint
from zoo.checkpoints.load import model_shapes
from zoo.checkpoints.source import GivenCheckpoint


@pytest.mark.each()
@pytest.mark.parametrize("name", zoo.list_models())
def test_rules_and_random_weights_cover_every_model(name):
    """Every leaf has a rule, and every leaf and publisher's key has a distribution."""
    entry = zoo.info(name)
    for naming in reversed(entry.namings):
        leaves = model_shapes(entry.config_for(naming.name))
        try:
            plans = plan_leaves(naming.rules, leaves)
        except KeyError as error:
            # Some files have towers without a projection, or DeiT without its second classifier.
            assert naming is not entry.namings[0], error
            assert re.search(r"leaf '(projection|head|head_dist)\.", str(error))
            continue
        assert [item.target for item in plans] == list(leaves)
        assert {kind_of(path) for path in leaves} <= set(DRAWS) == set(KINDS.values())
    assert {kind_of(key) for key in source_shapes(plans)} <= set(DRAWS)


TENSOR_COUNTS = {
    **{"vits16": 188, "vitl16_sat493m": 370, "vith16plus": 552, "vit7b16": 610},
    **{"convnext_tiny": 180, "convnext_large": 342},
}
"""The number of tensors in published files of DINOv3."""


@pytest.mark.parametrize(
    "name",
    default_rows(
        zoo.list_models("dinov3*"), *(f"dinov3_{short_name}" for short_name in TENSOR_COUNTS)
    ),
)
def test_files_of_dinov3_have_the_published_number_of_tensors(name):
    plans = plan_leaves(
        naming_of(zoo.info(name), "meta").rules, model_shapes(zoo.info(name).config)
    )
    short_name = name.removeprefix("dinov3_")
    assert len(source_shapes(plans)) == TENSOR_COUNTS.get(short_name, len(source_shapes(plans)))


def test_a_leaf_without_a_rule_is_an_error():
    with pytest.raises(KeyError, match=r"no rule gives the leaf 'b\.c'"):
        plan_leaves([Rule("a.{x}", ("a.{x}",))], {"a.b": (1,), "b.c": (1,)})


def test_the_first_rule_determines_the_name_of_a_leaf():
    """The names of one layer differ between transformers' and Google's files of TIPS."""
    hub, google = "blocks.3.mlp.c_fc.weight", "blocks.3.mlp.fc1.weight"
    assert TIPS_VIT.find_leaf(google) == HUB_TIPS_VIT.find_leaf(hub) == google
    assert not HUB_TIPS_VIT.has_key(google)


def test_values_are_read_when_needed(vits16):
    arrays, reads = load(vits16.path, vits16.shapes).arrays, []
    tensor = arrays.tensors["norm.weight"]
    arrays.tensors["norm.weight"] = LazyTensor(
        tensor.shape, tensor.dtype, lambda: reads.append(1) or tensor.read()
    )
    assert len(arrays) == len(vits16.shapes) and "norm.weight" in set(arrays) and not reads
    assert arrays["norm.weight"].dtype == np.float32
    assert reads == [1]


def mapping_error(shapes, file):
    """Return the error of mapping tensors to leaves of these shapes."""
    with pytest.raises(MappingError) as error:
        map_tensors(DINOV3_VIT, plan_leaves(DINOV3_VIT.rules, shapes), file)
    return str(error.value)


def test_all_mapping_errors_are_reported_together(tiny7b):
    """The first names are listed, and the number of further ones."""
    file = as_file(tiny7b.state)
    del file["blocks.1.ls1.gamma"], file["cls_token"]
    file |= as_file({"head.weight": np.zeros(3), "norm.bias": np.zeros(7)})
    file["norm.weight"] = LazyTensor((256,), "int64", lambda: np.zeros(256, np.int64))
    message = mapping_error(tiny7b.shapes, file)
    assert "2 missing: cls_token, blocks.1.ls1.gamma" in message
    assert "1 unexpected: head.weight" in message
    assert "norm.bias (is [7], must be [256])" in message
    assert "norm.weight (is int64, must be bfloat16, float16, float32, float64)" in message
    message, count = mapping_error(tiny7b.shapes, {}), len(tiny7b.state)
    assert f"{count} missing: " in message and f" and {count - SHOWN_NAMES} more" in message


@pytest.mark.parametrize(
    ("keys", "listed"),
    [("abcdef", "a, b, c, d, e"), (["å" * 20], "\\xe5" * 15), ([], "none at all")],
)
def test_the_error_about_another_file_lists_five_names(keys, listed):
    """Characters other than ASCII are escaped, and at most 60 characters of a name are listed."""
    tensors = as_file(dict.fromkeys(keys, np.zeros(1)))
    with pytest.raises(NotACheckpoint) as error:
        find_nearest_naming([DINOV3_VIT], Checkpoint(Path("w.pth"), "", (), tensors))
    assert f"the file's {len(keys)} tensors ({listed} …) are not those of" in str(error.value)


def test_random_weights_depend_on_seed_and_name_only(tiny7b):
    first, second = random_weights(tiny7b.shapes, 1).arrays, random_weights(tiny7b.shapes, 2).arrays
    path = "blocks.1.mlp.w1.weight"
    single = random_weights({path: tiny7b.shapes[path]}, 1).arrays
    np.testing.assert_array_equal(first[path], single[path])
    assert not np.array_equal(first[path], second[path])
    assert not np.array_equal(first[path], first["blocks.2.mlp.w1.weight"])
    for name, shape in tiny7b.shapes.items():
        assert first[name].shape == shape
        assert first[name].dtype == np.float32


def test_random_weights_are_pinned():
    weights = random_weights({"norm.weight": (2,), "cls_token": (1, 2)}, 0).arrays
    norm, token = (0.9665955305099487, 1.0199953317642212), (0.20857331156731, 0.20154318213463)
    np.testing.assert_array_equal(weights["norm.weight"], np.float32(norm))
    np.testing.assert_array_equal(weights["cls_token"], np.float32([token]))


def test_rotary_periods_are_the_published_ones():
    published = [1, 1.3359375, 1.78125, 2.375, 3.15625, 4.21875, 5.625, 7.5]
    published += [10, 13.3125, 17.75, 23.75, 31.625, 42.25, 56.25, 75]
    np.testing.assert_array_equal(periods(16), published)


def test_rounding_to_bfloat16_is_to_even():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    expected = torch.from_numpy(x).bfloat16().float().numpy()
    np.testing.assert_array_equal(round_to_bfloat16(x), expected)


PUBLISHED = PublishedFiles(
    name="w-e3b0c442.pth",
    checkpoint="w-e3b0c442.pth",
    archive="family_w.tar.lz4",
    repository="somebody/w",
    hub=(),
    terms="https://licence",
    advice="Accept https://licence, download https://download, or give `--weights PATH`.",
)


@pytest.fixture
def search_folders(tmp_path, monkeypatch):
    """The folders in which weights are searched, in order."""
    weights_dir, here, home = (tmp_path / name for name in ("own", "here", "home"))
    torch, equimo = home / ".cache/torch/hub/dinov3/weights", home / ".cache/equimo/family"
    for folder in (weights_dir, here, torch, torch.parents[1] / "checkpoints", equimo):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ZOO_WEIGHTS_DIR", str(weights_dir))
    return weights_dir, here, torch, equimo


def test_folders_are_searched_in_order(search_folders, monkeypatch):
    weights_dir, here, torch, equimo = search_folders
    order = [
        weights_dir / PUBLISHED.checkpoint,
        weights_dir / PUBLISHED.archive,
        weights_dir / "w",
        here / PUBLISHED.checkpoint,
        torch / PUBLISHED.checkpoint,
        torch.parents[1] / "checkpoints" / PUBLISHED.checkpoint,
        equimo / PUBLISHED.archive,
        equimo / "family_w",
    ]
    for path in order:
        path.touch()
    for path in order:
        listener = Mock(Quiet)
        assert locate(PUBLISHED, listener).path == path
        listener.stage.assert_called_with(f"weights: {path.name}, from {path.parent}")
        assert find_file_or_folder(path.name, PUBLISHED).name == path.name
        path.unlink()
    with pytest.raises(WeightsNotFound) as error:
        locate(PUBLISHED, Quiet())
    assert PUBLISHED.name in str(error.value) and PUBLISHED.advice in str(error.value)
    assert all(str(index) in describe_searched_folders() for index in (weights_dir, here, torch))
    assert "ZOO_WEIGHTS_DIR" not in describe_searched_folders()
    monkeypatch.delenv("ZOO_WEIGHTS_DIR")
    assert "ZOO_WEIGHTS_DIR is not set" in describe_searched_folders()
    with pytest.raises(WeightsNotFound, match="no other"):
        find_file_or_folder("other", PUBLISHED)


@pytest.mark.parametrize("index", range(3))
def test_a_damaged_file_in_a_folder_or_cache(index, search_folders):
    (search_folders[index] / PUBLISHED.checkpoint).write_bytes(b"not nothing")
    with pytest.raises(WrongDigest, match="its sha256 begins with e3b0c442"):
        locate(PUBLISHED, Quiet())


def test_a_file_is_compared_with_the_digest_in_its_name(tiny7b, tmp_path):
    data = tiny7b.path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    # A date is no digest. The digests in torch.hub's names have at least eight hexadecimal digits.
    for name in (f"w-{digest[:8]}.pth", f"w-{digest}.pth", "w-20260102.pth", "w-feed.pth"):
        (tmp_path / name).write_bytes(data)
        assert load(tmp_path / name, tiny7b.shapes).provenance.sha256 == digest
    (tmp_path / "w-08c60483.pth").write_bytes(data)
    with pytest.raises(WrongDigest, match=f"begins with 08c60483, but it is {digest[:12]}"):
        load(tmp_path / "w-08c60483.pth", tiny7b.shapes)


def test_biases_have_no_negative_zero():
    """Formats with masked biases and formats without give the same bits."""
    parts = [np.full(3, -0.0, np.float32)] * 3
    for transform, count in ((BIAS, 1), (BIAS_THIRDS, 3), (BIAS_OUTER_THIRDS, 2), (MASKED, 2)):
        assert not np.signbit(transform.apply(*parts[:count])).any(), transform.name


COUNT, SECONDS = 1_500, 6
"""Seconds of processor time. The names take a fifth of them, and twice as many without an index."""

NAMES = {
    "many segments": lambda number: "a." * 150 + str(number),
    "one long segment": lambda number: f"module.backbone.blocks.{number}." + "x" * 280,
    "numbers": lambda number: f"blocks.{number}." + "1." * 140 + "weight",
}


@pytest.mark.each("kind")
@pytest.mark.parametrize("kind", NAMES)
def test_long_names(kind, tmp_path):
    value = np.zeros(1, np.float32)
    save_file({NAMES[kind](number): value for number in range(COUNT)}, tmp_path / "w.safetensors")
    start = time.process_time()
    assert not summarize_checkpoint(GivenCheckpoint(tmp_path / "w.safetensors")).models
    assert time.process_time() - start < SECONDS


def test_a_copy_without_its_original_is_refused(tiny7b):
    """A file may lack the tensor that another one has to repeat."""
    naming = replace(DINOV3_VIT, copies=(("copy.weight", "absent.weight"),))
    file = as_file(tiny7b.state | {"copy.weight": np.zeros(3, np.float32)})
    with pytest.raises(BadValues, match=r"copy\.weight must repeat absent\.weight and does not"):
        map_tensors(naming, plan_leaves(naming.rules, tiny7b.shapes), file)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["head.weight"], "head"),
        (["head.weight", "head.bias"], "head.*"),
        (["a.layers.0.fc.weight", "a.layers.1.fc.weight"], "a.layers.*"),
        (
            [f"m{i}.{j}" for i in range(8) for j in "ab"],
            "m0.*, m1.*, m2.*, m3.*, m4.*, m5.* and 2 more",
        ),
    ],
)
def test_names_are_summarized_by_module(names, text):
    assert summarize_names(names) == text
