"""A Sphinx extension that makes a page of each notebook: its text, its code, and the output stored in it.

`make notebooks` executes notebooks; nothing is executed here. Outputs are text, Markdown or PNG. A link to a
notebook leads to its file in a clone, and to its page on the site.
"""

import base64
import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

FOLDER = Path(__file__).parent / "notebooks"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", write)
    app.connect("source-read", relink)
    return {"parallel_read_safe": True}


def write(app: Sphinx) -> None:  # noqa: ARG001 (Sphinx passes it)
    """Write the page and the pictures of each notebook; leave unchanged files alone."""
    files: dict[str, bytes] = {}
    for path in sorted(FOLDER.glob("*.ipynb")):
        files |= page(path.stem, json.loads(path.read_text("utf-8")))
    for path in FOLDER.iterdir():
        if path.suffix in {".md", ".png"} and path.name not in files:
            path.unlink()
    for name, content in files.items():
        path = FOLDER / name
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def relink(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001 (Sphinx passes both)
    """Make links to notebooks lead to their pages."""
    source[0] = re.sub(r"(notebooks/\w+)\.ipynb\)", r"\1.md)", source[0])


def page(stem: str, notebook: dict[str, Any]) -> dict[str, bytes]:
    """Return the files of a notebook's page by name: the page in MyST, and its pictures."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                alt = cell["metadata"]["alt"]
                parts.append(f"![{alt}]({name})")
            elif "text/markdown" in data:
                parts.append("".join(data["text/markdown"]))
            else:
                text = "".join(output.get("text") or data["text/plain"])
                parts.append(f"```text\n{text.rstrip()}\n```")
    parts.append(f"The notebook itself: {{download}}`{stem}.ipynb`.")
    return {f"{stem}.md": ("\n\n".join(parts) + "\n").encode(), **pictures}
