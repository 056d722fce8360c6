"""One module a model family, each a table of variants."""
