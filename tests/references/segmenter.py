"""Meta's linear classifiers of DINOv2's patches, written in PyTorch on transformers' backbone.

The head is `BNHead` of facebookresearch/dinov2: it joins maps, and has a batch norm and
mmsegmentation's `cls_seg`, which is a convolution.
"""

import torch

from tests.references import Arrays, dinov2, running
from tests.references.running import Values
from weights.namings import mask_names
from zoo.models.config import SegmenterConfig


class Head(torch.nn.Module):
    """`decode_head`."""

    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.bn = torch.nn.BatchNorm2d(channels)
        self.conv_seg = torch.nn.Conv2d(channels, classes, 1)

    def forward(self, maps):
        return self.conv_seg(self.bn(torch.cat(maps, dim=1)))


def by_pytorch(config: SegmenterConfig, values: Values, image) -> Arrays:
    """Logits of the normed patches of the last blocks."""
    start, state = "decode_head.", running.file_state(mask_names.SEGMENTER, values)
    of_head = {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}
    head = Head(config.layers * config.dim, config.classes).eval()
    # It counts batches, for which the zoo has no use.
    head.load_state_dict({k: torch.from_numpy(v) for k, v in of_head.items()}, strict=False)
    body = {
        path.removeprefix("backbone."): value
        for path, value in values.items()
        if path.startswith("backbone.")
    }
    model = dinov2.transformers(config.backbone, body)
    grid = [side // config.stride for side in image.shape[1:]]
    with torch.no_grad():
        found = model(torch.from_numpy(image[None]), output_hidden_states=True)
        states = found.hidden_states[-config.layers :]
        patches = [model.layernorm(state)[:, 1:] for state in states]
        maps = [rows.mT.reshape(1, config.dim, *grid) for rows in patches]
        return {"logits": head(maps)[0].numpy()}


REFERENCES = {
    name: {"pytorch": by_pytorch}
    for name in ("dinov2_vits14_voc2012_linear", "dinov2_vits14_ade20k_ms")
}
