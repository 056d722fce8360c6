"""Mapping, lazy values, random weights, and where files are looked for."""

import hashlib
import re
import time
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import save_file

import zoo
from tests.loading import load, naming_of
from tests.seeded import as_file
from tests.tiers import default_rows
from weights import LazyTensor, locate, random_weights
from weights.errors import MappingError, WeightsNotFound, WrongDigest
from weights.initializers import DRAWS, KINDS, kind_of, periods, round_to_bfloat16
from weights.mapping import SHOWN_NAMES, Rule, map_tensors, plan, source_shapes
from weights.namings.meta_names import DINOV3_VIT
from weights.namings.tower_names import HUB_TIPS_VIT, TIPS_VIT
from weights.progress import Quiet
from weights.sources.locate import PublishedFiles, describe_searched_folders, find_file_or_folder
from weights.transforms import BIAS, BIAS_OUTER_THIRDS, BIAS_THIRDS, MASKED
from zoo.checkpoints.identify import summarize_checkpoint
from zoo.checkpoints.load import model_shapes
from zoo.checkpoints.source import GivenCheckpoint


@pytest.mark.each()
@pytest.mark.parametrize("name", zoo.list_models())
def test_rules_and_random_weights_cover_every_model(name):
    """A rule gives each leaf, and each leaf and each key of the publisher's has a distribution."""
    entry = zoo.info(name)
    for naming in reversed(entry.namings):
        leaves = model_shapes(entry.config_for(naming.name))
        try:
            plans = plan(naming.rules, leaves)
        except KeyError as error:
            # Towers are saved without a projection, and DeiT without its second classifier.
            assert naming is not entry.namings[0], error
            assert re.search(r"leaf '(projection|head|head_dist)\.", str(error))
            continue
        assert [item.target for item in plans] == list(leaves)
        assert {kind_of(path) for path in leaves} <= set(DRAWS) == set(KINDS.values())
    assert {kind_of(key) for key in source_shapes(plans)} <= set(DRAWS)


KEYS = {
    **{"vits16": 188, "vitl16_sat493m": 370, "vith16plus": 552, "vit7b16": 610},
    **{"convnext_tiny": 180, "convnext_large": 342},
}
"""How many tensors the published files of DINOv3 have."""


@pytest.mark.parametrize(
    "name",
    default_rows(zoo.list_models("dinov3*"), *(f"dinov3_{short}" for short in KEYS)),
)
def test_files_of_dinov3_have_the_published_keys(name):
    plans = plan(naming_of(zoo.info(name), "meta").rules, model_shapes(zoo.info(name).config))
    short = name.removeprefix("dinov3_")
    assert len(source_shapes(plans)) == KEYS.get(short, len(source_shapes(plans)))


def test_a_leaf_without_a_rule_is_a_mistake_in_the_table():
    with pytest.raises(KeyError, match=r"no rule gives the leaf 'b\.c'"):
        plan([Rule("a.{x}", ("a.{x}",))], {"a.b": (1,), "b.c": (1,)})


def test_the_first_rule_about_a_leaf_says_alone_what_it_is_called():
    """transformers' file of TIPS differs from Google's in the names of one layer."""
    hub, google = "blocks.3.mlp.c_fc.weight", "blocks.3.mlp.fc1.weight"
    assert TIPS_VIT.leaf(google) == HUB_TIPS_VIT.leaf(hub) == google
    assert not HUB_TIPS_VIT.has_key(google)


def test_values_are_read_one_by_one(vits16):
    arrays, reads = load(vits16.path, vits16.shapes).arrays, []
    tensor = arrays.tensors["norm.weight"]
    arrays.tensors["norm.weight"] = LazyTensor(
        tensor.shape, tensor.dtype, lambda: reads.append(1) or tensor.read()
    )
    assert len(arrays) == len(vits16.shapes) and "norm.weight" in set(arrays) and not reads
    assert arrays["norm.weight"].dtype == np.float32
    assert reads == [1]


def problems(shapes, file):
    with pytest.raises(MappingError) as error:
        map_tensors(DINOV3_VIT, plan(DINOV3_VIT.rules, shapes), file)
    return str(error.value)


def test_everything_wrong_is_told_at_once(tiny7b):
    """By name, or by number where there are hundreds."""
    file = as_file(tiny7b.state)
    del file["blocks.1.ls1.gamma"], file["cls_token"]
    file |= as_file({"head.weight": np.zeros(3), "norm.bias": np.zeros(7)})
    file["norm.weight"] = LazyTensor((256,), "int64", lambda: np.zeros(256, np.int64))
    told = problems(tiny7b.shapes, file)
    assert "2 missing: cls_token, blocks.1.ls1.gamma" in told
    assert "1 unexpected: head.weight" in told
    assert "norm.bias (is [7], must be [256])" in told
    assert "norm.weight (is int64, must be bfloat16, float16, float32, float64)" in told
    told, count = problems(tiny7b.shapes, {}), len(tiny7b.state)
    assert f"{count} missing: " in told and f" and {count - SHOWN_NAMES} more" in told


def test_random_weights_depend_on_seed_and_name_only(tiny7b):
    one, other = random_weights(tiny7b.shapes, 1).arrays, random_weights(tiny7b.shapes, 2).arrays
    path = "blocks.1.mlp.w1.weight"
    alone = random_weights({path: tiny7b.shapes[path]}, 1).arrays
    np.testing.assert_array_equal(one[path], alone[path])
    assert not np.array_equal(one[path], other[path])
    assert not np.array_equal(one[path], one["blocks.2.mlp.w1.weight"])
    for name, shape in tiny7b.shapes.items():
        assert one[name].shape == shape
        assert one[name].dtype == np.float32


def test_random_weights_are_pinned():
    weights = random_weights({"norm.weight": (2,), "cls_token": (1, 2)}, 0).arrays
    norm, token = (0.9665955305099487, 1.0199953317642212), (0.20857331156731, 0.20154318213463)
    np.testing.assert_array_equal(weights["norm.weight"], np.float32(norm))
    np.testing.assert_array_equal(weights["cls_token"], np.float32([token]))


def test_periods_are_the_published_ones():
    published = [1, 1.3359375, 1.78125, 2.375, 3.15625, 4.21875, 5.625, 7.5]
    published += [10, 13.3125, 17.75, 23.75, 31.625, 42.25, 56.25, 75]
    np.testing.assert_array_equal(periods(16), published)


def test_rounding_to_bfloat16_is_to_even():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    want = torch.from_numpy(x).bfloat16().float().numpy()
    np.testing.assert_array_equal(round_to_bfloat16(x), want)


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
def places(tmp_path, monkeypatch):
    """Where weights may lie, the first to be looked at first."""
    own, here, home = (tmp_path / name for name in ("own", "here", "home"))
    torch, equimo = home / ".cache/torch/hub/dinov3/weights", home / ".cache/equimo/family"
    for folder in (own, here, torch, torch.parents[1] / "checkpoints", equimo):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ZOO_WEIGHTS_DIR", str(own))
    return own, here, torch, equimo


def test_places_are_searched_in_order(places, monkeypatch):
    own, here, torch, equimo = places
    order = [
        own / PUBLISHED.checkpoint,
        own / PUBLISHED.archive,
        own / "w",
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
    assert all(str(place) in describe_searched_folders() for place in (own, here, torch))
    assert "ZOO_WEIGHTS_DIR" not in describe_searched_folders()
    monkeypatch.delenv("ZOO_WEIGHTS_DIR")
    assert "ZOO_WEIGHTS_DIR is not set" in describe_searched_folders()
    with pytest.raises(WeightsNotFound, match="no other"):
        find_file_or_folder("other", PUBLISHED)


@pytest.mark.parametrize("place", range(3))
def test_a_damaged_file_in_a_folder_or_cache(place, places):
    (places[place] / PUBLISHED.checkpoint).write_bytes(b"not nothing")
    with pytest.raises(WrongDigest, match="its sha256 begins with e3b0c442"):
        locate(PUBLISHED, Quiet())


def test_a_file_that_is_named_is_held_to_its_name(tiny7b, tmp_path):
    whole = tiny7b.path.read_bytes()
    digest = hashlib.sha256(whole).hexdigest()
    # A date is no promise, and torch.hub's names have eight digits of sixteen at least.
    for name in (f"w-{digest[:8]}.pth", f"w-{digest}.pth", "w-20260102.pth", "w-feed.pth"):
        (tmp_path / name).write_bytes(whole)
        assert load(tmp_path / name, tiny7b.shapes).provenance.sha256 == digest
    (tmp_path / "w-08c60483.pth").write_bytes(whole)
    with pytest.raises(WrongDigest, match=f"begins with 08c60483, but it is {digest[:12]}"):
        load(tmp_path / "w-08c60483.pth", tiny7b.shapes)


def test_biases_have_one_zero():
    """Formats that mask a part of them and those that do not give the same bits."""
    parts = [np.full(3, -0.0, np.float32)] * 3
    for transform, count in ((BIAS, 1), (BIAS_THIRDS, 3), (BIAS_OUTER_THIRDS, 2), (MASKED, 2)):
        assert not np.signbit(transform.apply(*parts[:count])).any(), transform.name


COUNT, SECONDS = 1_500, 6
"""Of a processor; the names take a fifth of them, and took twice as many without an index."""

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
    began = time.process_time()
    assert not summarize_checkpoint(GivenCheckpoint(tmp_path / "w.safetensors")).models
    assert time.process_time() - began < SECONDS
