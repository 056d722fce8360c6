"""dino.txt in PyTorch, on a backbone of transformers, with the tensor names of Meta's file.

It was written from `dinov3/eval/text` and `dinov3/layers` of facebookresearch/dinov3. A token of a
text attends only to itself and to earlier tokens. The token with the greatest number represents the
text. Blocks on top of the backbone have gated feed-forward layers and no rotary positions.
"""

import torch
from torch import nn
from torch.nn import functional

from tests.references import dinov3
from tests.references.running import Values, file_state
from weights.namings import tower_names
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.vit.vit_config import ViTConfig


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, causal: bool):
        super().__init__()
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        batch, tokens, dim = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, dim // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.proj(out.transpose(1, 2).reshape(batch, tokens, dim))


class FeedForward(nn.Module):
    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(functional.gelu(self.fc1(x)))


class Gated(nn.Module):
    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.w1, self.w2 = nn.Linear(dim, hidden), nn.Linear(dim, hidden)
        self.w3 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.w3(functional.silu(self.w1(x)) * self.w2(x))


class TextBlock(nn.Module):
    def __init__(self, config: TextConfig):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.attention = Attention(config.dim, config.heads, causal=True)
        self.feed_forward = FeedForward(config.dim, config.hidden)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Scale(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * self.gamma


class TopBlock(nn.Module):
    def __init__(self, config: ViTConfig):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.attn = Attention(config.dim, config.heads, causal=False)
        self.mlp = Gated(config.dim, config.head_blocks.hidden)
        self.ls1, self.ls2 = Scale(config.dim), Scale(config.dim)

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class Words(nn.Module):
    def __init__(self, config: TextConfig):
        super().__init__()
        self.token_embedding = nn.Embedding(config.vocabulary, config.dim)
        self.positional_embedding = nn.Parameter(torch.empty(config.tokens, config.dim))
        self.blocks = nn.Sequential(*(TextBlock(config) for _ in range(config.depth)))
        self.ln_final = nn.LayerNorm(config.dim)

    def forward(self, ids):
        return self.ln_final(self.blocks(self.token_embedding(ids) + self.positional_embedding))


class DinoTxt(nn.Module):
    """The network, on a backbone that is not among its own tensors."""

    def __init__(self, config: DualConfig, backbone: nn.Module):
        super().__init__()
        vision, words = config.vision, config.words
        top = nn.Module()
        top.blocks = nn.Sequential(*(TopBlock(vision) for _ in range(vision.head_blocks.depth)))
        top.ln_final = nn.LayerNorm(vision.dim)
        self.visual_model, self.text_model = nn.Module(), nn.Module()
        self.visual_model.head = top
        self.text_model.backbone, self.text_model.head = Words(words), nn.Module()
        head = nn.Linear(words.dim, words.projection, bias=False)
        self.text_model.head.linear_projection = head
        self.logit_scale = nn.Parameter(torch.empty(1))
        # In a tuple the backbone is no submodule, so that its tensors have no names here, as in
        # Meta's file.
        self.backbones, self.prefix = (backbone,), vision.prefix_tokens

    def texts(self, ids):
        """Return the normed tokens and the vectors of texts."""
        tokens = self.text_model.backbone(ids)
        ends = self.text_model.head.linear_projection(tokens)[range(len(ids)), ids.argmax(-1)]
        return tokens, ends

    def images(self, pixels):
        """Return the normed tokens and the vectors of pictures."""
        top = self.visual_model.head
        tokens = top.ln_final(top.blocks(self.backbones[0](pixels).last_hidden_state))
        return tokens, torch.cat([tokens[:, 0], tokens[:, self.prefix :].mean(1)], -1)

    def forward(self, pixels, ids):
        image, text = (
            functional.normalize(vectors, dim=-1)
            for vectors in (self.images(pixels)[1], self.texts(ids)[1])
        )
        logits = self.logit_scale.exp() * image @ text.T
        logits_by_name = {"logits_per_image": logits, "logits_per_text": logits.T}
        return logits_by_name | {"text_embeds": text, "image_embeds": image}


def both(config: DualConfig, values: Values) -> DinoTxt:
    """Return the network with the zoo's leaves, in which every tensor of Meta's file is loaded."""
    vision_values = {
        path.removeprefix("vision."): values[path] for path in values if "vision." in path
    }
    backbone_values = {
        path: value for path, value in vision_values.items() if not path.startswith("head_")
    }
    model = DinoTxt(config, dinov3.transformers(config.vision, backbone_values))
    model.load_state_dict(
        {
            key: torch.from_numpy(value)
            for key, value in file_state(tower_names.DINOTXT_DUAL, values).items()
            if not key.startswith("visual_model.backbone.")
        }
    )
    return model.eval()
