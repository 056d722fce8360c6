"""Files that appear whole or not at all. Uses `zoo.errors` only."""
