"""Networks of transformers without what those that are published have: projections, registers."""

import equinox as eqx
import numpy as np
import pytest
import torch
import transformers

import zoo as package

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
