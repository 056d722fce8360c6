"""Examples in docstrings of public names run and give the stated output, and docstrings start with
a verb or a noun."""

import ast
import doctest
import shutil
from pathlib import Path

import equinox as eqx
import jax
import pytest

import converter
import weights
import zoo
from zoo.images.photograph import photographs

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
NEITHER_VERB_NOR_NOUN = {
    *("What", "Whose", "Those", "Of", "Which", "So", "For", "In", "On", "By", "That", "With", "As"),
    *("Nothing", "From"),
}

ELSEWHERE = {
    "zoo.load": "needs a hub: tests/test_readme.py loads from one",
    "zoo.embed": "needs a thousand pictures: tests/zoo/apps/embed has some",
    "zoo.search": "needs a dataset: tests/zoo/apps/embed makes them",
}
"""Public names whose examples do not run here, with the reason and the tests that run them."""


def examples():
    """Yield the examples of the packages and of every public name."""
    finder = doctest.DocTestFinder(exclude_empty=True, recurse=False)
    for package in (converter, weights, zoo):
        public = {f"{package.__name__}.{name}": getattr(package, name) for name in package.__all__}
        for name, documented in ({package.__name__: package} | public).items():
            if not isinstance(documented, str):
                yield from finder.find(documented, name, module=False, globs={})


EXAMPLES = {example.name: example for example in examples() if example.examples}


def test_the_examples_are_known():
    assert {"converter", "zoo", "zoo.from_pretrained", "zoo.to_onnx"} | set(ELSEWHERE) <= set(
        EXAMPLES
    )


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(ELSEWHERE)))
def test_an_example_runs(name, vits16, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZOO_WEIGHTS_DIR", str(vits16.path.parent))
    for file, picture in zip(("cat.png", "dog.png"), photographs(2), strict=True):
        picture.save(file)
    Path("finetuned").mkdir()
    shutil.copy(ROOT / "zoo/data/vit_digits.safetensors", "finetuned/model.safetensors")
    digits = zoo.from_pretrained("vit_digits")
    eqx.tree_serialise_leaves("digits.eqx", digits)
    model = eqx.nn.Conv2d(3, 4, 16, stride=16, key=jax.random.key(0))
    example = EXAMPLES[name]
    example.globs = {"converter": converter, "eqx": eqx, "jax": jax, "model": model, "zoo": zoo}
    printed: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert result.failed == 0 and result.attempted == len(example.examples), "".join(printed)


@pytest.mark.parametrize("package", ["converter", "weights", "zoo"])
def test_a_docstring_starts_with_a_verb_or_a_noun(package):
    wrong = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kinds = (ast.FunctionDef, ast.ClassDef)
            if not isinstance(node, kinds) or node.name.startswith("_"):
                continue
            words = (ast.get_docstring(node) or "").split()
            if words and words[0] in NEITHER_VERB_NOR_NOUN:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {' '.join(words[:6])}")
    assert not wrong
