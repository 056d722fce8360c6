"""Rules of the sources that `lint-imports` cannot express.

What may import what is stated by the contracts of `[tool.importlinter]` in `pyproject.toml`.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGES = ("converter", "weights", "zoo")

RUNTIMES = {
    "ort",
    *(path.parent.name for path in (ROOT / "converter/targets").glob("*/__init__.py")),
} - {"portable", "standard"}
"""Names that only the targets may use: their own, and `ort`, the usual name of an import of ONNX
Runtime. The targets `portable` and `standard` are no runtimes."""

KNOW_A_RUNTIME = {
    *("converter/verify/sessions.py", "converter/model/verdict.py"),
    "converter/opsets.py",
}
"""Modules outside the targets that may name a runtime. They run files in ONNX Runtime and return
its results, or choose the default target."""


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def unparsed(path: Path) -> str:
    """Return the source of a file without comments."""
    return ast.unparse(parsed(path))


def modules(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each module that a file imports, at its top or inside a function, with the import
    statement."""
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Import(names=names):
                yield from ((node, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                names_or_modules = (f"{module}.{alias.name}" for alias in names)
                yield from (
                    (node, name if is_module(name) else module) for name in names_or_modules
                )


@cache
def is_module(name: str) -> bool:
    """Return whether a name is a module of this project, and not a name in one."""
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def files(package: str) -> list[Path]:
    """Return the Python files of a package."""
    paths = sorted((ROOT / package).rglob("*.py"))
    assert paths
    return paths


@pytest.mark.full
@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_short(package):
    """No file has more than 500 lines without its docstrings."""
    assert [path for path in files(package) if count_code_lines(path) > 500] == []


def count_code_lines(path):
    """Return the number of lines of a file outside its docstrings."""
    text = path.read_text()
    texts = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    return len(text.splitlines()) - sum(1 + node.end_lineno - node.lineno for node in texts)


ALLOWED_MODULES = {
    r"\b(multiprocessing|subprocess|ProcessPoolExecutor)\b": ("zoo/common/processes.py",),
    r"\bos\.(system|popen|fork|(spawn|exec|posix)\w+)\b": ("zoo/common/processes.py",),
    # photograph.py reads a picture of this package.
    r"\b(Image|pil)\.open\(": ("zoo/images/pictures.py", "zoo/images/photograph.py"),
    r"\bos\.f?d?open\(": ("weights/opening.py",),
    # Only opening.py reads users' files. The others read files of this package or of the kernel.
    r"open\('r|\.read_(text|bytes)\(|\bZipFile\(path\)|\bnp\.load\(path|\btarfile\.open\(\w+\)": (
        *("weights/opening.py", "zoo/export/timing/footprint.py", "zoo/export/timing/rounds.py"),
        *(
            "zoo/common/fonts.py",
            "zoo/artifacts/descriptions.py",
            "zoo/architectures/entry.py",
            "zoo/architectures/families/shared.py",
        ),
    ),
    r"\.(read|write)_text\((?!.*encoding)|open\('[rwa]'(?!.*encoding)": (
        *("zoo/export/timing/footprint.py", "zoo/export/timing/rounds.py"),
    ),
    r"(?<![\w.])print\(": ("zoo/common/terminal.py", "weights/progress.py"),
    r"\bimport onnxruntime\b": (
        *("zoo/common/runtime.py", "converter/verify/sessions.py"),
        "zoo/export/run_elsewhere.py",
    ),
}
"""Calls with which a user's input can do harm, as patterns, and the modules that may contain
them."""


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("pattern", ALLOWED_MODULES)
def test_dangerous_calls_are_in_few_modules(pattern, package):
    for path in files(package):
        match = re.search(pattern, unparsed(path))
        assert not match or path.relative_to(ROOT).as_posix() in ALLOWED_MODULES[pattern], (
            path,
            match,
        )


def _is_dtype(node: ast.expr) -> bool:
    """Return whether an expression is ``x.dtype``, ``dtype`` or ``np.dtype(…)``."""
    target = node.func if isinstance(node, ast.Call) else node
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "dtype" or name.endswith("_dtype")
    return False


@pytest.mark.parametrize("package", PACKAGES)
def test_dtypes_are_compared_by_value(package):
    """A dtype from a pickle equals numpy's dtype but is another object, so no module compares
    dtypes by identity."""
    for path in files(package):
        for node in ast.walk(parsed(path)):
            position = f"{path}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.Attribute(attr="isbuiltin" | "isnative" | "byteorder"):
                    pytest.fail(f"{position} distinguishes equal dtypes")
                case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[right]):
                    is_none = isinstance(right, ast.Constant) and right.value is None
                    assert is_none or not (_is_dtype(left) or _is_dtype(right)), position
                case ast.Call(func=ast.Name(id="id"), args=[value]):
                    assert not _is_dtype(value), position


@pytest.mark.parametrize("folder", ["zoo/registry", "zoo/images"])
def test_registry_and_images_import_no_jax(folder):
    """These packages know networks by their data. Functions that build a network import JAX when
    they are called."""
    pending, visited = [path for path in files(folder) if path.name != "in_graph.py"], set[Path]()
    while pending:
        path = pending.pop()
        visited.add(path)
        imported = {name for node, name in modules(path) if node in parsed(path).body}
        assert not {name.split(".")[0] for name in imported} & {"jax", "equinox"}, path
        imported_files = {(ROOT / name.replace(".", "/")).with_suffix(".py") for name in imported}
        pending += [file for file in imported_files - visited if file.is_file()]


@pytest.mark.full
@pytest.mark.parametrize("package", PACKAGES)
def test_module_names_are_unique(package):
    names = Counter(path.stem for path in files(package) if path.stem != "__init__")
    assert [name for name in names if names[name] > 1 and name != "__main__"] == []


DEFINITIONS = ast.ClassDef | ast.FunctionDef


@pytest.mark.parametrize(
    ("packages", "kinds"),
    [(("converter",), DEFINITIONS), (("weights", "zoo"), DEFINITIONS), (PACKAGES, ast.ClassDef)],
)
def test_public_names_are_unique(packages, kinds):
    """No two public definitions share a name, within a package or between `weights` and `zoo`, and
    no two classes do. In the converter a private name occurs at most twice, apart from `_`, the
    name of rules."""
    definitions = (
        node for package in packages for path in files(package) for node in parsed(path).body
    )
    names = Counter(node.name for node in definitions if isinstance(node, kinds))
    public = [name for name in names if not name.startswith("_") and name != "main"]
    assert [name for name in public if names[name] > 1] == []
    helpers = names.keys() - public - {"_", "main"} if packages == ("converter",) else ()
    assert [name for name in helpers if names[name] > 2] == []


KINDS = sorted(
    {path.parent.name for path in (ROOT / "zoo/architectures").glob("*/*_architecture.py")}
)
"""Folders of `zoo/architectures`, each with one kind of network or with related kinds."""


def test_no_module_outside_knows_a_kind_of_network():
    """Modules outside of `zoo/architectures` import no kind of network. They use the record of a
    configuration (`architecture_of`)."""
    assert len(KINDS) > 5
    folders = {f"zoo.architectures.{kind}" for kind in KINDS}
    for path in files("zoo"):
        if not path.is_relative_to(ROOT / "zoo/architectures"):
            imported = {
                module for _, module in modules(path) if module.rpartition(".")[0] in folders
            }
            assert not imported, path
            assert not _compared_kinds(path), path


def _compared_kinds(path: Path) -> list[str]:
    """Return the classes of kinds that a file names in `isinstance`, `issubclass` or `match`."""
    trees = (parsed(path) for kind in KINDS for path in files(f"zoo/architectures/{kind}"))
    bodies = (node for tree in trees for node in tree.body)
    classes = {node.name for node in bodies if isinstance(node, ast.ClassDef)}
    names = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            names += re.findall(r"\w+", ast.unparse(node.args[1]))
        elif isinstance(node, ast.MatchClass):
            names += re.findall(r"\w+", ast.unparse(node.cls))
    return [name for name in names if name in classes]


@pytest.mark.full
def test_only_targets_know_runtimes_by_name():
    """No identifier and no string outside of the targets names a runtime, apart from docstrings."""
    for path in files("converter"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("converter/targets/") and name not in KNOW_A_RUNTIME:
            named = [(line, text) for line, text in _words(path) if _named_runtimes(text)]
            assert not named, f"{path}: {named}"


def _words(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every identifier of a file and every string that is no docstring, with its line."""
    tree = parsed(path)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in docstrings:
            for _, value in ast.iter_fields(node):
                texts = value if isinstance(value, list) else [value]
                yield from (
                    (getattr(node, "lineno", 0), text) for text in texts if isinstance(text, str)
                )


def _named_runtimes(text: str) -> set[str]:
    """Return the runtimes that a text names, as in ``ort_value``, ``OpenVINO`` or ``ONNX Runtime's
    optimiser``."""
    joined = text.replace("ONNX Runtime", "OnnxRuntime")
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", joined)
    return {
        word for variant in (split, joined) for word in re.split(r"[^a-z]+", variant.lower())
    } & RUNTIMES
