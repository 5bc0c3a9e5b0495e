"""`relevanced eval`: score TREC run files against judgements; every kernel stays in `metrics`."""
