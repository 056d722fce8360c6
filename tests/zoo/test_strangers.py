"""Changed ONNX files, manifests and catalogues of sites, in every command and function that reads
them.

A reader has to return an answer, or to refuse the file in one sentence (in a command with exit
code 2) before it writes anything.
"""

import json
import random

import pytest

import zoo as package
from tests.command import call_zoo
from tests.files import changes, strangers
from weights.errors import WeightsError
from zoo.apps.embed.network import find_network
from zoo.apps.embed.row_columns import RowColumns
from zoo.apps.show.feature_figure import draw_features
from zoo.apps.show.features import compute_file_features
from zoo.apps.site.write import CATALOGUE, check_replaceable
from zoo.artifacts.read import entry_of_manifest, read_manifest
from zoo.cli.models_command import resolve_entry
from zoo.common.errors import WRONG_USE, BadFile, BadOutput, ZooError
from zoo.images.photograph import photograph
from zoo.images.pictures import pictures

FIRST_NETWORKS, MORE_NETWORKS = (
    ("vit_digits", "depth_digits"),
    ("boxes_digits", "siglip_digits_dual"),
)


def export_networks(names, folder):
    for name in names:
        assert call_zoo("export", name, "--out", folder / f"{name}.onnx") == 0


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with small trained networks and their manifests."""
    folder = tmp_path_factory.mktemp("exported")
    export_networks(FIRST_NETWORKS, folder)
    return folder


@pytest.fixture(scope="module")
def all_exported(exported):
    """The same folder with further networks."""
    export_networks(MORE_NETWORKS, exported)
    return exported


def read_for_embedding(path, picture):
    """Return the columns that `zoo embed` would write with this network."""
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
    "embed": read_for_embedding,
    "info": lambda path, picture: resolve_entry(str(path)),
}


def read_everywhere(path, picture):
    """Read a file with every reader. Yield the name of the reader and its error, or an empty text.

    Any other exception than an error of the packages is raised, as a fault.
    """
    for name, read in READERS.items():
        try:
            read(path, picture)
            yield name, ""
        except (ZooError, WeightsError) as error:
            message = str(error)
            assert message.isprintable() and len(message) < 1500, (name, message)
            yield name, message


def write_changed(exported, folder, rng, change_file, change_manifest):
    """Write a random network with a changed file, a changed manifest, or both. Return its path."""
    name = rng.choice([path.stem for path in sorted(exported.glob("*.onnx"))])
    path, manifest = folder / f"{name}.onnx", folder / f"{name}.manifest.json"
    data = (exported / path.name).read_bytes()
    path.write_bytes(data if change_file is None else strangers.change_file(rng, data, change_file))
    text = (exported / manifest.name).read_bytes()
    manifest.write_bytes(changes.change_json(rng, text) if change_manifest else text)
    return path


def test_unchanged_files_are_read(exported):
    """Without this, the refusals of the other tests would show nothing."""
    errors = dict(read_everywhere(exported / "vit_digits.onnx", photograph()))
    assert {name for name, error in errors.items() if not error} >= {
        "call",
        "answer",
        "show",
        "embed",
    }
    assert not dict(read_everywhere(exported / "depth_digits.onnx", photograph()))["answer"]


@pytest.mark.parametrize("change", strangers.CHANGES, ids=lambda change: change.__name__)
def test_files_whose_outputs_do_not_fit(change, exported, tmp_path):
    rng = random.Random(change.__name__)
    errors = dict(
        read_everywhere(write_changed(exported, tmp_path, rng, change, False), photograph())
    )
    assert errors.keys() == READERS.keys()


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_many_changed_files_and_manifests(seed, all_exported, tmp_path, pytestconfig):
    rng = random.Random(f"{pytestconfig.getoption('--seed')}/{seed}")
    for count in range(40):
        change = rng.choice(strangers.CHANGES) if count % 2 else None
        path = write_changed(
            all_exported, tmp_path, rng, change, change is None or rng.random() < 0.5
        )
        assert dict(read_everywhere(path, photograph())).keys() == READERS.keys()


def test_changed_manifests(exported, tmp_path):
    rng = random.Random(5)
    for _ in range(12):
        path = write_changed(exported, tmp_path, rng, None, True)
        assert dict(read_everywhere(path, photograph())).keys() == READERS.keys()


SLOW = [pytest.param(name, marks=pytest.mark.full) for name in ("bench", "verify")]


@pytest.mark.parametrize("command", ["show", "run", *SLOW])
def test_commands_end_with_one_sentence(command, exported, zoo):
    """An output without an axis once raised an IndexError, one with too few tokens failed in
    `reshape`."""
    data = (exported / "vit_digits.onnx").read_bytes()
    manifest = (exported / "vit_digits.manifest.json").read_bytes()
    photograph().save(zoo.here / "a.png")
    (zoo.here / "b.manifest.json").write_bytes(manifest.replace(b"vit_digits.onnx", b"b.onnx"))
    for change in (strangers.summed, strangers.cut, strangers.renamed):
        (zoo.here / "b.onnx").write_bytes(strangers.change_file(random.Random(2), data, change))
        arguments = ["b.onnx", "a.png"] if command in ("show", "run") else ["b.onnx"]
        code = call_zoo(command, *arguments)
        printed = zoo.capsys.readouterr()
        assert "Traceback" not in printed.err
        if command in ("show", "run"):
            assert code == WRONG_USE and printed.err.count("error: ") == 1
            names = {path.name for path in zoo.here.iterdir()}
            assert names == {"a.png", "b.onnx", "b.manifest.json"}


def test_a_network_of_another_kind_than_its_family(exported):
    manifest = read_manifest(exported / "vit_digits.manifest.json")
    depth = package.info("depth_anything_v2_vits")
    with pytest.raises(BadFile, match="another kind"):
        entry_of_manifest(manifest.with_changes(network=depth.config, family="vit"))


WRONG_FILES = (
    "null",
    "5",
    "[]",
    '"x"',
    '{"a": 1}',
    "[[1]]",
    "[null]",
    '["../x", 1]',
    "true",
    "1e400",
)


@pytest.mark.parametrize("files", WRONG_FILES)
def test_a_site_whose_catalogue_is_broken_is_not_replaced(files, tmp_path):
    """`files` that are no list of names once raised a TypeError."""
    out = tmp_path / "site"
    out.mkdir()
    (out / CATALOGUE).write_text(f'{{"format": "jax-onnx-zoo site", "files": {files}}}')
    (out / "mine.txt").write_text("mine")
    with pytest.raises(BadOutput, match="belong to no site"):
        check_replaceable(out, force=True)
    assert (out / "mine.txt").read_text() == "mine"


def test_changed_catalogues(tmp_path):
    rng, out = random.Random(3), tmp_path / "site"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    sound = {"format": "jax-onnx-zoo site", "files": ["index.html"], "rows": [{"model": "a"}]}
    for _ in range(300):
        (out / CATALOGUE).write_bytes(changes.change_json(rng, json.dumps(sound).encode()))
        with pytest.raises(BadOutput):
            check_replaceable(out, force=True)
