"""Draw features as pictures: principal components as colours, similarity, and attention."""
