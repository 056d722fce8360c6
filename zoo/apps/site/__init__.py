"""Write a static site for built folders: a table, a page for each model, and a demo in the
browser."""
