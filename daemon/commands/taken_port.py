"""What is said where another process listens at a port. Pure."""

from typing import Final

HIGHEST_PORT: Final = 65_535


def taken_port(port: int) -> str:
    """The message, with the way out."""
    return (
        f"Error: another process listens at port {port}: give another one, such as"
        f" --port {min(port + 1, HIGHEST_PORT)}, or --port 0 for any that is free"
    )
