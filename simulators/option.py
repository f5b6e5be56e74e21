"""What options of several commands are read as."""

import argparse


def seed(text: str) -> int:
    """A seed: a whole number from 0 to 2^64 - 1; raises argparse's error for anything else."""
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to 2**64 - 1, not {text}")
    return int(text)


def positive(text: str) -> int:
    """A whole number above 0; raises argparse's error for anything else."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)
