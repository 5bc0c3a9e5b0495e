"""`relevanced judgements`: check files of judgements, and put them in place."""
