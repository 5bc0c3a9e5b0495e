"""The API: the table of routes, and the answers, made off the event loop from one `Reading`."""
