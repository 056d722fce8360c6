"""Networks of transformers without what those that are published have: projections, registers."""

import json

import equinox as eqx
import numpy as np
import pytest
import torch
import transformers

import zoo as package
from weights.errors import MappingError

forward = eqx.filter_jit(lambda model, value: model(value))

SIZES = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
    "intermediate_size": 48,
}
PICTURES = {**SIZES, "image_size": 40, "patch_size": 8}
WORDS = {
    **{**SIZES, "vocab_size": 99, "max_position_embeddings": 16},
    **{"eos_token_id": 98, "bos_token_id": 97, "pad_token_id": 98},
}

TOWERS = {
    "CLIPVisionModel": ("clip", PICTURES),
    "CLIPTextModel": ("clip_text", WORDS),
    "SiglipVisionModel": ("siglip2", PICTURES),
    "SiglipTextModel": ("siglip2_text", WORDS),
    "DINOv3ViTModel": ("dinov3", {**SIZES, "patch_size": 8, "num_register_tokens": 0}),
    "Swinv2Model": (
        "swinv2",
        {"embed_dim": 12, "depths": [1, 2], "num_heads": [2, 3], "window_size": 3},
    ),
    "DeiTModel": ("deit", PICTURES),
}


@pytest.mark.parametrize("name", TOWERS)
def test_a_tower_of_its_own(name, tmp_path):
    family, settings = TOWERS[name]
    kind = getattr(transformers, name)
    torch.manual_seed(3)
    theirs = kind(kind.config_class(**settings)).eval()
    with torch.no_grad():
        for value in theirs.parameters():
            value.add_(0.2 * torch.randn_like(value))
    theirs.save_pretrained(tmp_path)
    if settings is WORDS:
        given = torch.tensor([[97, 5, 7, 9, 98, *[98] * 11]])
    else:
        given = torch.randn((1, 3, 32, 56), generator=torch.Generator().manual_seed(1))
    asks = settings is PICTURES
    with torch.no_grad():
        want = theirs(given, **({"interpolate_pos_encoding": True} if asks else {}))
    value = given[0].numpy()
    got = forward(
        package.from_pretrained(family, tmp_path),
        value.astype(np.int32) if settings is WORDS else value,
    )
    outputs = ("last_hidden_state", *(() if name == "DeiTModel" else ("pooler_output",)))
    for output in outputs:
        np.testing.assert_allclose(
            getattr(got, output), want[output][0], rtol=0, atol=2e-5, err_msg=output
        )


def test_windows_that_nobody_tells(zoo, tmp_path):
    settings = transformers.Swinv2Config(**TOWERS["Swinv2Model"][1])
    transformers.Swinv2Model(settings).save_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    said = zoo("export", "--weights", tmp_path, code=2).error
    assert 'no tensor tells how large its windows are. Write {"window_size": NUMBER' in said


def in_other_sizes(folder, **settings):
    """A classifier, as transformers saves it."""
    config = transformers.ViTConfig(**{**PICTURES, "num_labels": 3, **settings})
    transformers.ViTForImageClassification(config).save_pretrained(folder)


def test_four_channels(tmp_path):
    in_other_sizes(tmp_path, num_channels=4)
    with pytest.raises(MappingError, match="pictures of 4 channels"):
        package.from_pretrained("vit", tmp_path)


def test_a_grid_that_is_told_wrongly(tmp_path):
    in_other_sizes(tmp_path, image_size=(40, 56))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"image_size": [40, 64]}))
    with pytest.raises(MappingError, match="35 positions are of no square"):
        package.from_pretrained("vit", tmp_path)
