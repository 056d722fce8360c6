"""Write a static site for built folders: a table, pages of models, and a demo."""
