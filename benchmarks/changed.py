"""What `zoo embed` does again after a folder of pictures has changed, beside a run from nothing.

    python benchmarks/changed.py [--pictures 2000] [--changes 200] [--model NAME] [--folder FOLDER]

Seeded JPEGs are drawn and embedded. Then some are removed, some others are replaced, and some are
added, and the folder is embedded once more into the same dataset, and into a new one. Both have to
have the same rows.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import lance

import zoo
from benchmarks.embed import built, draw


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--model", default="vit_digits")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "changed")
    asked = parser.parse_args()
    drawn = draw(asked.folder / "drawn", asked.pictures + 2 * asked.changes)
    first, others = drawn[: asked.pictures], drawn[asked.pictures :]
    place = built(asked.model, asked.folder, "fp32")
    names = ("pictures", "kept.lance", "anew.lance")
    pictures, kept, anew = (asked.folder / name for name in names)
    for earlier in (pictures, kept, anew):
        shutil.rmtree(earlier, ignore_errors=True)
    pictures.mkdir()
    for path in first:
        shutil.copy(path, pictures)
    run(pictures, place, kept, "the first run")
    for path in first[: asked.changes]:
        (pictures / path.name).unlink()
    replaced, added = others[: asked.changes], others[asked.changes :]
    for path, other in zip([*first[-asked.changes :], *added], [*replaced, *added], strict=True):
        shutil.copy(other, pictures / path.name)
    run(pictures, place, kept, "after the changes")
    run(pictures, place, anew, "the same from nothing")
    print("the same rows" if rows_of(kept) == rows_of(anew) else "OTHER ROWS")


if __name__ == "__main__":
    main()
