"""What a manifest states has the fields of what it is about: none is left out without a word."""

from dataclasses import fields

import pytest

from weights.tensors import Provenance
from zoo.architectures.entry import Licence
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.manifest.schema import StatedLicence, StatedWeights
from zoo.manifest.stated_preprocessing import StatedPreprocessing


@pytest.mark.parametrize(
    ("stated", "about", "more"),
    [
        (StatedLicence, Licence, set()),
        (StatedPreprocessing, Preprocessing, {"in_file"}),
        (StatedWeights, Provenance, {"is_published_file", "is_embedded_file"}),
    ],
)
def test_it_has_all_fields(stated, about, more):
    assert stated.model_fields.keys() == {each.name for each in fields(about)} | more
