"""Names that publishers give the tensors of models. This package contains only tables."""
