"""What may import what: `zoo` ties `converter` and `weights` together, which ignore each other."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FORBIDDEN = {
    "converter": {"zoo", "weights", "onnx"},
    "weights": {"zoo", "converter", "onnx", "onnx_ir"},
    "zoo": {"onnx"},
}

ALLOWED = {"zoo/artifacts/audit/onnx_file.py": {"onnx"}}
"""The checker of ONNX itself, which judges files that may have come from elsewhere."""


def imports(path: Path) -> Iterator[str]:
    """Top-level packages that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.split(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.split(".")[0]


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        allowed = ALLOWED.get(path.relative_to(ROOT).as_posix(), set())
        assert not (FORBIDDEN[package] & set(imports(path))) - allowed, path
