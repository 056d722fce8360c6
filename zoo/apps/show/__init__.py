"""Features as pictures: principal components as colours, likeness, where the class token looks."""
