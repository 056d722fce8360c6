"""Every place on the command line that takes a path, and a line that reaches it.

`{}` is the path. Which parameters there are is asked of the commands themselves.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

import converter
import weights
import zoo
from zoo.cli.app import app

PATHS = re.compile("FILE|DIR|FOLDER|PATH|SRC|DST|IMAGE")
"""What the help calls a value that is a path."""


class Door(NamedTuple):
    """A line, what the names of its paths end in, and whether it writes there."""

    line: str
    suffix: str = ""
    writes: bool = False


NEW = "--out new"
EXPORT = "export vit_digits --no-verify"
GOLDEN = "golden make vit_digits new.safetensors --weights digits.safetensors"
BUILD = "build vit_digits --variant fp32"

DOORS = {
    "export --weights": Door(f"{EXPORT} {NEW} --weights {{}}"),
    "export --out": Door(f"{EXPORT} --out {{}}", writes=True),
    "verify FILE|DIR": Door("verify {}"),
    "verify --weights": Door("verify good.onnx --weights {}"),
    "verify --plot": Door("verify good.onnx --plot {}", ".png", writes=True),
    "show MODEL|FILE": Door("show {} photo.png --out new.png", ".onnx"),
    "show IMAGE": Door("show vit_digits {} --out new.png", ".png"),
    "show --weights": Door("show vit_digits photo.png --out new.png --weights {}"),
    "show --out": Door("show vit_digits photo.png --out {}", ".png", writes=True),
    "bench FILE": Door("bench {} --rounds 1", ".onnx"),
    "bench --plot": Door("bench good.onnx --rounds 1 --plot {}", ".png", writes=True),
    "pull --out": Door("pull dinov3_vits16 --variant fp32 --out {}", writes=True),
    "build --weights": Door(f"{BUILD} {NEW} --weights {{}}"),
    "build --out": Door(f"{BUILD} --out {{}}", writes=True),
    "site FOLDER": Door(f"site {{}} {NEW} --runtime built"),
    "site --out": Door("site built/vit_digits --out {} --runtime built", writes=True),
    "site --runtime": Door(f"site built/vit_digits {NEW} --runtime {{}}"),
    "push DIR": Door("push {} --repo somebody/thing --dry-run"),
    "report --weights-dir": Door("report --weights-dir {} --out new.md"),
    "report --images": Door("report --weights-dir checkpoint --out new.md --images {}"),
    "report --out": Door("report --weights-dir checkpoint --out {}", ".md", writes=True),
    "weights inspect SRC": Door("weights inspect {}"),
    "weights convert SRC": Door("weights convert {} new.eqx"),
    "weights convert DST": Door("weights convert digits.safetensors {}", ".eqx", writes=True),
    "weights download --out": Door("weights download dinov3_vits16 --out {}", writes=True),
    "golden make DST": Door("golden make vit_digits {}", ".pth", writes=True),
    "golden make --weights": Door("golden make vit_digits new.safetensors --weights {}"),
    "golden make --image": Door(f"{GOLDEN} --image {{}}", ".png"),
    "golden make --reference": Door(f"{GOLDEN} --reference {{}}", ".npz"),
    "golden check FILE": Door("golden check {} --onnx good.onnx"),
    "golden check --weights": Door("golden check built/vit_digits/golden.safetensors --weights {}"),
    "golden check --onnx": Door("golden check built/vit_digits/golden.safetensors --onnx {}"),
}


CONVERTED = "model = converter.to_onnx(lambda x: x + 1, [(3,)]).model"
SAVED = "converter.save(model, path)"
"""As other libraries do, it replaces what is there; so it is given only what is not."""

FUNCTIONS = {
    "zoo.load": "zoo.load('dinov3_vits16', folder=path)",
    "zoo.from_pretrained": "zoo.from_pretrained('vit_digits', path)",
    "zoo.to_onnx": "zoo.to_onnx(zoo.create('vit_digits'), path, verify=False)",
    "zoo.preprocess": "zoo.preprocess('vit_digits', path)",
    "weights.open_checkpoint": "weights.open_checkpoint(pathlib.Path(path))",
    "converter.session": "converter.session(path)",
    "converter.run": "converter.run(path, [])",
    "converter.check": "converter.check(path, lambda x: x, [1.0])",
    "converter.to_onnx": "os.path.lexists(path) or converter.to_onnx(abs, [(3,)], path=path)",
    "converter.save": f"{CONVERTED}; os.path.lexists(path) or {SAVED}",
}
"""Every public function that takes a path, called with one."""

PROGRAM = """
import os, pathlib, sys, weights, zoo, converter
from converter.errors import ConverterError
from weights.errors import WeightsError
from weights.terminal import complain
from zoo.errors import ZooError
from zoo.runtime import ERRORS

path = sys.argv[2]
try:
    {}
except (ConverterError, WeightsError, ZooError, OSError, *ERRORS) as error:
    complain("error: " + str(error).strip().splitlines()[0] + ".")
    sys.exit(2)
"""
"""What a program does with what it expects a function to raise."""


def functions() -> Iterator[str]:
    """Every public function with a parameter that is a path by its type."""
    for module in (zoo, weights, converter):
        for name in module.__all__:
            found = getattr(module, name)
            hints = getattr(found, "__annotations__", {}) if inspect.isfunction(found) else {}
            if any("Path" in str(hint) for key, hint in hints.items() if key != "return"):
                yield f"{module.__name__}.{name}"


def parameters() -> Iterator[str]:
    """Every parameter of a command that takes a path, as `DOORS` call it."""
    yield from _parameters(typer.main.get_command(app), ())


def _parameters(command: Any, names: tuple[str, ...]) -> Iterator[str]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _parameters(inner, (*names, name))
    for parameter in command.params:
        metavar = parameter.metavar or ""
        if PATHS.search(metavar.replace("PATTERN", "")):
            options = [opt for opt in parameter.opts if opt.startswith("--")]
            yield " ".join((*names, *(options[:1] or [metavar])))
