"""The kinds of values that settings have, and the rules that many settings share."""
