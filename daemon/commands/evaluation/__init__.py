"""`relevanced eval`: offline evaluation of TREC run files."""
