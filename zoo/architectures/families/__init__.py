"""Published models of several kinds of networks."""
