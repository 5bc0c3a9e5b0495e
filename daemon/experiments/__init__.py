"""Experiments: who was dealt to which arm, what the arms came to, and what that says."""
