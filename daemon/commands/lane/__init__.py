"""`relevanced lane`: decisions of an operator about stopped lanes, a module for each subcommand."""
