"""Meta's linear classifiers of DINOv2's patches, in PyTorch on transformers' backbone.

The head is `BNHead` of facebookresearch/dinov2. It concatenates maps and applies a batch norm and
mmsegmentation's `cls_seg`, which is a convolution.
"""

import torch

from tests.references import Arrays, dinov2, running
from tests.references.running import Values
from weights.namings import mask_names
from zoo.architectures.segmentation.segmentation_config import SegmenterConfig


class Head(torch.nn.Module):
    """The module `decode_head`."""

    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.bn = torch.nn.BatchNorm2d(channels)
        self.conv_seg = torch.nn.Conv2d(channels, classes, 1)

    def forward(self, maps):
        return self.conv_seg(self.bn(torch.cat(maps, dim=1)))


class Network(torch.nn.Module):
    """The head on the normed patches of the last blocks of transformers' backbone."""

    def __init__(self, config: SegmenterConfig, values: Values):
        super().__init__()
        prefix, state = "decode_head.", running.file_state(mask_names.SEGMENTER, values)
        head_state = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        self.config = config
        self.head = Head(config.layers * config.dim, config.classes).eval()
        # The batch norm also has a count of batches, which the zoo does not keep.
        tensors = {k: torch.from_numpy(v) for k, v in head_state.items()}
        self.head.load_state_dict(tensors, strict=False)
        backbone_values = {
            path.removeprefix("backbone."): value
            for path, value in values.items()
            if path.startswith("backbone.")
        }
        self.backbone = dinov2.transformers(config.backbone, backbone_values)

    def forward(self, pictures):
        """Return logits `[batch, classes, rows, columns]`."""
        rows, columns = (side // self.config.stride for side in pictures.shape[2:])
        output = self.backbone(pictures, output_hidden_states=True)
        states = output.hidden_states[-self.config.layers :]
        patches = [self.backbone.layernorm(state)[:, 1:] for state in states]
        shape = pictures.shape[0], self.config.dim, rows, columns
        return self.head([tokens.mT.reshape(shape) for tokens in patches])


def by_pytorch(config: SegmenterConfig, values: Values, image) -> Arrays:
    """Return the logits of one picture."""
    with torch.no_grad():
        return {"logits": Network(config, values)(torch.from_numpy(image[None]))[0].numpy()}


REFERENCES = {
    name: {"pytorch": by_pytorch}
    for name in ("dinov2_vits14_voc2012_linear", "dinov2_vits14_ade20k_ms")
}
