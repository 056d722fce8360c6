"""Applications of exported files: `embed` with search, `site`, `show` and `bench`."""
