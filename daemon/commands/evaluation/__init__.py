"""`relevanced eval`: score TREC run files against judgements."""
