"""Commands beside the daemon, a module each: they use the core, and nothing imports them."""
