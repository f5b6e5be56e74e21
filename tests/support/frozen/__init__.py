"""What leaves today, in files: `python -m tests.commands.frozen` writes them, and a test compares them.

`cases` and `special` have the configurations and the readings. `agent` runs them, `crowd` opens reports to a
crowd, `archive` releases archives, and `reports` asks `consume`, `check` and Home Assistant's discovery.
`files` has the contents of each file, and `layout` writes JSON that is read in diffs. Everything is driven as
users drive it: a configuration goes in as text, and messages come out as bytes.
"""
