"""Measure how fast a dataset of vectors is searched, and which share of the nearest rows is found.

python benchmarks/search.py [ROWS…] python benchmarks/search.py digits python benchmarks/search.py
words FOLDER

With numbers of rows (default: 10,000, 100,000 and 1,000,000), vectors of 384 numbers are drawn
around random centres, 200 for each centre. A hundred more are queries for their ten nearest rows.
The methods are `zoo search` with a comparison of every row and with its index, and numpy and faiss
(`pip install faiss-cpu`) with all vectors in memory. Each method runs in its own process. `recall`
is the share of numpy's ten rows that a method finds. `ms` is the median time of single queries, `at
once` the time of a query among a hundred. `MB` is the increase of the process's memory after its
imports, including files that the system caches. `build` is the time to build the index in seconds.

`digits` searches with pictures of held-out digits among those that `vit_digits` was trained on, and
prints the share of the ten nearest that show the same digit. `words` searches the held-out digits
with sentences such as "a photo of the number three", with the folder of a model for pictures and
texts of digits.
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

DIM, ROWS_OF_CENTRE, QUERIES, NEAREST = 384, 200, 100, 10
SPREAD = 1.0  # standard deviation of points around a centre; that of centres is 1
PART_ROWS = 50_000  # rows that are drawn at once and form a part of the dataset
TIMED_QUERIES = 20  # number of queries that are timed one by one

Search = Callable[[np.ndarray], np.ndarray]


def draw_vectors(rows: int, folder: Path) -> None:
    """Write the vectors, as a dataset and as numpy's file, and the queries."""
    from tests.vector_datasets import table_of, write_dataset

    random = np.random.default_rng(rows)
    centres = random.standard_normal((max(1, rows // ROWS_OF_CENTRE), DIM), np.float32)

    def points(count: int) -> np.ndarray:
        centre_of = random.integers(0, len(centres), count)
        return centres[centre_of] + SPREAD * random.standard_normal((count, DIM), np.float32)

    np.save(folder / "queries.npy", points(QUERIES))
    stored = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float16, (rows, DIM))
    parts = []
    for start in range(0, rows, PART_ROWS):
        stored[start : start + PART_ROWS] = points(min(PART_ROWS, rows - start))
        part = stored[start : start + PART_ROWS]
        parts.append(table_of([f"{start + row:08}.jpg" for row in range(len(part))], part))
    write_dataset(folder / "x.lance", parts)


def normalize(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1 in float32."""
    normalized = vectors.astype(np.float32)
    normalized /= np.linalg.norm(normalized, axis=1, keepdims=True)
    return normalized


def search_with_numpy(folder: Path) -> Search:
    vectors = np.load(folder / "x.npy", mmap_mode="r")
    stored = np.concatenate(
        [
            normalize(vectors[start : start + PART_ROWS])
            for start in range(0, len(vectors), PART_ROWS)
        ]
    )

    def search(queries: np.ndarray) -> np.ndarray:
        rows = []
        for query in queries:
            cosines = stored @ query
            best = np.argpartition(-cosines, NEAREST)[:NEAREST]
            rows.append(best[np.argsort(-cosines[best])])
        return np.array(rows)

    return search


def search_with_zoo(folder: Path) -> Search:
    from zoo.apps.embed.vector_table import open_vectors

    def search(queries: np.ndarray) -> np.ndarray:
        table = open_vectors(folder / "x.lance")
        return np.stack([table.nearest(query, NEAREST).rows for query in queries])

    return search


def search_with_zoo_index(folder: Path) -> Search:
    from weights.progress import Quiet
    from zoo.apps.embed.index import build_index
    from zoo.apps.embed.vector_table import open_vectors

    probes = build_index(open_vectors(folder / "x.lance"), Quiet()).probes
    table = open_vectors(folder / "x.lance")
    return lambda queries: np.stack(
        [table.nearest(query, NEAREST, probes).rows for query in queries]
    )


def make_faiss_index(folder: Path, kind: str) -> "faiss.Index":  # noqa: F821
    import faiss

    vectors = np.load(folder / "x.npy", mmap_mode="r")
    index = faiss.index_factory(DIM, kind, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        index.train(normalize(vectors[:: max(1, len(vectors) // 100_000)]))
    for start in range(0, len(vectors), PART_ROWS):
        index.add(normalize(vectors[start : start + PART_ROWS]))
    return index


def search_with_faiss(folder: Path) -> Search:
    index = make_faiss_index(folder, "Flat")
    return lambda queries: index.search(queries, NEAREST)[1]


def search_with_faiss_index(folder: Path) -> Search:
    """Return a search with the same kind of index and number of partitions as the zoo's, 32 of
    which are searched. Results are refined."""
    import faiss

    rows = len(np.load(folder / "x.npy", mmap_mode="r"))
    index = make_faiss_index(folder, f"IVF{max(1, round(rows / 4096))},RaBitQ,Refine(SQfp16)")
    faiss.ParameterSpace().set_index_parameter(index, "nprobe", 32)
    index.k_factor = 10
    return lambda queries: index.search(queries, NEAREST)[1]


METHODS = {
    "numpy, in memory": search_with_numpy,
    "zoo search, exact": search_with_zoo,
    "zoo search, index": search_with_zoo_index,
    "faiss, in memory": search_with_faiss,
    "faiss, RaBitQ": search_with_faiss_index,
}


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def time_task(task: Callable[[], object]) -> float:
    """Return the seconds that a task takes."""
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def measure(method: str, folder: Path) -> dict[str, Any]:
    """Measure one method in this process."""
    import lance  # noqa: F401

    import zoo.apps.embed.vector_table  # noqa: F401

    if method.startswith("faiss"):
        import faiss  # noqa: F401
    queries = normalize(np.load(folder / "queries.npy"))
    before, began = peak_memory(), time.perf_counter()
    search = METHODS[method](folder)
    build_seconds = time.perf_counter() - began
    rows = search(queries)  # also warms up
    single = np.median(
        [time_task(partial(search, query[None])) for query in queries[:TIMED_QUERIES]]
    )
    at_once = time_task(partial(search, queries)) / len(queries)
    times = {"ms": 1e3 * single, "at once": 1e3 * at_once, "build": build_seconds}
    return {"way": method, "found": rows.tolist(), "MB": peak_memory() - before, **times}


def run_in_process(task: Callable[..., Any], *arguments: object) -> Any:
    """Return the result of a task that runs in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(task, *arguments).result()


def compare(rows: int) -> Iterator[list[str]]:
    """Yield a row of the table for each method, on this number of rows."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run_in_process(draw_vectors, rows, work)
        expected: list[list[int]] = []
        for method in METHODS:
            result = run_in_process(measure, method, work)
            expected = expected or result["found"]
            pairs = zip(result["found"], expected, strict=True)
            recall = np.mean(
                [
                    len(set(actual_rows) & set(expected_rows)) / NEAREST
                    for actual_rows, expected_rows in pairs
                ]
            )
            forms = {"ms": ".1f", "at once": ".2f", "MB": ".0f", "build": ".0f"}
            numbers = (number(result[name], form) for name, form in forms.items())
            print(method, recall, result["ms"], file=sys.stderr, flush=True)
            yield [f"{rows:,}", method, f"{recall:.3f}", *numbers]


def measure_digits() -> None:
    """Print the precision of the ten nearest digits: held-out digits are searched among those of
    the training."""
    import zoo
    from tests.vector_datasets import table_of, write_dataset
    from zoo.apps.embed.vector_table import open_vectors
    from zoo.data.digits.data import split_digits

    training, held_out = split_digits()
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/vit_digits.onnx"
        zoo.to_onnx(zoo.from_pretrained("vit_digits"), file)
        model = zoo.load(file)
        vectors, queries = (
            np.asarray(model(list(part.images))["pooler_output"]) for part in (training, held_out)
        )
        dataset = Path(folder) / "digits.lance"
        keys = [f"{label}/{row:04}.png" for row, label in enumerate(training.labels)]
        write_dataset(dataset, [table_of(keys, vectors.astype(np.float16))])
        table = open_vectors(dataset)
        rows = np.stack([table.nearest(query, NEAREST).rows for query in normalize(queries)])
    is_right = training.labels[rows] == held_out.labels[:, None]
    print(f"precision@{NEAREST} of {len(queries)} digits: {is_right.mean():.4f}")


NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def measure_sentences(folder: str) -> None:
    """Print the precision of the ten held-out digits that are nearest to a sentence about each
    digit."""
    from PIL import Image

    import zoo
    from zoo.data.digits.data import split_digits

    _, held_out = split_digits()
    with tempfile.TemporaryDirectory() as work:
        pictures, dataset = Path(work) / "digits", Path(work) / "digits.lance"
        pictures.mkdir()
        for row, (image, label) in enumerate(zip(held_out.images, held_out.labels, strict=True)):
            Image.fromarray(image).save(pictures / f"{label}-{row:03}.png")
        zoo.embed(pictures, model=folder, out=dataset)
        is_right = [
            match.key.startswith(str(digit))
            for digit, name in enumerate(NAMES)
            for match in zoo.search(dataset, text=f"a photo of the number {name}")
        ]
    print(f"precision@{NEAREST} by words: {np.mean(is_right):.2f}")


if __name__ == "__main__":
    given = sys.argv[1:] or ["10000", "100000", "1000000"]
    if given == ["digits"]:
        measure_digits()
    elif given[0] == "words":
        measure_sentences(given[1])
    else:
        headings = ["rows", "way", "recall@10", "ms", "at once", "MB", "build"]
        rows = (row for each in given for row in compare(int(each)))
        print(*table(headings, rows, words=2), sep="\n")
