"""The commands of `python -m simulators`, one file each, with `run`; `arguments` has their arguments."""
