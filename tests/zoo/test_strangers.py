"""Whatever a stranger's file, manifest or catalogue is: an answer, or one sentence and exit code 2.

What is refused is refused before anything is written, by every command and function that reads it.
"""

import json
import random

import pytest

import zoo as package
from tests.files import changes, strangers
from weights.errors import WeightsError
from zoo.apps.embed.network import find_network
from zoo.apps.embed.row_columns import RowColumns
from zoo.apps.show.feature_figure import draw_features
from zoo.apps.show.features import compute_file_features
from zoo.apps.site.write import CATALOGUE, check_replaceable
from zoo.artifacts.read import entry_of_manifest, read_manifest
from zoo.cli.app import app
from zoo.cli.console import run_command
from zoo.cli.models_command import resolve_entry
from zoo.common.errors import WRONG_USE, BadFile, BadOutput, ZooError
from zoo.images.photograph import photograph
from zoo.images.pictures import pictures

NETWORKS, OTHERS = ("vit_digits", "depth_digits"), ("boxes_digits", "siglip_digits_dual")


def export(names, folder):
    for name in names:
        assert run_command(app, ["export", name, "--out", str(folder / f"{name}.onnx")], "zoo") == 0


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Small trained networks, each with its manifest."""
    folder = tmp_path_factory.mktemp("exported")
    export(NETWORKS, folder)
    return folder


@pytest.fixture(scope="module")
def others(exported):
    """Further ones beside them."""
    export(OTHERS, exported)
    return exported


def embedded(path, picture):
    network = find_network(str(path), "fp32")
    columns = RowColumns(network, "float32", ("best",) if "logits" in network.outputs else ())
    columns.check()
    return columns.schema()


READERS = {
    "call": lambda path, picture: package.load(str(path))([picture]),
    "answer": lambda path, picture: package.load(str(path)).answer([picture]),
    "classify": lambda path, picture: package.load(str(path)).classify([picture], ["a", "b"]),
    "image": lambda path, picture: package.load(str(path)).image([picture]),
    "text": lambda path, picture: package.load(str(path)).text(["a"]),
    "show": lambda path, picture: draw_features(
        compute_file_features(path, pictures([picture]), None)
    ),
    "embed": embedded,
    "info": lambda path, picture: resolve_entry(str(path)),
}


def outcomes(path, picture):
    """What becomes of a file in each reader; it is an answer or one sentence, or this raises."""
    for name, read in READERS.items():
        try:
            read(path, picture)
            yield name, ""
        except (ZooError, WeightsError) as error:
            said = str(error)
            assert said.isprintable() and len(said) < 1500, (name, said)
            yield name, said


def write(exported, folder, rng, change_file, change_manifest):
    """A network of which the file, or the manifest, or both are changed."""
    name = rng.choice([path.stem for path in sorted(exported.glob("*.onnx"))])
    path, beside = folder / f"{name}.onnx", folder / f"{name}.manifest.json"
    data = (exported / path.name).read_bytes()
    path.write_bytes(data if change_file is None else strangers.changed(rng, data, change_file))
    text = (exported / beside.name).read_bytes()
    beside.write_bytes(changes.table(rng, text) if change_manifest else text)
    return path


def test_sound_ones_are_read(exported):
    """Else nothing that is refused below would say anything."""
    said = dict(outcomes(exported / "vit_digits.onnx", photograph()))
    assert {name for name, why in said.items() if not why} >= {"call", "answer", "show", "embed"}
    assert not dict(outcomes(exported / "depth_digits.onnx", photograph()))["answer"]


@pytest.mark.parametrize("change", strangers.CHANGES, ids=lambda change: change.__name__)
def test_files_whose_outputs_do_not_fit(change, exported, tmp_path):
    rng = random.Random(change.__name__)
    said = dict(outcomes(write(exported, tmp_path, rng, change, False), photograph()))
    assert said.keys() == READERS.keys()


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_many_files_and_manifests(seed, others, tmp_path, pytestconfig):
    rng = random.Random(f"{pytestconfig.getoption('--seed')}/{seed}")
    for count in range(40):
        change = rng.choice(strangers.CHANGES) if count % 2 else None
        path = write(others, tmp_path, rng, change, change is None or rng.random() < 0.5)
        assert dict(outcomes(path, photograph())).keys() == READERS.keys()


def test_manifests_that_are_changed(exported, tmp_path):
    rng = random.Random(5)
    for _ in range(12):
        path = write(exported, tmp_path, rng, None, True)
        assert dict(outcomes(path, photograph())).keys() == READERS.keys()


SLOW = [pytest.param(name, marks=pytest.mark.full) for name in ("bench", "verify")]


@pytest.mark.parametrize("command", ["show", "run", *SLOW])
def test_commands_end_with_one_sentence(command, exported, zoo):
    """An output with an axis less was an IndexError, one with fewer tokens an empty reshape."""
    data = (exported / "vit_digits.onnx").read_bytes()
    beside = (exported / "vit_digits.manifest.json").read_bytes()
    photograph().save(zoo.here / "a.png")
    (zoo.here / "b.manifest.json").write_bytes(beside.replace(b"vit_digits.onnx", b"b.onnx"))
    for change in (strangers.summed, strangers.cut, strangers.renamed):
        (zoo.here / "b.onnx").write_bytes(strangers.changed(random.Random(2), data, change))
        words = ["b.onnx", "a.png"] if command in ("show", "run") else ["b.onnx"]
        code = run_command(app, [command, *words], "zoo")
        said = zoo.capsys.readouterr()
        assert "Traceback" not in said.err
        if command in ("show", "run"):
            assert code == WRONG_USE and said.err.count("error: ") == 1
            left = {path.name for path in zoo.here.iterdir()}
            assert left == {"a.png", "b.onnx", "b.manifest.json"}


def test_a_network_of_another_kind_than_its_family(exported):
    manifest = read_manifest(exported / "vit_digits.manifest.json")
    other = package.info("depth_anything_v2_vits")
    with pytest.raises(BadFile, match="another kind"):
        entry_of_manifest(manifest.with_changes(network=other.config, family="vit"))


BROKEN = ("null", "5", "[]", '"x"', '{"a": 1}', "[[1]]", "[null]", '["../x", 1]', "true", "1e400")


@pytest.mark.parametrize("files", BROKEN)
def test_a_site_whose_catalogue_is_broken_is_not_replaced(files, tmp_path):
    """`files` that are no list of names were a TypeError."""
    out = tmp_path / "site"
    out.mkdir()
    (out / CATALOGUE).write_text(f'{{"format": "jax-onnx-zoo site", "files": {files}}}')
    (out / "mine.txt").write_text("mine")
    with pytest.raises(BadOutput, match="belong to no site"):
        check_replaceable(out, force=True)
    assert (out / "mine.txt").read_text() == "mine"


def test_catalogues_that_are_changed(tmp_path):
    rng, out = random.Random(3), tmp_path / "site"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    sound = {"format": "jax-onnx-zoo site", "files": ["index.html"], "rows": [{"model": "a"}]}
    for _ in range(300):
        (out / CATALOGUE).write_bytes(changes.table(rng, json.dumps(sound).encode()))
        with pytest.raises(BadOutput):
            check_replaceable(out, force=True)
