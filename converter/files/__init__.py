"""Models as files: streamed, whole or not at all, two of them in a row."""
