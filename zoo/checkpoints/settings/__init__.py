"""A model's hyperparameters as other libraries write them."""
