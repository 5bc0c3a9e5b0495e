"""`relevanced simulate`: a model of search traffic, and where its events go."""
