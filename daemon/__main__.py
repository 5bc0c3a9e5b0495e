"""`python -m relevanced.daemon` is `relevanced`."""

from .commands.cli import main

if __name__ == "__main__":
    main()
