"""How fast a dataset of vectors is searched, and how much of what is nearest is found.

    python benchmarks/search.py [ROWS…]
    python benchmarks/search.py digits
    python benchmarks/search.py words FOLDER

Without a word, 10,000, 100,000 and 1,000,000 drawn vectors of 384 numbers: points around centres,
one centre for 200 of them, of which a hundred further ones ask for their ten nearest. Beside `zoo
search`, each row compared and by its index, there are numpy and faiss (`pip install faiss-cpu`),
whose vectors lie in memory. Each way has a process of its own. `recall` is the share of numpy's ten
rows; `ms` the median of single queries, `at once` that of a query among a hundred; `MB` what the
process takes more than after its imports, files that the system caches included; `build` seconds.

`digits` asks by pictures of digits that `vit_digits` was never trained on for those that it was
trained on: the share of the ten nearest that show the same digit. `words` asks by "a photo of the
number three" and the like for those held-out digits, by a built folder of towers for digits.
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import number, table

DIM, EACH, ASKED, NEAREST = 384, 200, 100, 10
SPREAD = 1.0  # of points around a centre, whose own numbers have the deviation 1
PART = 50_000  # rows that are drawn at once, and are a part of the dataset
TIMED = 20  # queries that are timed one by one

Search = Callable[[np.ndarray], np.ndarray]


def draw(rows: int, place: Path) -> None:
    """Write the vectors, as a dataset and as numpy's file, and the queries."""
    from tests.vector_datasets import table_of, write_dataset

    random = np.random.default_rng(rows)
    centres = random.standard_normal((max(1, rows // EACH), DIM), np.float32)

    def points(count: int) -> np.ndarray:
        of = random.integers(0, len(centres), count)
        return centres[of] + SPREAD * random.standard_normal((count, DIM), np.float32)

    np.save(place / "queries.npy", points(ASKED))
    stored = np.lib.format.open_memmap(place / "x.npy", "w+", np.float16, (rows, DIM))
    parts = []
    for start in range(0, rows, PART):
        stored[start : start + PART] = points(min(PART, rows - start))
        here = stored[start : start + PART]
        parts.append(table_of([f"{start + row:08}.jpg" for row in range(len(here))], here))
    write_dataset(place / "x.lance", parts)


def unit(vectors: np.ndarray) -> np.ndarray:
    """In float32, at length 1."""
    found = vectors.astype(np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def in_numpy(place: Path) -> Search:
    vectors = np.load(place / "x.npy", mmap_mode="r")
    known = np.concatenate(
        [unit(vectors[start : start + PART]) for start in range(0, len(vectors), PART)]
    )

    def search(queries: np.ndarray) -> np.ndarray:
        found = []
        for query in queries:
            cosines = known @ query
            best = np.argpartition(-cosines, NEAREST)[:NEAREST]
            found.append(best[np.argsort(-cosines[best])])
        return np.array(found)

    return search


def in_zoo(place: Path) -> Search:
    from zoo.apps.embed.vector_table import open_vectors

    def search(queries: np.ndarray) -> np.ndarray:
        table = open_vectors(place / "x.lance")
        return np.stack([table.nearest(query, NEAREST).rows for query in queries])

    return search


def by_index(place: Path) -> Search:
    from weights.progress import Quiet
    from zoo.apps.embed.index import build_index
    from zoo.apps.embed.vector_table import open_vectors

    probes = build_index(open_vectors(place / "x.lance"), Quiet()).probes
    table = open_vectors(place / "x.lance")
    return lambda queries: np.stack(
        [table.nearest(query, NEAREST, probes).rows for query in queries]
    )


def faiss_known(place: Path, kind: str) -> "faiss.Index":  # noqa: F821
    import faiss

    vectors = np.load(place / "x.npy", mmap_mode="r")
    made = faiss.index_factory(DIM, kind, faiss.METRIC_INNER_PRODUCT)
    if not made.is_trained:
        made.train(unit(vectors[:: max(1, len(vectors) // 100_000)]))
    for start in range(0, len(vectors), PART):
        made.add(unit(vectors[start : start + PART]))
    return made


def in_faiss(place: Path) -> Search:
    made = faiss_known(place, "Flat")
    return lambda queries: made.search(queries, NEAREST)[1]


def by_faiss_index(place: Path) -> Search:
    """The same kind of index with as many partitions, of which 32 are looked into, and refined."""
    import faiss

    rows = len(np.load(place / "x.npy", mmap_mode="r"))
    made = faiss_known(place, f"IVF{max(1, round(rows / 4096))},RaBitQ,Refine(SQfp16)")
    faiss.ParameterSpace().set_index_parameter(made, "nprobe", 32)
    made.k_factor = 10
    return lambda queries: made.search(queries, NEAREST)[1]


WAYS = {
    "numpy, in memory": in_numpy,
    "zoo search, exact": in_zoo,
    "zoo search, index": by_index,
    "faiss, in memory": in_faiss,
    "faiss, RaBitQ": by_faiss_index,
}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def seconds(task: Callable[[], object]) -> float:
    """What a run takes."""
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def measure(way: str, place: Path) -> dict[str, Any]:
    """One way, in this process alone."""
    import lance  # noqa: F401

    import zoo.apps.embed.vector_table  # noqa: F401

    if way.startswith("faiss"):
        import faiss  # noqa: F401
    queries = unit(np.load(place / "queries.npy"))
    before, began = peak(), time.perf_counter()
    search = WAYS[way](place)
    built = time.perf_counter() - began
    found = search(queries)  # which warms up
    single = np.median([seconds(partial(search, query[None])) for query in queries[:TIMED]])
    at_once = seconds(partial(search, queries)) / len(queries)
    times = {"ms": 1e3 * single, "at once": 1e3 * at_once, "build": built}
    return {"way": way, "found": found.tolist(), "MB": peak() - before, **times}


def apart(task: Callable[..., Any], *given: object) -> Any:
    """What a task returns in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(task, *given).result()


def compare(rows: int) -> Iterator[list[str]]:
    """All ways on so many rows, as lines of a table."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        apart(draw, rows, place)
        wanted: list[list[int]] = []
        for way in WAYS:
            told = apart(measure, way, place)
            wanted = wanted or told["found"]
            pairs = zip(told["found"], wanted, strict=True)
            recall = np.mean([len(set(ours) & set(theirs)) / NEAREST for ours, theirs in pairs])
            forms = {"ms": ".1f", "at once": ".2f", "MB": ".0f", "build": ".0f"}
            numbers = (number(told[name], form) for name, form in forms.items())
            print(way, recall, told["ms"], file=sys.stderr, flush=True)
            yield [f"{rows:,}", way, f"{recall:.3f}", *numbers]


def digits() -> None:
    """Precision of the ten nearest, of held-out digits among those that were trained on."""
    import zoo
    from tests.vector_datasets import table_of, write_dataset
    from zoo.apps.embed.vector_table import open_vectors
    from zoo.data.digits.data import split_digits

    known, asked = split_digits()
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/vit_digits.onnx"
        zoo.to_onnx(zoo.from_pretrained("vit_digits"), file)
        model = zoo.load(file)
        vectors, queries = (
            np.asarray(model(list(part.images))["pooler_output"]) for part in (known, asked)
        )
        place = Path(folder) / "digits.lance"
        keys = [f"{label}/{row:04}.png" for row, label in enumerate(known.labels)]
        write_dataset(place, [table_of(keys, vectors.astype(np.float16))])
        table = open_vectors(place)
        found = np.stack([table.nearest(query, NEAREST).rows for query in unit(queries)])
    right = known.labels[found] == asked.labels[:, None]
    print(f"precision@{NEAREST} of {len(queries)} digits: {right.mean():.4f}")


NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def words(folder: str) -> None:
    """Precision of the ten nearest held-out digits to a sentence about each."""
    from PIL import Image

    import zoo
    from zoo.data.digits.data import split_digits

    _, asked = split_digits()
    with tempfile.TemporaryDirectory() as place:
        pictures, dataset = Path(place) / "digits", Path(place) / "digits.lance"
        pictures.mkdir()
        for row, (image, label) in enumerate(zip(asked.images, asked.labels, strict=True)):
            Image.fromarray(image).save(pictures / f"{label}-{row:03}.png")
        zoo.embed(pictures, model=folder, out=dataset)
        right = [
            each.key.startswith(str(digit))
            for digit, name in enumerate(NAMES)
            for each in zoo.search(dataset, text=f"a photo of the number {name}")
        ]
    print(f"precision@{NEAREST} by words: {np.mean(right):.2f}")


if __name__ == "__main__":
    given = sys.argv[1:] or ["10000", "100000", "1000000"]
    if given == ["digits"]:
        digits()
    elif given[0] == "words":
        words(given[1])
    else:
        headings = ["rows", "way", "recall@10", "ms", "at once", "MB", "build"]
        rows = (row for each in given for row in compare(int(each)))
        print(*table(headings, rows, words=2), sep="\n")
