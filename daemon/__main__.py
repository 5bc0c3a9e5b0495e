"""`python -m relevanced.daemon` is `relevanced`."""

from relevanced.daemon.cli import main

if __name__ == "__main__":
    main()
