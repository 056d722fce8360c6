"""A static site from built folders: a table, a page for each model, and a demo in the browser."""
