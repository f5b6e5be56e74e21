"""What a command lacks, and what installs it."""


def lacking(missing: ModuleNotFoundError, extra: str) -> str:
    """Return the sentence that names the missing module and the extra that has it."""
    return f"{missing.name} is missing: pip install 'meteragent-simulators[{extra}]'"
