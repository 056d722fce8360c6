"""`zoo.from_pretrained`: parameters have the right values, and the manifest states whose they are.

The name of a model is proven by a digest, contradicted by the tensors, or only given by the user.
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
from zoo.export.describe import make_shared_manifest
from zoo.export.request import Signature

load = package.from_pretrained


def test_types_of_parameters(vit_digits):
    half_precision = load("vit_digits", dtype=jnp.bfloat16)
    dtypes = {path: leaf.dtype for path, leaf in array_leaves(half_precision).items()}
    assert dtypes.pop("local_pos_embed.periods") == jnp.float32
    assert set(dtypes.values()) == {jnp.dtype(jnp.bfloat16)}
    rounded = np.asarray(vit_digits.head.weight.astype(jnp.bfloat16))
    np.testing.assert_array_equal(half_precision.head.weight, rounded)


def test_plain_equinox_reads_and_writes(vit_digits, zoo):
    """An `.eqx` file of the zoo has the same bytes as Equinox's own, and both read the other's."""
    eqx.tree_serialise_leaves("theirs.eqx", vit_digits)
    zoo("weights", "convert", "theirs.eqx", "a.pth")
    zoo("weights", "convert", "a.pth", "ours.eqx")
    ours, theirs = (zoo.here / f"{writer}.eqx" for writer in ("ours", "theirs"))
    assert ours.read_bytes() == theirs.read_bytes()
    skeleton = package.create("vit_digits", abstract=True)
    assert eqx.tree_equal(eqx.tree_deserialise_leaves(ours, skeleton), vit_digits)
    assert eqx.tree_equal(load("vit_digits", theirs), vit_digits)
    with pytest.raises(MappingError, match="looks like vit_digits"):
        load("dinov3_vits16", theirs)


def test_other_dtypes_are_refused():
    for kind in ("int8", "no", bool, 7):
        with pytest.raises(BadRequest, match="not a floating-point"):
            load("vit_digits", dtype=kind)


loading = importlib.import_module("zoo.checkpoints.load")
DINO, EUPE = package.info("dinov3_vits16"), package.info("eupe_vits16")


def recorded_weights(path, entry):
    weights = open_weights(GivenCheckpoint(path), entry, Quiet()).weights
    return make_shared_manifest(entry, Signature((224, 224), 1), weights.provenance).weights


def test_the_manifest_names_other_models_that_fit(vits16):
    """Two families have files with the same tensors under different terms.

    The manifest states that.
    """
    for entry, other in ((DINO, EUPE), (EUPE, DINO)):
        weights = recorded_weights(vits16.path, entry)
        assert weights.also_fits == (other.name,)
        assert f"it fits {other.name} too, which has other terms" in describe_weights(weights)


def test_a_digest_proves_the_name(vits16, monkeypatch):
    digest = sha256(vits16.path)[:8]
    monkeypatch.setitem(loading.MODELS, DINO.name, replace(DINO, digest=digest))
    weights = recorded_weights(vits16.path, loading.MODELS[DINO.name])
    assert weights.also_fits is None and weights.is_published_file
    assert describe_licence_doubt(weights) == ""
