"""Measure how fast `zoo embed` is, against its network alone, a plain loop, and torch's DataLoader.

python benchmarks/embed.py --pictures 3000 [--rounds 12] [--folder FOLDER] python
benchmarks/embed.py --pictures 2400 --changes [--folder FOLDER] python benchmarks/embed.py
--pictures 200 --network [--rounds 5] [--folder FOLDER]

Seeded JPEGs with sides of 64 to 2,000 pixels are drawn. In each round the methods run in turns on
one share of the pictures: `zoo embed` on all of them, from the start to the finished dataset, the
others on some. A ratio compares methods of the same round, which ran within seconds of each other.
The median of the rounds counts. The network is DINOv3 ViT-S/16 with random weights, built into a
folder once.

With `--changes`, a twelfth of the pictures is set aside at first. Then a twelfth is removed, a
twelfth is replaced and a twelfth is added. `vit_digits` embeds the folder again into the same
dataset, and into a new one. Both must have the same rows.

With `--network`, `zoo embed` is compared with its network alone on the same pictures. These are
decoded and resized before, and run one at a time, as many at once as there are cores, just before
and just after `zoo embed` in each round. Reading and decoding are measured alone too. On a CPU they
take processor time from the network. So no program can reach a larger share of the network's
throughput than the network's share of the total processor time, which is printed as the bound.
Processor time counts only the work of this process, so other programs disturb it less than
wall-clock time. The networks are `vit_digits` on pictures of digits, and DINOv3 ViT-S/16 in int8.
"""

import argparse
import hashlib
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lance
import numpy as np
import torch
from PIL import Image
from transformers import DINOv3ViTConfig, DINOv3ViTModel

import zoo
from zoo.apps.embed.network import Runner, find_network, lane_session
from zoo.apps.embed.requests import EmbedResult
from zoo.architectures.inputs import Feeds
from zoo.cli.app import app
from zoo.cli.console import run_command
from zoo.common.runtime import NO_SPINNING, open_session
from zoo.data.digits.data import load_digits
from zoo.images.pictures import pictures, read_picture

MODEL = "dinov3_vits16"
BATCHES = 1, 8, 32
PRECISIONS = "fp32", "int8"
EXACT_PICTURES = 60
"""Number of pictures that are embedded with every combination of settings."""

START_RUNS = 3
"""Number of runs of the command. The fastest counts."""

PIECE_PICTURES = 16
"""Number of pictures that a thread takes at once when a part is measured alone."""

SAMPLE_PICTURES = 96
"""Number of pictures that the slower methods get in a round."""


def draw_pictures(folder: Path, count: int, seed: int = 0) -> list[Path]:
    """Write JPEGs of areas, edges and noise, and return their paths. The logarithms of the sides
    are uniformly distributed."""
    random, paths = np.random.default_rng(seed), []
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        height, width = np.exp(random.uniform(np.log(64), np.log(2000), 2)).astype(int)
        coarse = random.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), np.uint8)
        fine = random.normal(128, 12, (height // 2 + 1, width // 2 + 1, 3)).clip(0, 255)
        path = folder / f"{index:06d}.jpg"
        paths.append(path)
        if path.exists():
            continue
        areas = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        noise = Image.fromarray(fine.astype(np.uint8)).resize((width, height))
        sum_ = np.asarray(areas, np.int16) + np.asarray(noise, np.int16) - 128
        Image.fromarray(sum_.clip(0, 255).astype(np.uint8)).save(path, quality=88)
    return paths


def build_folder(model: str, folder: Path, variants: str) -> Path:
    """Return the folder of a model with random weights, which is built if it does not exist."""
    if not (folder / model / "manifest.json").exists():
        arguments = ["--weights", "random", "--variant", variants, "--out", str(folder)]
        assert run_command(app, ["build", model, *arguments]) == 0
    return folder / model


class NetworkAlone:
    """The network alone, on all cores, with its best batch size."""

    def __init__(self, path: Path):
        self.session = open_session(path, settings=NO_SPINNING)
        self.rate(8, 1)
        self.batch = max(BATCHES, key=partial(self.rate, 32))

    def rate(self, count: int, batch: int) -> float:
        """Return the pictures per second."""
        pixels = np.random.default_rng(0).random((batch, 3, 224, 224), np.float32)
        runs, began = count // batch, time.perf_counter()
        for _ in range(runs):
            self.session.run(["pooler_output"], {"pixel_values": pixels})
        return runs * batch / (time.perf_counter() - began)


def plain_loop(model: zoo.VisionModel, paths: list[Path]) -> float:
    """Return the pictures per second of a simple loop over `model(path)`."""
    began = time.perf_counter()
    for path in paths:
        model(path)
    return len(paths) / (time.perf_counter() - began)


class TorchLoader:
    """transformers' network, fed by torch's DataLoader with two processes."""

    def __init__(self) -> None:
        sizes = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
        config = DINOv3ViTConfig(**sizes, num_hidden_layers=12, num_register_tokens=4)
        self.model = DINOv3ViTModel(config).eval()

    def rate(self, paths: list[Path]) -> float:
        """Return the pictures per second, without the start of the processes."""
        loader = torch.utils.data.DataLoader(
            *(paths, 8), num_workers=2, collate_fn=prepare_batch, multiprocessing_context="spawn"
        )
        with torch.inference_mode():
            batches = iter(loader)
            self.model(next(batches)[:1])
            began, count = time.perf_counter(), 0
            for batch in batches:
                count += len(self.model(batch).pooler_output)
        return count / (time.perf_counter() - began)


def prepare_batch(paths: list[Path]) -> torch.Tensor:
    """Return a batch of pictures, prepared as in torch's examples: Pillow, numpy, tensor."""
    images = [pictures(path)[0].resize((224, 224), Image.Resampling.BILINEAR) for path in paths]
    tensors = [np.asarray(image, np.float32).transpose(2, 0, 1) / 255 for image in images]
    return torch.from_numpy(np.stack(tensors))


def embed_pictures(
    paths: list[Path], model_folder: Path, precision: str, work: Path
) -> EmbedResult:
    """Embed the pictures into a dataset and return the result."""
    (work / "list.txt").write_text("\n".join(map(str, paths)), encoding="utf-8")
    out = work / f"{precision}.lance"
    return zoo.embed(
        work / "list.txt", model=model_folder, precision=precision, out=out, force=True
    )


def measure_start(model_folder: Path, path: Path, work: Path) -> float:
    """Return the seconds of a command that embeds one picture, from its start to its end."""
    out = work / "one.lance"
    command = [sys.executable, "-m", "zoo", "embed", str(path), "--model", str(model_folder)]
    times = []
    for _ in range(START_RUNS):
        began = time.perf_counter()
        subprocess.run([*command, "--out", str(out), "--force"], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return min(times)


def print_exactness(paths: list[Path], model_folder: Path, work: Path) -> None:
    """Print the smallest cosine with float32 vectors of pictures that were resized in one step."""
    vectors_of = {}
    for settings in itertools.product(PRECISIONS, (False, True)):
        out, arguments = (
            work / "exact.lance",
            dict(zip(("precision", "draft"), settings, strict=True)),
        )
        zoo.embed(paths, model=model_folder, out=out, dtype="float32", force=True, **arguments)
        column = lance.dataset(out).to_table(columns=["vector"]).column(0).combine_chunks()
        rows = np.reshape(column.flatten(), (len(paths), -1))
        vectors_of[settings] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for settings, rows in vectors_of.items():
        smallest = (rows * vectors_of["fp32", False]).sum(axis=1).min()
        print(
            f"{settings[0]}, {'made smaller while decoded' if settings[1] else 'exact'}: "
            f"{smallest:.5f}"
        )


def measure(paths: list[Path], model_folder: Path, rounds: int, work: Path) -> None:
    """Print the pictures per second of each method, and the ratio of `zoo embed` to it."""
    models = {name: zoo.load(str(model_folder), name) for name in PRECISIONS}
    networks = {name: NetworkAlone(model.path) for name, model in models.items()}
    torch_way, rates = TorchLoader(), defaultdict(list)
    for index in range(rounds):
        share = paths[index::rounds]
        sample = share[:SAMPLE_PICTURES]
        torch_rate = torch_way.rate(sample)
        for name in PRECISIONS:
            result = embed_pictures(share, model_folder, name, work)
            way_rates = {
                "zoo embed": result.rate,
                "zoo embed, of one core": result.rate / result.cores,
                "the network alone": networks[name].rate(SAMPLE_PICTURES, networks[name].batch),
                "a loop with zoo.load": plain_loop(models[name], sample),
                "DataLoader, float32": torch_rate,
            }
            for method, rate in way_rates.items():
                rates[name, method].append((rate, result.rate / rate))
            print(
                index,
                name,
                {method: round(rate, 1) for method, rate in way_rates.items()},
                flush=True,
            )
    for (name, method), pairs in rates.items():
        method_rates, ratios = zip(*pairs, strict=True)
        print(f"{name} {method}: {statistics.median(method_rates):.1f}/s, embed x", end=" ")
        print(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    total = sum(result.seconds.values())
    print({stage: f"{seconds / total:.1%}" for stage, seconds in result.seconds.items()}, "of int8")
    print(
        "one picture, from the command's start to its end: "
        f"{measure_start(model_folder, paths[0], work):.2f} s"
    )


def read_vectors(dataset: Path) -> dict[str, list[float]]:
    """Return the vectors of a dataset by the keys of their pictures."""
    columns = lance.dataset(dataset).to_table(columns=["key", "vector"]).to_pydict()
    return dict(zip(columns["key"], columns["vector"], strict=True))


def embed_folder(pictures: Path, model: Path, out: Path, title: str) -> None:
    """Embed a folder, and print the counts of rows, the bytes and the seconds."""
    began = time.perf_counter()
    result = zoo.embed(pictures, model=model, out=out, prune=True)
    seconds = time.perf_counter() - began
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    summary = f"{result.kept:,} as they were, {result.added:,} added, {result.again:,} again"
    print(f"{title}: {seconds:.1f} s, {size:,} bytes ({summary})", flush=True)


def measure_changes(paths: list[Path], work: Path) -> None:
    """Embed a folder, and again after a twelfth of the pictures was removed, replaced and added."""
    tenth, model_folder = len(paths) // 12, build_folder("vit_digits", work, "fp32")
    initial, replacements = paths[: -2 * tenth], paths[-2 * tenth :]
    names = ("changed", "kept.lance", "anew.lance")
    folder, updated, rebuilt = (work / name for name in names)
    for path in (folder, updated, rebuilt):
        shutil.rmtree(path, ignore_errors=True)
    folder.mkdir()
    for path in initial:
        shutil.copy(path, folder)
    embed_folder(folder, model_folder, updated, "the first run")
    for path in initial[:tenth]:
        (folder / path.name).unlink()
    for path, other in zip([*initial[-tenth:], *replacements[tenth:]], replacements, strict=True):
        shutil.copy(other, folder / path.name)
    embed_folder(folder, model_folder, updated, "after the changes")
    embed_folder(folder, model_folder, rebuilt, "the same from nothing")
    print("the same rows" if read_vectors(updated) == read_vectors(rebuilt) else "OTHER ROWS")


def draw_digits(folder: Path, count: int) -> list[Path]:
    """Write PNGs of digits, some of them several times, and return their paths."""
    images = load_digits().images
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{index:06d}.png" for index in range(count)]
    for index, path in enumerate(paths):
        Image.fromarray(images[index % len(images)]).save(path)
    return paths


class EmbedParts:
    """Parts of `zoo embed` that are measured alone: reading and decoding, and the network on
    decoded pictures."""

    def __init__(self, model_folder: Path, variant: str, paths: list[Path]):
        self.network, self.cores = (
            find_network(str(model_folder), variant),
            len(os.sched_getaffinity(0)),
        )
        self.paths, self.values = paths, []
        self.runner = Runner(self.network, lane_session(self.network.path), self.cores)
        self.prepare()

    def prepare(self) -> None:
        """Read, decode and resize all pictures."""
        self.values = list(self._on_all_cores(self._values, self.paths))

    def run(self) -> None:
        """Run the network on all pictures."""
        for _ in self._on_all_cores(self._run, self.values):
            pass

    def _on_all_cores(self, work: Callable[[Any], Any], items: list[Any]) -> Iterator[Any]:
        # As many at once as `zoo embed` has in a piece for a small network.
        pieces = [
            items[start : start + PIECE_PICTURES] for start in range(0, len(items), PIECE_PICTURES)
        ]
        with ThreadPoolExecutor(self.cores) as threads:
            for results in threads.map(lambda piece: [work(item) for item in piece], pieces):
                yield from results

    def _values(self, path: Path) -> Feeds:
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        return self.network.make_feeds(read_picture(data, path.name, self.network.smallest_sides))

    def _run(self, values: Feeds) -> Any:
        return self.runner.run([values], ["pooler_output"])


class TimeSpent(NamedTuple):
    """Seconds of wall-clock time and of processor time."""

    wall: float
    busy: float


def time_task(work: Callable[[], Any]) -> TimeSpent:
    """Return the time that a function takes."""
    wall, busy = time.perf_counter(), time.process_time()
    work()
    return TimeSpent(time.perf_counter() - wall, time.process_time() - busy)


def measure_network(count: int, rounds: int, work: Path) -> None:
    """Print the throughput of `zoo embed` as a share of that of its network alone."""
    cases = (
        ("vit_digits", "fp32", draw_digits(work / "digits", 20 * count)),
        (MODEL, "int8", draw_pictures(work / "pictures", count)),
    )
    for model, variant, paths in cases:
        model_folder, shares = build_folder(model, work, variant), defaultdict(list)
        parts, scale = EmbedParts(model_folder, variant, paths), 1000 / len(paths)
        embed = partial(embed_pictures, paths, model_folder, variant, work)
        for _ in range(rounds):
            network_before, embedding, network_after = (
                time_task(parts.run),
                time_task(embed),
                time_task(parts.run),
            )
            decoding = time_task(parts.prepare)
            network = TimeSpent(
                *(
                    (first + second) / 2
                    for first, second in zip(network_before, network_after, strict=True)
                )
            )
            shares["bound"].append(network.busy / (network.busy + decoding.busy))
            shares["of processor time"].append(network.busy / embedding.busy)
            shares["of time"].append(network.wall / embedding.wall)
            print(
                f"{model}, {variant}: {scale * decoding.busy:.2f} ms of a core a picture to decode,"
                f" {scale * network.busy:.2f} ms for the network, {scale * embedding.busy:.2f} ms "
                f"for `zoo embed`; on the clock {scale * network.wall:.2f} and "
                f"{scale * embedding.wall:.2f}",
                flush=True,
            )
        for name, values in shares.items():
            median = statistics.median(values)
            print(
                f"{model}, {variant}, {name}: {median:.2f} ({min(values):.2f} to {max(values):.2f})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "embed")
    parser.add_argument(
        "--changes", action="store_true", help="measure updates after pictures changed"
    )
    parser.add_argument("--network", action="store_true", help="compare with the network alone")
    options = parser.parse_args()
    if options.network:
        measure_network(options.pictures, options.rounds, options.folder)
        return
    paths = draw_pictures(options.folder / "pictures", options.pictures)
    if options.changes:
        measure_changes(paths, options.folder)
        return
    place = build_folder(MODEL, options.folder, "fp32,int8")
    print_exactness(paths[:EXACT_PICTURES], place, options.folder)
    measure(paths, place, options.rounds, options.folder)


if __name__ == "__main__":
    main()
