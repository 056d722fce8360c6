"""Whose a file is that a model's name was given with: proven, contradicted, or only said."""

import importlib
from dataclasses import replace

import pytest

import zoo
from weights.errors import MappingError
from weights.files import sha256
from weights.progress import Quiet
from zoo.checkpoints.load import open_weights
from zoo.export.describe import describe_shared
from zoo.export.request import Signature
from zoo.manifest.words import doubt, origin

loading = importlib.import_module("zoo.checkpoints.load")
DINO, EUPE = zoo.info("dinov3_vits16"), zoo.info("eupe_vits16")


def recorded(path, entry):
    weights = open_weights(path, entry, Quiet()).weights
    return describe_shared(entry, Signature((224, 224), 1), weights.provenance).weights


def test_a_name_that_nothing_proves(vits16):
    """Both families have files of these tensors, under different terms: the manifest says so."""
    for entry, other in ((DINO, EUPE), (EUPE, DINO)):
        found = recorded(vits16.path, entry)
        assert found.also_fits == (other.name,)
        assert f"it fits {other.name} too, which has other terms" in origin(found)


def test_a_digest_settles_it(vits16, monkeypatch):
    digest = sha256(vits16.path)[:8]
    monkeypatch.setitem(loading.MODELS, DINO.name, replace(DINO, digest=digest))
    found = recorded(vits16.path, loading.MODELS[DINO.name])
    assert found.also_fits is None and found.is_published_file
    assert doubt(found) == ""
    with pytest.raises(
        MappingError, match=r"published file of dinov3_vits16, not of eupe_vits16: exp"
    ):
        open_weights(vits16.path, EUPE, Quiet())


@pytest.mark.full
def test_the_same_terms_are_no_question():
    """A file that fits nothing else, or models under the same terms, leaves nothing open."""
    assert (
        recorded(zoo.info("vit_digits").places.embedded, zoo.info("vit_digits")).also_fits is None
    )
