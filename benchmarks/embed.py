"""How fast `zoo embed` is beside its network alone, a plain loop, and torch's DataLoader.

    python benchmarks/embed.py --pictures 3000 [--rounds 12] [--folder FOLDER]
    python benchmarks/embed.py --pictures 2400 --changes [--folder FOLDER]
    python benchmarks/embed.py --pictures 200 --network [--rounds 5] [--folder FOLDER]

Seeded JPEGs of 64 to 2,000 pixels a side are drawn. In every round each way gets pictures of one
share, in turn: `zoo embed` all of them, from the start to the finished dataset, the others some. A
ratio is of one round, whose ways ran within seconds of each other; the median of rounds counts. The
networks are DINOv3 ViT-S/16 with random weights, built into a folder once.

With `--changes`, a twelfth of the pictures stays apart at first. Then as many are removed, as many
replaced and as many added, and the folder is embedded once more by `vit_digits` into the same
dataset, and into a new one. Both have to have the same rows.

With `--network`, `zoo embed` is compared with its network alone on the same pictures: decoded and
resized before, one picture a run, as many runs at once as there are cores, just before and after it
in each round. Reading and decoding are measured alone as well. On a CPU they take processor time
from the network: no program reaches a larger share of the network's throughput than the network's
processor time has in the sum of both, which is printed as the bound. Processor time counts only the
work of this process, so that other programs disturb it less than they do seconds on the clock. The
networks are `vit_digits`, on pictures of digits, and DINOv3 ViT-S/16 in int8.
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
from zoo.apps.embed.embed_request import EmbedResult
from zoo.apps.embed.network import Runner, find_network, lane_session
from zoo.architectures.inputs import Feeds
from zoo.cli.app import app
from zoo.cli.console import call
from zoo.common.runtime import RESTING, open_session
from zoo.data.digits.data import load_digits
from zoo.images.pictures import pictures, read_picture

MODEL = "dinov3_vits16"
BATCHES = 1, 8, 32
PRECISIONS = "fp32", "int8"
EXACT = 60
"""Pictures that are embedded in every way there is."""

STARTS = 3
"""Of the command, of which the fastest counts."""

PIECE = 16
"""Pictures that a thread takes at once where a part is measured alone."""

SAMPLE = 96
"""Pictures that the slower ways get in a round."""


def draw(folder: Path, count: int, seed: int = 0) -> list[Path]:
    """JPEGs of areas, edges and noise, whose sides are spread evenly over the logarithm."""
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


def built(model: str, folder: Path, variants: str) -> Path:
    """A model with random weights as a folder, which is made once."""
    if not (folder / model / "manifest.json").exists():
        wanted = ["--weights", "random", "--variant", variants, "--out", str(folder)]
        assert call(app, ["build", model, *wanted]) == 0
    return folder / model


class Alone:
    """The network by itself, on all cores, at its best batch."""

    def __init__(self, path: Path):
        self.session = open_session(path, settings=RESTING)
        self.rate(8, 1)
        self.batch = max(BATCHES, key=partial(self.rate, 32))

    def rate(self, count: int, batch: int) -> float:
        """Pictures a second."""
        pixels = np.random.default_rng(0).random((batch, 3, 224, 224), np.float32)
        runs, began = count // batch, time.perf_counter()
        for _ in range(runs):
            self.session.run(["pooler_output"], {"pixel_values": pixels})
        return runs * batch / (time.perf_counter() - began)


def plain_loop(model: zoo.VisionModel, paths: list[Path]) -> float:
    """As somebody writes it first."""
    began = time.perf_counter()
    for path in paths:
        model(path)
    return len(paths) / (time.perf_counter() - began)


class Torch:
    """transformers' network, fed by torch's DataLoader with two processes."""

    def __init__(self) -> None:
        sizes = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
        config = DINOv3ViTConfig(**sizes, num_hidden_layers=12, num_register_tokens=4)
        self.model = DINOv3ViTModel(config).eval()

    def rate(self, paths: list[Path]) -> float:
        """Pictures a second, without the start of the processes."""
        loaded = torch.utils.data.DataLoader(
            *(paths, 8), num_workers=2, collate_fn=prepared, multiprocessing_context="spawn"
        )
        with torch.inference_mode():
            batches = iter(loaded)
            self.model(next(batches)[:1])
            began, count = time.perf_counter(), 0
            for batch in batches:
                count += len(self.model(batch).pooler_output)
        return count / (time.perf_counter() - began)


def prepared(paths: list[Path]) -> torch.Tensor:
    """Pictures as torch's examples prepare them: Pillow, numpy, tensors, a batch of them."""
    images = [pictures(path)[0].resize((224, 224), Image.Resampling.BILINEAR) for path in paths]
    tensors = [np.asarray(image, np.float32).transpose(2, 0, 1) / 255 for image in images]
    return torch.from_numpy(np.stack(tensors))


def embedded(paths: list[Path], place: Path, precision: str, work: Path) -> EmbedResult:
    """A finished dataset of these pictures."""
    (work / "list.txt").write_text("\n".join(map(str, paths)), encoding="utf-8")
    out = work / f"{precision}.lance"
    return zoo.embed(work / "list.txt", model=place, precision=precision, out=out, force=True)


def start(place: Path, path: Path, work: Path) -> float:
    """Seconds of a command that embeds one picture, from its start to its end."""
    out = work / "one.lance"
    command = [sys.executable, "-m", "zoo", "embed", str(path), "--model", str(place)]
    taken = []
    for _ in range(STARTS):
        began = time.perf_counter()
        subprocess.run([*command, "--out", str(out), "--force"], check=True, capture_output=True)
        taken.append(time.perf_counter() - began)
    return min(taken)


def exactness(paths: list[Path], place: Path, work: Path) -> None:
    """Print the least cosine with vectors of pictures that are resized in one step, in float32."""
    made = {}
    for how in itertools.product(PRECISIONS, (False, True)):
        out, wanted = work / "exact.lance", dict(zip(("precision", "draft"), how, strict=True))
        zoo.embed(paths, model=place, out=out, dtype="float32", force=True, **wanted)
        vectors = lance.dataset(out).to_table(columns=["vector"]).column(0).combine_chunks()
        rows = np.reshape(vectors.flatten(), (len(paths), -1))
        made[how] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for how, rows in made.items():
        least = (rows * made["fp32", False]).sum(axis=1).min()
        print(f"{how[0]}, {'made smaller while decoded' if how[1] else 'exact'}: {least:.5f}")


def measure(paths: list[Path], place: Path, rounds: int, work: Path) -> None:
    models = {name: zoo.load(str(place), name) for name in PRECISIONS}
    alone = {name: Alone(model.path) for name, model in models.items()}
    torch_way, rates = Torch(), defaultdict(list)
    for index in range(rounds):
        share = paths[index::rounds]
        sample = share[:SAMPLE]
        torch_rate = torch_way.rate(sample)
        for name in PRECISIONS:
            made = embedded(share, place, name, work)
            told = {
                "zoo embed": made.rate,
                "zoo embed, of one core": made.rate / made.cores,
                "the network alone": alone[name].rate(SAMPLE, alone[name].batch),
                "a loop with zoo.load": plain_loop(models[name], sample),
                "DataLoader, float32": torch_rate,
            }
            for way, rate in told.items():
                rates[name, way].append((rate, made.rate / rate))
            print(index, name, {way: round(rate, 1) for way, rate in told.items()}, flush=True)
    for (name, way), found in rates.items():
        each, ratios = zip(*found, strict=True)
        print(f"{name} {way}: {statistics.median(each):.1f}/s, embed x", end=" ")
        print(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    total = sum(made.seconds.values())
    print({stage: f"{seconds / total:.1%}" for stage, seconds in made.seconds.items()}, "of int8")
    print(f"one picture, from the command's start to its end: {start(place, paths[0], work):.2f} s")


def rows_of(dataset: Path) -> dict[str, list[float]]:
    """Vectors by the keys of their pictures."""
    columns = lance.dataset(dataset).to_table(columns=["key", "vector"]).to_pydict()
    return dict(zip(columns["key"], columns["vector"], strict=True))


def run(pictures: Path, model: Path, out: Path, called: str) -> None:
    """Embed a folder, and print its rows, bytes and seconds."""
    began = time.perf_counter()
    made = zoo.embed(pictures, model=model, out=out, prune=True)
    seconds = time.perf_counter() - began
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    did = f"{made.kept:,} as they were, {made.added:,} added, {made.again:,} again"
    print(f"{called}: {seconds:.1f} s, {size:,} bytes ({did})", flush=True)


def measure_changes(paths: list[Path], work: Path) -> None:
    """Embed a folder, and once more after a tenth each was removed, replaced and added."""
    tenth, place = len(paths) // 12, built("vit_digits", work, "fp32")
    first, others = paths[: -2 * tenth], paths[-2 * tenth :]
    names = ("changed", "kept.lance", "anew.lance")
    folder, kept, anew = (work / name for name in names)
    for earlier in (folder, kept, anew):
        shutil.rmtree(earlier, ignore_errors=True)
    folder.mkdir()
    for path in first:
        shutil.copy(path, folder)
    run(folder, place, kept, "the first run")
    for path in first[:tenth]:
        (folder / path.name).unlink()
    for path, other in zip([*first[-tenth:], *others[tenth:]], others, strict=True):
        shutil.copy(other, folder / path.name)
    run(folder, place, kept, "after the changes")
    run(folder, place, anew, "the same from nothing")
    print("the same rows" if rows_of(kept) == rows_of(anew) else "OTHER ROWS")


def draw_digits(folder: Path, count: int) -> list[Path]:
    """PNGs of digits, some of them several times."""
    images = load_digits().images
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{index:06d}.png" for index in range(count)]
    for index, path in enumerate(paths):
        Image.fromarray(images[index % len(images)]).save(path)
    return paths


class Parts:
    """What `zoo embed` does with pictures, in parts that are measured alone: reading and decoding,
    and the network on pictures that are decoded already."""

    def __init__(self, place: Path, variant: str, paths: list[Path]):
        self.network, self.cores = find_network(str(place), variant), len(os.sched_getaffinity(0))
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
        pieces = [items[start : start + PIECE] for start in range(0, len(items), PIECE)]
        with ThreadPoolExecutor(self.cores) as threads:
            for results in threads.map(lambda piece: [work(item) for item in piece], pieces):
                yield from results

    def _values(self, path: Path) -> Feeds:
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        return self.network.values(read_picture(data, path.name, self.network.least))

    def _run(self, values: Feeds) -> Any:
        return self.runner.run([values], ["pooler_output"])


class Spent(NamedTuple):
    """Seconds on the clock, and of processors."""

    wall: float
    busy: float


def spent(work: Callable[[], Any]) -> Spent:
    """Time that a function takes."""
    wall, busy = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - wall, time.process_time() - busy)


def measure_network(count: int, rounds: int, work: Path) -> None:
    """Print the throughput of `zoo embed` as a share of that of its network alone."""
    cases = (
        ("vit_digits", "fp32", draw_digits(work / "digits", 20 * count)),
        (MODEL, "int8", draw(work / "pictures", count)),
    )
    for model, variant, paths in cases:
        place, shares = built(model, work, variant), defaultdict(list)
        parts, scale = Parts(place, variant, paths), 1000 / len(paths)
        embed = partial(embedded, paths, place, variant, work)
        for _ in range(rounds):
            before, full, after = spent(parts.run), spent(embed), spent(parts.run)
            decoding = spent(parts.prepare)
            network = Spent(*((one + other) / 2 for one, other in zip(before, after, strict=True)))
            shares["bound"].append(network.busy / (network.busy + decoding.busy))
            shares["of processor time"].append(network.busy / full.busy)
            shares["of time"].append(network.wall / full.wall)
            print(
                f"{model}, {variant}: {scale * decoding.busy:.2f} ms of a core a picture to decode,"
                f" {scale * network.busy:.2f} ms for the network, {scale * full.busy:.2f} ms for "
                f"`zoo embed`; on the clock {scale * network.wall:.2f} and {scale * full.wall:.2f}",
                flush=True,
            )
        for name, found in shares.items():
            median = statistics.median(found)
            print(
                f"{model}, {variant}, {name}: {median:.2f} ({min(found):.2f} to {max(found):.2f})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "embed")
    parser.add_argument("--changes", action="store_true", help="measure a folder that changes")
    parser.add_argument("--network", action="store_true", help="measure beside the network alone")
    asked = parser.parse_args()
    if asked.network:
        measure_network(asked.pictures, asked.rounds, asked.folder)
        return
    paths = draw(asked.folder / "pictures", asked.pictures)
    if asked.changes:
        measure_changes(paths, asked.folder)
        return
    place = built(MODEL, asked.folder, "fp32,int8")
    exactness(paths[:EXACT], place, asked.folder)
    measure(paths, place, asked.rounds, asked.folder)


if __name__ == "__main__":
    main()
