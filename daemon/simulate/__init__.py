"""Simulated search traffic."""
