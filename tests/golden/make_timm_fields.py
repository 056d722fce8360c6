"""Write `timm_fields.json`: fields of timm's `pretrained_cfg`, and arguments of its classes.

The classes are those whose files the zoo reads, and the arguments have their defaults. Run this
program in an environment with timm (1.0.31).
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

arguments = {
    timm_class.__name__: {
        name: argument.default if isinstance(argument.default, bool | int | float | str) else None
        for name, argument in [*signature(timm_class.__init__).parameters.items()][1:]
    }
    for timm_class in CLASSES
}
names = {"PretrainedCfg": dict.fromkeys(field.name for field in fields(PretrainedCfg))}
path = Path(__file__).with_name("timm_fields.json")
path.write_text(json.dumps(names | arguments, indent=1) + "\n")
