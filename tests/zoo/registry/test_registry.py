"""The registry: names, aliases and facts of models, compared with timm's and the publishers'."""

import json
import math
import pickle
import re
from dataclasses import asdict
from operator import attrgetter

import pytest

import zoo
from tests.conftest import GOLDEN
from zoo.architectures.entry import MEASURED_TASKS
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.checkpoints.load import model_shapes
from zoo.common.errors import BadRequest, UnknownModel
from zoo.registry.lookup import MODELS

TIMM = json.loads((GOLDEN / "timm_published.json").read_text())
"""What timm states about its models. `golden/make_timm_published.py` wrote it."""

DIFFERENT_IN_TIMM = {
    # timm's files have no mask token. The zoo's sizes and filters are those of the publishers.
    **dict.fromkeys(("dinov3", "dinov2", "eupe"), ("parameters", "size", "interpolation")),
    "siglip2": ("interpolation",),
}
"""Facts that differ in timm, by family."""


@pytest.mark.parametrize("name_in_timm", TIMM)
def test_a_model_has_the_numbers_that_timm_gives_it(name_in_timm):
    entry, timm_facts = zoo.info(f"timm/{name_in_timm}"), TIMM[name_in_timm]
    # The zoo does not read EUPE in timm's naming. EUPE's networks are DINOv3's.
    in_timm = [row for row in entry.published if row.naming.name == "timm"]
    (published, *_) = in_timm or entry.published
    config, pictures = published.config, entry.preprocessing
    ours = asdict(config) | {"parameters": entry.parameters, "size": pictures.size}
    ours |= {"mean": pictures.mean, "std": pictures.std, "interpolation": pictures.resample}
    gate = getattr(config, "ffn", "")
    ours["activation"] = (
        "silu" if "swiglu" in gate else (published.library_config or config).activation
    )
    if gate == "swiglu_fused":
        ours["hidden"] *= 2  # timm's layer computes both parts
    names = (timm_facts.keys() & ours.keys()).difference(DIFFERENT_IN_TIMM.get(entry.family, ()))
    assert len(names) >= 7
    for name in names:
        our_value = list(ours[name]) if isinstance(ours[name], tuple) else ours[name]
        assert (name, our_value) == (name, timm_facts[name])


PUBLISHED = json.loads((GOLDEN / "published.json").read_text())
"""What publishers' packages state about their models. `golden/make_published.py` wrote it."""


@pytest.mark.parametrize("model", PUBLISHED["models"])
def test_a_model_has_the_numbers_that_its_publisher_gives_it(model):
    entry = zoo.info(model)
    for path, stated_value in PUBLISHED["models"][model].items():
        our_value = attrgetter(path)(entry)
        assert (path, list(our_value) if isinstance(our_value, tuple) else our_value) == (
            path,
            stated_value,
        )


DECODED_BLOCKS = {
    # `dpt.py` of DepthAnything/Depth-Anything-V2
    r"depth_anything_v2_.*vit[sb]": (2, 5, 8, 11),
    r"depth_anything_v2_.*vitl": (4, 11, 17, 23),
    # `configs/deimv2` of Intellindust-AI-Lab/DEIMv2
    r"deimv2_[sm]": (3, 7, 11),
    r"deimv2_[lx]": (5, 8, 11),
}
"""Blocks, counted from 0, whose outputs a decoder reads in the authors' code."""


@pytest.mark.parametrize("names", DECODED_BLOCKS)
def test_decoders_read_the_authors_blocks(names):
    layers = [entry.config.layers for name, entry in MODELS.items() if re.fullmatch(names, name)]
    assert {*layers} == {tuple(block + 1 for block in DECODED_BLOCKS[names])}


def test_classes_of_coco():
    entry = zoo.info("rf_detr_nano")
    assert {n: name for n, name in enumerate(entry.labels) if name != "N/A"} == {
        int(n): name for n, name in PUBLISHED["coco"].items()
    }


ANTIALIASED = re.compile(r"(vit|deit)_[a-z]+_.*|dinov2_vit.14_reg|tips(v2)?_vit[^_]*(_[hl]r)?")
"""Vision transformers whose positions are antialiased when they are resized.

This follows the code of timm, of DINOv2 (with registers) and of TIPS.
"""


@pytest.mark.parametrize("name", zoo.list_models())
def test_entries_are_consistent(name):
    """Facts of an entry agree with each other.

    `repr` is short enough for a line of a notebook, and pickling works for worker processes.
    """
    entry = zoo.info(name)
    assert entry.name == name
    for alias in entry.aliases:
        assert zoo.info(alias) is entry
    if isinstance(entry.config, ViTConfig):
        assert entry.config.dim % entry.config.heads == 0
        antialiased = entry.config.positions and entry.config.positions.antialias
        assert bool(antialiased) == bool(ANTIALIASED.fullmatch(name))
        if entry.config.positions:
            assert entry.config.positions.linear == entry.family.startswith("tips")
            positions = (row.config.positions for row in entry.published)
            assert {patches_of.patches for patches_of in positions} == {
                entry.config.positions.patches
            }
    assert all(side % entry.config.stride == 0 for side in entry.preprocessing.size)
    assert entry.weights_name
    if entry.embedded:
        assert (entry.archive, entry.licence.download, len(entry.digest)) == ("", "", 64)
    else:
        assert entry.archive.endswith(".tar.lz4") or "equimo" not in {n.name for n in entry.namings}
        assert entry.licence.download.startswith("https://")
    assert entry.licence.page.startswith("https://")
    assert len(entry.preprocessing.mean) == len(entry.preprocessing.std) == 3
    larger_entry = MODELS.get(f"{name.removesuffix('_text')}_dual", entry)
    # transformers 4 saved larger checkpoints in several files. TIPSv2 was saved by transformers 5.
    is_split = 4 * larger_entry.parameters > 5e9 and not name.startswith("tipsv2")
    assert all(is_split == str(path).endswith(".index.json") for path in entry.hub)
    if name.startswith("dinov3") and "dinotxt" not in name:
        assert re.fullmatch(rf"{entry.aliases[0]}-{entry.digest}\.pth", entry.checkpoint)
        is_satellite = "sat493m" in entry.checkpoint
        assert entry.preprocessing.mean[0] == (0.430 if is_satellite else 0.485)
        assert entry.preprocessing.rescale_first
    assert name in repr(entry) and len(repr(entry)) < 200
    table = entry._repr_html_()
    assert table.startswith("<table>") and f"{entry.parameters:,}" in table
    assert pickle.loads(pickle.dumps(entry)) == entry
    assert all(row.source and row.data and row.task in MEASURED_TASKS for row in entry.reported)
    assert entry.config.pictures is not None or not entry.reported
    assert not entry.as_unpublished.reported


TIMM_COUNTS = {
    entry.name
    for entry in (zoo.info(f"timm/{name_in_timm}") for name_in_timm in TIMM)
    if "parameters" not in DIFFERENT_IN_TIMM.get(entry.family, ())
}
"""Models whose number of parameters another test compares with timm's."""


def counted_by_default() -> set[str]:
    """Return the smallest model of each kind of configuration among those without timm's number."""
    smallest: dict[type, str] = {}
    for name in sorted(zoo.list_models(), key=lambda name: (MODELS[name].parameters, name)):
        if name not in TIMM_COUNTS and not name.endswith("_dual"):
            smallest.setdefault(type(MODELS[name].config), name)
    return {*smallest.values()}


COUNTED = counted_by_default()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.full] * (name not in COUNTED))
        for name in zoo.list_models()
        if not name.endswith("_dual")  # The number is the sum of both towers.
    ],
)
def test_a_network_has_as_many_parameters_as_its_entry_says(name):
    """The default tier has the smallest model of each kind that timm has no number for."""
    entry = zoo.info(name)
    shapes = model_shapes(entry.config).items()
    trained = (shape for path, shape in shapes if not path.endswith(("periods", "freqs")))
    assert sum(map(math.prod, trained)) == entry.parameters


def test_names_are_unique():
    """Names and aliases are unique.

    Only a name without its tag, or a repository, may refer to several models. It then means the
    first.
    """
    names = [name for entry in MODELS.values() for name in (entry.name, *entry.aliases)]
    assert len(names) == len({name.casefold() for name in names})
    assert all(name in entry.names for entry in MODELS.values() for name in entry.aliases)
    assert len(zoo.list_models("dinov3_vit*")) == 11 and zoo.list_models("nothing*") == []


def test_classes_have_the_names_of_imagenet():
    """Names of classes are those of torchvision's and timm's classifiers."""
    names = zoo.info("vit_tiny_patch16_224").class_names
    assert names == zoo.info("vit5_small").class_names and len(set(names)) == 1000
    known = {0: "tench, Tinca tinca", 207: "golden retriever", 285: "Egyptian cat"}
    known |= {817: "sports car, sport car", 999: "toilet tissue, toilet paper, bathroom tissue"}
    assert {number: names[number] for number in known} == known
    assert zoo.info("vit_digits").class_names == tuple("0123456789")
    assert zoo.info("dinov3_vits16").class_names == ()


def test_names_of_hubs():
    for name_on_hub, name in (
        ("dinov3_vitl16_pretrain_sat493m", "dinov3_vitl16_sat493m"),
        ("FACEBOOK/DINOv3-ViTS16-pretrain-LVD1689M", "dinov3_vits16"),
        ("dinov2-small", "dinov2_vits14"),
        ("facebook/dinov2-with-registers-giant", "dinov2_vitg14_reg"),
        ("google/siglip2-so400m-patch14-384", "siglip2_vitso400m14_378"),
        ("SigLIP2_ViTB16_224_Dual", "siglip2_vitb16_224_dual"),
        ("timm/vit_small_patch14_reg4_dinov2.lvd142m", "dinov2_vits14_reg"),
        ("vit_large_patch16_dinov3_qkvb.sat493m", "dinov3_vitl16_sat493m"),
        ("vit_tiny_patch16_dinov3_qkvb.eupe_lvd1689m", "eupe_vitt16"),
        ("ViT_Base_Patch16_SigLIP_224.v2_webli", "siglip2_vitb16_224"),
    ):
        assert zoo.info(name_on_hub).name == name


def test_unknown_names_are_refused():
    """The error for an unknown name names the nearest one."""
    messages = {"dinov3_vits_16": "dinov3_vits16", "qqq": "zoo list"}
    for unknown in (*messages, "somebody/dinov2-small", "dinov2", "", "/", "timm/"):
        with pytest.raises(UnknownModel, match=messages.get(unknown)):
            zoo.info(unknown)
    for call in (zoo.info, zoo.load, zoo.from_pretrained, zoo.create):
        with pytest.raises(BadRequest, match="got 7 for a model"):
            call(7)
    with pytest.raises(ValueError, match="abstract=True"):
        zoo.create("dinov3_vits16")
