"""What manifests and entries hold, in words: for cards and for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zoo.models.config import Config, Preprocessing, ViTConfig

NOT_TRAINED = "random (seed {seed}): the shapes are real, the features mean nothing"


def worst(verification: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]]) -> str:
    """The worst of some comparisons, in the measure that counts."""
    if verification["measure"] == "cosine":
        return f"cosine {min(item['cosine'] for item in comparisons):.6f}"
    return f"{max(item['max_abs'] for item in comparisons):.1e}"


def limit(verification: Mapping[str, Any]) -> str:
    """What was asked of a file."""
    if verification["measure"] == "cosine":
        return f"cosine ≥ {verification['limit']}"
    return f"≤ {verification['limit']:.0e}"


def origin(weights: Mapping[str, Any]) -> str:
    """Where the weights come from."""
    if weights["kind"] == "random":
        return NOT_TRAINED.format(**weights)
    verdicts = {True: ", the published file", False: ", not the published file", None: ""}
    published = verdicts[weights.get("is_published_file")]
    if weights.get("is_embedded_file"):
        published = ", trained, from this package"
    return f"{weights['name']}, sha256 {weights['sha256'][:8]}…{published}"


def misses(record: Mapping[str, Any]) -> list[str]:
    """What looked like a pattern and was not fused."""
    return [f"not fused: {miss['pattern']}: {miss['reason']}" for miss in record["near_misses"]]


def build_rows(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    """Of every variant in a folder: name, megabytes, nodes, worst difference, speed."""
    sizes = {item["name"]: item["bytes"] for item in manifest.get("files", ())}
    speeds = manifest.get("speeds", {}).get("variants", {})
    for name, variant in manifest["variants"].items():
        verification = variant["verification"]
        ratio = speeds.get(name, {}).get("ratio")
        yield (
            name,
            f"{sum(sizes[file] for file in variant['files']) / 1e6:.1f}",
            str(variant["nodes"]),
            worst(verification, verification["comparisons"]),
            "" if ratio is None else f"x {ratio:.2f}",
        )


def steps(how: Preprocessing) -> str:
    """From a photograph to `pixel_values`, in words."""
    height, width = how.size
    to = f"{height} x {width}"
    if how.resize is not None:
        to = f"a shorter edge of {how.resize}, {to} cropped from the centre"
    depth = "" if how.rescale_first else ", in 8 bits"
    resized = f"resized to {to} ({how.resample}, antialiased{depth})"
    return f"RGB / 255, {resized}, mean {how.mean}, std {how.std}"


def positions(config: Config) -> str:
    """At which sizes a model knows where patches are, in words."""
    learned = config.positions if isinstance(config, ViTConfig) else None
    if learned is None:
        return "any size"
    side = learned.grid * config.stride
    return f"learned at {side} x {side}, interpolated for any other size"
