"""`zoo.from_pretrained`: the right numbers in the right places, and whose a file is.

A name that was given is proven, contradicted, or only said.
"""

import importlib
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import zoo as package
from weights import array_leaves
from weights.errors import MappingError
from weights.files import sha256
from weights.progress import Quiet
from zoo.artifacts.descriptions import describe_licence_doubt, describe_weights
from zoo.checkpoints.load import open_weights
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.errors import BadRequest
from zoo.export.describe import describe_shared
from zoo.export.request import Signature

load = package.from_pretrained


@pytest.fixture(scope="module")
def model():
    return load("vit_digits")


def test_types_of_parameters(model):
    halves = load("vit_digits", dtype=jnp.bfloat16)
    kinds = {path: leaf.dtype for path, leaf in array_leaves(halves).items()}
    assert kinds.pop("local_pos_embed.periods") == jnp.float32
    assert set(kinds.values()) == {jnp.dtype(jnp.bfloat16)}
    rounded = np.asarray(model.head.weight.astype(jnp.bfloat16))
    np.testing.assert_array_equal(halves.head.weight, rounded)


def test_plain_equinox_reads_and_writes(model, zoo):
    """An `.eqx` of ours is Equinox's own, to the byte, and the other way round."""
    eqx.tree_serialise_leaves("theirs.eqx", model)
    zoo("weights", "convert", "theirs.eqx", "a.pth")
    zoo("weights", "convert", "a.pth", "ours.eqx")
    ours, theirs = (zoo.here / f"{who}.eqx" for who in ("ours", "theirs"))
    assert ours.read_bytes() == theirs.read_bytes()
    skeleton = package.create("vit_digits", abstract=True)
    assert eqx.tree_equal(eqx.tree_deserialise_leaves(ours, skeleton), model)
    assert eqx.tree_equal(load("vit_digits", theirs), model)
    with pytest.raises(MappingError, match="looks like vit_digits"):
        load("dinov3_vits16", theirs)


def test_wrong_use():
    for kind in ("int8", "no", bool, 7):
        with pytest.raises(BadRequest, match="not a floating-point"):
            load("vit_digits", dtype=kind)


loading = importlib.import_module("zoo.checkpoints.load")
DINO, EUPE = package.info("dinov3_vits16"), package.info("eupe_vits16")


def recorded(path, entry):
    weights = open_weights(GivenCheckpoint(path), entry, Quiet()).weights
    return describe_shared(entry, Signature((224, 224), 1), weights.provenance).weights


def test_a_name_that_nothing_proves(vits16):
    """Both families have files of these tensors, under different terms: the manifest says so."""
    for entry, other in ((DINO, EUPE), (EUPE, DINO)):
        found = recorded(vits16.path, entry)
        assert found.also_fits == (other.name,)
        assert f"it fits {other.name} too, which has other terms" in describe_weights(found)


def test_a_digest_settles_it(vits16, monkeypatch):
    digest = sha256(vits16.path)[:8]
    monkeypatch.setitem(loading.MODELS, DINO.name, replace(DINO, digest=digest))
    found = recorded(vits16.path, loading.MODELS[DINO.name])
    assert found.also_fits is None and found.is_published_file
    assert describe_licence_doubt(found) == ""
