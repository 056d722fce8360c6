"""The one manifest of files and folders: its schema, how it is written and how it is read."""
