"""`relevanced doctor`: looks at topics before anything is configured, and proposes what to do."""
