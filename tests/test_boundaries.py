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
"""What only the targets know by name, and how one of them is usually imported; two are none."""

KNOW_A_RUNTIME = {
    *("converter/verify/sessions.py", "converter/model/verdict.py"),
    "converter/opsets.py",
}
"""Run files in ONNX Runtime and say what that gave, and say which runtime a file is for if nobody
asks for another.
"""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def unparsed(path: Path) -> str:
    """Its statements without comments."""
    return ast.unparse(parsed(path))


def modules(path: Path) -> Iterator[tuple[ast.stmt, str]]:
    """Every module that a file imports, at its top or inside a function, and where it does."""
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Import(names=names):
                yield from ((node, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                inner = (f"{module}.{alias.name}" for alias in names)
                yield from ((node, name if is_module(name) else module) for name in inner)


@cache
def is_module(name: str) -> bool:
    """Whether this is a module of ours and not something in one."""
    place = ROOT / name.replace(".", "/")
    return place.is_dir() or place.with_suffix(".py").is_file()


def files(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found
    return found


@pytest.mark.full
@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_short(package):
    assert [path for path in files(package) if len(path.read_text().splitlines()) > 500] == []


DOORS = {
    r"\b(multiprocessing|subprocess|ProcessPoolExecutor)\b": ("zoo/common/processes.py",),
    r"\bos\.(system|popen|fork|(spawn|exec|posix)\w+)\b": ("zoo/common/processes.py",),
    # The other reads a picture of this package.
    r"\b(Image|pil)\.open\(": ("zoo/images/pictures.py", "zoo/images/photograph.py"),
    r"\bos\.f?d?open\(": ("weights/opening.py",),
    # Files to be read; the others read this package's own, or the kernel's.
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
"""What can be touched by a stranger, as it is called, and who alone may."""


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("called", DOORS)
def test_dangers_have_one_door(called, package):
    for path in files(package):
        found = re.search(called, unparsed(path))
        assert not found or path.relative_to(ROOT).as_posix() in DOORS[called], (path, found)


def _is_dtype(node: ast.expr) -> bool:
    """``x.dtype``, ``dtype`` or ``np.dtype(…)``."""
    target = node.func if isinstance(node, ast.Call) else node
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "dtype" or name.endswith("_dtype")
    return False


@pytest.mark.parametrize("package", PACKAGES)
def test_dtypes_are_compared_by_value(package):
    """One that came out of a pickle equals numpy's own, and is another object."""
    for path in files(package):
        for node in ast.walk(parsed(path)):
            place = f"{path}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.Attribute(attr="isbuiltin" | "isnative" | "byteorder"):
                    pytest.fail(f"{place} asks which of equal dtypes it has")
                case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[right]):
                    none = isinstance(right, ast.Constant) and right.value is None
                    assert none or not (_is_dtype(left) or _is_dtype(right)), place
                case ast.Call(func=ast.Name(id="id"), args=[value]):
                    assert not _is_dtype(value), place


@pytest.mark.parametrize("room", ["zoo/registry", "zoo/images"])
def test_what_knows_networks_by_their_data(room):
    """No JAX is needed for that: functions that build a network import it when they are called."""
    asked, seen = [path for path in files(room) if path.name != "in_graph.py"], set[Path]()
    while asked:
        path = asked.pop()
        seen.add(path)
        first = {name for node, name in modules(path) if node in parsed(path).body}
        assert not {name.split(".")[0] for name in first} & {"jax", "equinox"}, path
        ours = {(ROOT / name.replace(".", "/")).with_suffix(".py") for name in first}
        asked += [each for each in ours - seen if each.is_file()]


@pytest.mark.full
@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_modules_of_one_name(package):
    names = Counter(path.stem for path in files(package) if path.stem != "__init__")
    assert [name for name in names if names[name] > 1 and name != "__main__"] == []


STATED = ast.ClassDef | ast.FunctionDef


@pytest.mark.parametrize(
    ("packages", "kinds"),
    [(("converter",), STATED), (("weights", "zoo"), STATED), (PACKAGES, ast.ClassDef)],
)
def test_names_are_found(packages, kinds):
    """Two public things never share one, of a package or two, nor do any two classes. `_` is a
    rule's own function; another helper's name is there twice at most in the converter."""
    stated = (node for package in packages for path in files(package) for node in parsed(path).body)
    names = Counter(node.name for node in stated if isinstance(node, kinds))
    public = [name for name in names if not name.startswith("_") and name != "main"]
    assert [name for name in public if names[name] > 1] == []
    helpers = names.keys() - public - {"_", "main"} if packages == ("converter",) else ()
    assert [name for name in helpers if names[name] > 2] == []


KINDS = sorted(
    {path.parent.name for path in (ROOT / "zoo/architectures").glob("*/*_architecture.py")}
)
"""Folders of `zoo/architectures`, each of one kind of network or of related kinds."""


def test_no_module_outside_knows_a_kind_of_network():
    """They ask the record of a configuration (`architecture_of`), and import no kind."""
    assert len(KINDS) > 5
    own = {f"zoo.architectures.{kind}" for kind in KINDS}
    for path in files("zoo"):
        if not path.is_relative_to(ROOT / "zoo/architectures"):
            known = {module for _, module in modules(path) if module.rpartition(".")[0] in own}
            assert not known, path
            assert not _asked_kinds(path), path


def _asked_kinds(path: Path) -> list[str]:
    """Classes of kinds that `isinstance` or `match` tell apart, however they came to be known."""
    stated = (parsed(each) for kind in KINDS for each in files(f"zoo/architectures/{kind}"))
    bodies = (node for tree in stated for node in tree.body)
    classes = {node.name for node in bodies if isinstance(node, ast.ClassDef)}
    asked = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked += re.findall(r"\w+", ast.unparse(node.args[1]))
        elif isinstance(node, ast.MatchClass):
            asked += re.findall(r"\w+", ast.unparse(node.cls))
    return [name for name in asked if name in classes]


@pytest.mark.full
def test_only_targets_know_runtimes_by_name():
    """Names of things and texts; docstrings may say why."""
    for path in files("converter"):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith("converter/targets/") and place not in KNOW_A_RUNTIME:
            told = [(line, text) for line, text in _words(path) if _named_runtimes(text)]
            assert not told, f"{path}: {told}"


def _words(path: Path) -> Iterator[tuple[int, str]]:
    """Every identifier of a file, and every string that is no docstring."""
    tree = parsed(path)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in alone:
            for _, value in ast.iter_fields(node):
                texts = value if isinstance(value, list) else [value]
                yield from ((getattr(node, "lineno", 0), x) for x in texts if isinstance(x, str))


def _named_runtimes(text: str) -> set[str]:
    """``ort_value``, ``OpenVINO``, ``ONNX Runtime's optimiser``."""
    one = text.replace("ONNX Runtime", "OnnxRuntime")
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", one)
    return {word for each in (apart, one) for word in re.split(r"[^a-z]+", each.lower())} & RUNTIMES
