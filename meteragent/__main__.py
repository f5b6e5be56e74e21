"""`python -m meteragent` is the command `meteragent`."""

from meteragent.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
