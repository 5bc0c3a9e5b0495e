"""`relevanced backfill`: hours that the lanes do not have, from Kafka or from files."""
