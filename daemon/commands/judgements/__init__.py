"""`relevanced judgements` and `relevanced classes`: check dated files, and put them in place."""
