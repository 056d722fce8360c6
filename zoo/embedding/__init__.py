"""From many pictures to a dataset of their vectors: cut into shards, computed, put together once."""
