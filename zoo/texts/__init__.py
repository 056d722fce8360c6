"""From texts to `input_ids`, as a checkpoint's own `tokenizer.json` says. This costs no JAX."""
