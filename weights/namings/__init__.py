"""How publishers call the tensors of a model: tables only."""
