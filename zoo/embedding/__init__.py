"""From many pictures to a dataset of their vectors, which is made in shards."""
