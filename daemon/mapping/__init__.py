"""From records in a team's own format to events: tables of expressions, and what applies them."""
