"""Write `timm_fields.json`: the settings of timm's `pretrained_cfg`, and the arguments of the
classes whose files the zoo reads, with their defaults. Run it where timm (1.0.31) is.
"""

import json
from dataclasses import fields
from inspect import signature
from pathlib import Path

from timm.models import PretrainedCfg
from timm.models.convnext import ConvNeXt
from timm.models.eva import Eva
from timm.models.swin_transformer_v2 import SwinTransformerV2
from timm.models.vision_transformer import VisionTransformer

CLASSES = (VisionTransformer, Eva, ConvNeXt, SwinTransformerV2)

found = {
    kind.__name__: {
        name: argument.default if isinstance(argument.default, bool | int | float | str) else None
        for name, argument in [*signature(kind.__init__).parameters.items()][1:]
    }
    for kind in CLASSES
}
names = {"PretrainedCfg": dict.fromkeys(each.name for each in fields(PretrainedCfg))}
path = Path(__file__).with_name("timm_fields.json")
path.write_text(json.dumps(names | found, indent=1) + "\n")
