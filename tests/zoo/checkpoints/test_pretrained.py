"""`zoo.from_pretrained`: the right numbers in the right places, whatever the source is called."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import zoo
from weights import array_leaves
from weights.errors import MappingError, WeightsNotFound
from zoo.errors import BadRequest, UnknownModel


def test_auto_random_and_paths():
    model = zoo.from_pretrained("vit_digits")
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(model))
    one, same, other = (
        zoo.from_pretrained("vit_digits", weights) for weights in ("random:7", "random:7", "random")
    )
    assert eqx.tree_equal(one, same) and not eqx.tree_equal(one, other)
    assert jax.tree.structure(one) == jax.tree.structure(zoo.create("vit_digits", abstract=True))


def test_types_of_parameters():
    model = zoo.from_pretrained("vit_digits", dtype=jnp.bfloat16)
    kinds = {path: leaf.dtype for path, leaf in array_leaves(model).items()}
    assert kinds.pop("local_pos_embed.periods") == jnp.float32
    assert set(kinds.values()) == {jnp.dtype(jnp.bfloat16)}
    exact = zoo.from_pretrained("vit_digits")
    np.testing.assert_array_equal(
        model.head.weight, np.asarray(exact.head.weight.astype(jnp.bfloat16))
    )


def test_plain_equinox_reads_and_writes(tmp_path):
    """An `.eqx` of ours is Equinox's own, to the byte, and the other way round."""
    from typer.testing import CliRunner

    from zoo.cli.app import app

    model = zoo.from_pretrained("vit_digits")
    eqx.tree_serialise_leaves(tmp_path / "theirs.eqx", model)
    for source, target in (("theirs.eqx", "a.pth"), ("a.pth", "ours.eqx")):
        places = [str(tmp_path / source), str(tmp_path / target)]
        done = CliRunner().invoke(app, ["weights", "convert", *places])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "ours.eqx").read_bytes() == (tmp_path / "theirs.eqx").read_bytes()
    skeleton = zoo.create("vit_digits", abstract=True)
    assert eqx.tree_equal(eqx.tree_deserialise_leaves(tmp_path / "ours.eqx", skeleton), model)
    assert eqx.tree_equal(zoo.from_pretrained("vit_digits", tmp_path / "theirs.eqx"), model)


def test_leaves_of_another_model(tmp_path):
    eqx.tree_serialise_leaves(tmp_path / "digits.eqx", zoo.from_pretrained("vit_digits"))
    with pytest.raises(MappingError, match="looks like vit_digits"):
        zoo.from_pretrained("dinov3_vits16", tmp_path / "digits.eqx")


def test_wrong_use(tmp_path):
    with pytest.raises(UnknownModel, match="did you mean"):
        zoo.from_pretrained("dinov3_vits61")
    with pytest.raises(BadRequest, match="no seed"):
        zoo.from_pretrained("vit_digits", "random:x")
    with pytest.raises(WeightsNotFound, match="does not exist"):
        zoo.from_pretrained("vit_digits", tmp_path / "nothing.pth")
    for dtype in ("int8", "nothing", bool, 7):
        with pytest.raises(BadRequest, match="no floating-point type"):
            zoo.from_pretrained("vit_digits", dtype=dtype)
