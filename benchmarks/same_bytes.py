"""sha256 of eight exports that between them use every part of the converter and of the networks.

    python benchmarks/same_bytes.py > before.txt     # then change something
    python benchmarks/same_bytes.py | diff before.txt -

The same code, libraries and machine give the same bytes.
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from zoo.cli.app import app
from zoo.cli.console import call

EXPORTS = (
    "dinov3_vits16 --weights random --opset 18,23",
    "dinov3_convnext_tiny --weights random",
    "dinov2_vits14_reg --weights random --size dynamic --layers last2",
    "siglip2_vitb16_224 --weights random:3 --opset 20",
    "vit5_small --weights random:3 --attention-layout 3d",
    "vit_digits --precision int8",
    "vit_digits --precision fp16 --input uint8 --opset 18",
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for options in EXPORTS:
            with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
                code = call(app, ["export", *options.split(), "--no-verify", "--out", folder])
            if code:
                raise SystemExit(code)
        for path in sorted(Path(folder).glob("*.onnx")):
            print(hashlib.sha256(path.read_bytes()).hexdigest(), "", path.name)


if __name__ == "__main__":
    main()
