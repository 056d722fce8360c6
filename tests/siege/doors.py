"""Every command-line parameter that takes a path, with a command that uses it.

`{}` stands for the path. The list of parameters is compared with those of the commands.
"""

import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

import converter
import weights
import zoo
from zoo.cli.app import app

ZOO = typer.main.get_command(app)
PATHS = re.compile("FILE|DIR|FOLDER|PATH|SRC|DST|IMAGE|PICTURE|DATASET")
"""Names of values in the help that are paths."""


class PathCase(NamedTuple):
    """A command line with a path.

    `sound` is a path with which it succeeds, `suffix` the ending of paths, and `writes` whether the
    command writes the path.
    """

    line: str
    sound: str
    suffix: str = ""
    writes: bool = False

    def words(self, path: str) -> list[str]:
        """The arguments of the command with this path."""
        return [path if word == "{}" else word for word in shlex.split(self.line)]


def output_case(line: str, suffix: str = "") -> PathCase:
    """Return the case of a path that the command writes."""
    return PathCase(line, f"thing{suffix}", suffix, True)


OUT_NEW = "--out new"
EXPORT = "export vit_digits --no-verify"
GOLDEN_COMMAND = "golden vit_digits new.safetensors"
GOLDEN_WITH_WEIGHTS = f"{GOLDEN_COMMAND} --reference reference.npz --weights"
BUILD = "build vit_digits --variant fp32"
INT8, BUILD_INT8 = f"{EXPORT} --precision int8", "build vit_digits --variant int8"
EMBED = "embed pictures"
MODEL, FOLDER, DIGITS = "good.onnx", "built/vit_digits", "digits.safetensors"
TOWERS = "built/with_tokenizer"
ADAPTER = "adapter"
"""A folder with an adapter of peft for the weights `DIGITS`."""
DATASET = "digits.lance"
"""The dataset of the pictures in `pictures`, with thumbnails."""
GOLDEN_WITH_DIGITS = f"{GOLDEN_COMMAND} --weights {DIGITS}"
GOLDEN = f"{FOLDER}/golden.safetensors"
RUNTIME = "runtime"
PACKAGES = f"--runtime {RUNTIME} --transformers {RUNTIME}"
"""Options with the libraries that run models in pages, which npm has to download."""

DOORS = {
    "export --weights": PathCase(f"{EXPORT} {OUT_NEW} --weights {{}}", DIGITS),
    "export --base": PathCase(f"{EXPORT} {OUT_NEW} --weights {ADAPTER} --base {{}}", DIGITS),
    "build --base": PathCase(f"{BUILD} {OUT_NEW} --weights {ADAPTER} --base {{}}", DIGITS),
    "export --calibrate": PathCase(f"{INT8} {OUT_NEW} --calibrate {{}}", "pictures"),
    "export --out": output_case(f"{EXPORT} --out {{}}"),
    "verify FILE|DIR": PathCase("verify {}", FOLDER),
    "verify --weights": PathCase(f"verify {MODEL} --weights {{}}", DIGITS),
    "verify --base": PathCase(f"verify adapted.onnx --weights {ADAPTER} --base {{}}", DIGITS),
    "verify --onnx": PathCase(f"verify {GOLDEN} --onnx {{}}", MODEL),
    "verify --plot": output_case(f"verify {MODEL} --plot {{}}", ".png"),
    "show MODEL|FILE|FOLDER": PathCase("show {} photo.png --out new.png", MODEL, ".onnx"),
    "show IMAGE": PathCase("show vit_digits {} --out new.png", "photo.png", ".png"),
    "show --weights": PathCase("show vit_digits photo.png --out new.png --weights {}", DIGITS),
    "show --out": output_case("show vit_digits photo.png --out {}", ".png"),
    "info MODEL|FILE|FOLDER": PathCase("info {}", MODEL, ".onnx"),
    "run MODEL|FILE|FOLDER": PathCase("run {} photo.png --json", MODEL, ".onnx"),
    "run [PICTURE]...": PathCase("run vit_digits {} --json", "photo.png", ".png"),
    "run --weights": PathCase("run vit_digits photo.png --weights {}", DIGITS),
    "run --out": PathCase("run depth_digits photo.png --out {}", "new", writes=True),
    "bench FILE": PathCase("bench {} --rounds 1", MODEL, ".onnx"),
    "bench --plot": output_case(f"bench {MODEL} --rounds 1 --plot {{}}", ".png"),
    "pull --out": output_case("pull dinov3_vits16 --variant fp32 --out {}"),
    "build --weights": PathCase(f"{BUILD} {OUT_NEW} --weights {{}}", DIGITS),
    "build --calibrate": PathCase(f"{BUILD_INT8} {OUT_NEW} --calibrate {{}}", "pictures"),
    "build --out": output_case(f"{BUILD} --out {{}}"),
    "embed --model": PathCase(f"{EMBED} --model {{}} --out new.lance", FOLDER),
    "embed --out": output_case(f"{EMBED} --model {FOLDER} --out {{}}", ".lance"),
    "site FOLDER": PathCase(f"site {{}} {OUT_NEW} {PACKAGES}", FOLDER),
    "site --out": output_case(f"site {FOLDER} --out {{}} {PACKAGES}"),
    "site --runtime": PathCase(
        f"site {FOLDER} {OUT_NEW} --transformers {RUNTIME} --runtime {{}}", RUNTIME
    ),
    "site --transformers": PathCase(
        f"site {TOWERS} {OUT_NEW} --runtime {RUNTIME} --transformers {{}}", RUNTIME
    ),
    "site --dataset": PathCase(f"site {FOLDER} {OUT_NEW} {PACKAGES} --dataset {{}}", DATASET),
    "search DATASET": PathCase("search {} photo.png --json", DATASET),
    "search IMAGE": PathCase(f"search {DATASET} {{}} --json", "photo.png", ".png"),
    "search --model": PathCase(f"search {DATASET} photo.png --model {{}}", FOLDER),
    "search --pictures": PathCase(
        f"search {DATASET} photo.png --out new.png --pictures {{}}", "pictures"
    ),
    "search --out": output_case(f"search {DATASET} photo.png --out {{}}", ".png"),
    "push DIR": PathCase("push {} --repo somebody/thing --dry-run", FOLDER),
    "weights inspect SRC": PathCase("weights inspect {}", DIGITS),
    "weights convert SRC": PathCase("weights convert {} new.eqx", DIGITS),
    "weights convert --base": PathCase(f"weights convert {ADAPTER} new.eqx --base {{}}", DIGITS),
    "weights inspect --base": PathCase(f"weights inspect {ADAPTER} --base {{}}", DIGITS),
    "weights convert DST": output_case(f"weights convert {DIGITS} {{}}", ".eqx"),
    "weights download --out": output_case("weights download dinov3_vits16 --out {}"),
    "golden DST": output_case("golden vit_digits {}", ".pth"),
    "golden --weights": PathCase(f"{GOLDEN_WITH_WEIGHTS} {{}}", DIGITS),
    "golden --image": PathCase(f"{GOLDEN_WITH_WEIGHTS} {DIGITS} --image {{}}", "photo.png", ".png"),
    "golden --reference": PathCase(
        f"{GOLDEN_WITH_DIGITS} --reference {{}}", "reference.npz", ".npz"
    ),
}


CONVERSION = "model = converter.to_onnx(lambda x: x + 1, [(3,)]).model"
SAVING = "converter.save(model, path)"
"""`converter.save` replaces files, as other libraries do, so it is tried on free paths only."""

FUNCTIONS = {
    "zoo.embed": "zoo.embed('pictures', model=path, out='new.lance')",
    "zoo.load": "zoo.load('dinov3_vits16', folder=path)",
    "zoo.from_pretrained": "zoo.from_pretrained('vit_digits', path)",
    "zoo.to_onnx": "zoo.to_onnx(zoo.create('vit_digits'), path, verify=False)",
    "zoo.preprocess": "zoo.preprocess('vit_digits', path)",
    "zoo.search": "zoo.search('digits.lance', path)",
    "weights.open_checkpoint": "weights.open_checkpoint(pathlib.Path(path))",
    "converter.session": "converter.session(path)",
    "converter.run": "converter.run(path, [])",
    "converter.check": "converter.check(path, lambda x: x, [1.0])",
    "converter.to_onnx": "os.path.lexists(path) or converter.to_onnx(abs, [(3,)], path=path)",
    "converter.save": f"{CONVERSION}; os.path.lexists(path) or {SAVING}",
}
"""A call with `path` of every public function that takes a path."""

PROGRAM = """
import os, pathlib, sys, weights, zoo, converter
from converter.errors import ConverterError
from weights.errors import WeightsError
from zoo.common.terminal import print_stderr
from zoo.common.errors import ZooError
from zoo.common.runtime import ERRORS

path = sys.argv[2]
try:
    {}
except (ConverterError, WeightsError, ZooError, OSError, *ERRORS) as error:
    print_stderr("error: " + str(error).strip().splitlines()[0] + ".")
    sys.exit(2)
"""
"""A program that calls a function and prints the errors that it is documented to raise."""


def functions_with_paths() -> Iterator[str]:
    """Yield the names of public functions with a parameter whose type is a path."""
    for module in (zoo, weights, converter):
        for name in module.__all__:
            member = getattr(module, name)
            hints = getattr(member, "__annotations__", {}) if inspect.isfunction(member) else {}
            if any("Path" in str(hint) for key, hint in hints.items() if key != "return"):
                yield f"{module.__name__}.{name}"


def parameters_with_paths(command: Any = ZOO, names: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the parameters of commands that take paths, with the names of `DOORS`."""
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from parameters_with_paths(subcommand, (*names, name))
    for parameter in command.params:
        metavar = parameter.metavar or ""
        if PATHS.search(metavar.replace("PATTERN", "")):
            options = [opt for opt in parameter.opts if opt.startswith("--")]
            yield " ".join((*names, *(options[:1] or [metavar])))
