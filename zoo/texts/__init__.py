"""Turn texts into `input_ids` with the `tokenizer.json` of a checkpoint.

No module here imports JAX.
"""
