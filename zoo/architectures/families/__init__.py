"""Tables of what is published of several kinds of networks."""
