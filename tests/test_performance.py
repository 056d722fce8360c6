"""The page about performance shows what was measured, and README the same."""

import json
from pathlib import Path

from benchmarks import performance

ROOT = Path(__file__).parents[1]
CONTENT = json.loads((ROOT / "docs" / "performance.json").read_text())


def test_the_page_and_readme_are_what_the_numbers_say():
    assert (ROOT / "docs" / "performance.md").read_text() == performance.render(CONTENT)
    readme = (ROOT / "README.md").read_text()
    assert readme == performance.with_table(readme, CONTENT)


def test_what_failed_is_told_and_not_drawn():
    row = {
        "seconds": 3.25,
        "processors": 4.0,
        "peak_mb": 1200,
        "mb": 86.5,
        "nodes": 287,
        "max_abs": 3e-6,
        "cosine": 1.0,
    }
    files = {"zoo, fused": row, "Optimum": {"failed": "it knows no dinov3_vit"}}
    timed = {"fastest_ms": 12.0, "median_ms": 13.0, "to_products": 1.2}
    speed = {"rounds": 5, "products_ms": 10.0, "files": {"zoo, fused": timed}}
    runs = [{"equations": 10**n, "nodes": 1, "seconds": 10.0 ** (n - 2)} for n in (1, 2, 3)]
    told = performance.render(
        {
            "date": "2026-01-01",
            "machine": "a machine",
            "versions": {"jax": "0.10"},
            "note": "The machine was busy.",
            "peers": {"optimum": "torch 2"},
            "files": {"dinov3_vits16": files},
            "speed": {"dinov3_vits16": {performance.USUAL[0]: speed}},
            "depth": {"ours, loops": runs, "jax2onnx, loops": runs[:1]},
        }
    )
    assert "**The machine was busy.**" in told
    assert "| zoo, fused | 1.20 |" in told and "| products, ms | 10.0 |" in told
    assert "| zoo, fused | 3.2 | 4.0 | 1,200 | 86.5 | 287 | 3.0e-06 | 1.00000 |" in told
    assert "Optimum failed: it knows no dinov3_vit" in told
    assert "| jax2onnx, loops | 10 equations: 0.1 s | not in time | not in time |  |" in told
    assert "1,000 equations: 10.0 s | 1.00 |" in told
    assert performance.depth_picture({"ours": runs}).width > 500
