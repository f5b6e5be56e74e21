"""What an index of packages shows of the README and of addresses: a metadata hook of hatchling.

A page of an index has no files next to it. Links to files of the repository become absolute where
`repository` in pyproject.toml is its address, and names of files where it is empty; pictures become absolute
or are left out. Links within the page stay.
"""

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

README: Final = "README.md"
VERSION: Final = r'(?m)^__version__ = "(.+)"$'
PAGES: Final = {
    "Source": "",
    "Documentation": "docs/index.md",
    "Changelog": "CHANGELOG.md",
    "Security": "SECURITY.md",
}
"""The addresses of the metadata, as paths in the repository."""

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>(?!https?:|mailto:|#)[^)\s]+)\)")


class Metadata(MetadataHookInterface):
    """Sets the text of the README and the addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both; without an address there are none."""
        repository = str(self.config.get("repository", "")).rstrip("/")
        source = (Path(self.root) / "meteragent" / "__init__.py").read_text(encoding="utf-8")
        tag = f"v{re.findall(VERSION, source)[0]}"
        text = (Path(self.root) / README).read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme(text, repository, tag),
        }
        if repository:
            metadata["urls"] = addresses(repository, tag)


def readme(text: str, repository: str, tag: str) -> str:
    """Return a text whose relative links lead to the files of a tag.

    Without an address, a link becomes its text with the file's name, and a picture is left out.
    """

    def replaced(link: re.Match[str]) -> str:
        picture, text, target = link["picture"], link["text"], link["target"]
        if repository:
            return f"{picture}[{text}]({repository}/{'raw' if picture else 'blob'}/{tag}/{target})"
        if picture or target in text:
            return "" if picture else text
        return f"{text} (`{target}`)"

    return re.sub(r"\n{3,}", "\n\n", _LINK.sub(replaced, text))


def addresses(repository: str, tag: str) -> dict[str, str]:
    """Return the addresses of the pages of a tag."""
    return {name: f"{repository}/blob/{tag}/{path}" if path else repository for name, path in PAGES.items()}
