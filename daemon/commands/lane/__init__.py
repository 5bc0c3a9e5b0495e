"""`relevanced lane`: what a person tells lanes that have stopped, a module for each subcommand."""
