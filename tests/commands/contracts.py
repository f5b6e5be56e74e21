"""Write the contract with receivers: `python -m tests.commands.contracts` makes docs/contracts/*.json.

It also renews the table of rules in docs/contracts.md.
"""

import json
from typing import Any

from meteragent.wire import contract
from tests.support.conformance_cases import cases
from tests.support.not_run import ROOT

FOLDER = ROOT / "docs" / "contracts"
PAGE = ROOT / "docs" / "contracts.md"
BEGIN, END = "<!-- the table, made by tests/commands/contracts.py -->\n", "<!-- end of the table -->\n"


def conformance() -> dict[str, Any]:
    """Return the content of the conformance file."""
    about = (
        "Give a receiver the messages of each case, in order and alone. It must refuse the case if there is"
        " `refused`, which names the rule; otherwise it must read the rows of `accepted`, and no more."
        " `value` and `kwh` are exact; `kwh` is null if no energy follows. docs/contracts.md has the rest."
    )
    return {"contract": contract.VERSION, "about": about, "rules": contract.RULES, "cases": cases()}


def files() -> dict[str, dict[str, Any]]:
    """Return the content of all files, by name."""
    schemas = {f"{name}.schema.json": schema for name, schema in contract.all_schemas().items()}
    return {**schemas, "asyncapi.json": contract.asyncapi_document(), "conformance.json": conformance()}


def text(content: dict[str, Any]) -> str:
    """Return a file's text."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def renewed(page: str) -> str:
    """Return the page with its table of rules generated again."""
    head, _, tail = page.partition(BEGIN)
    rows = "\n".join(f"| `{name}` | {rule} |" for name, rule in contract.RULES.items())
    table = f"\n| rule | what it requires |\n|---|---|\n{rows}\n\n"
    return head + BEGIN + table + END + tail.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
    FOLDER.mkdir(exist_ok=True)
    for name, content in files().items():
        (FOLDER / name).write_text(text(content))
