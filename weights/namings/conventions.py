"""Conventions: publishers and libraries, and the formats of files with their names."""

from weights.mapping import Convention

META = Convention("meta", "Meta (facebookresearch)", "pytorch")
EQUIMO = Convention("equimo", "Equimo", "equimo")
GOOGLE = Convention("google", "Google DeepMind")
ORIGINAL = Convention("original", "the authors", "pytorch")
HUGGINGFACE = Convention("huggingface", "Hugging Face transformers", "huggingface")
TIMM = Convention("timm", "timm")
EQUINOX = Convention("eqx", "Equinox", "equinox")
