"""Parse and write XML safely: a document with a document type, which could define entities, is refused."""

import xml.etree.ElementTree as ET
from typing import Any, NoReturn

from meteragent.domain.errors import FormatError


class _TreeBuilder(ET.TreeBuilder):
    """A tree builder that refuses a document type before its content is read."""

    def doctype(self, *_: Any) -> NoReturn:
        """Refuse a document type."""
        raise FormatError("XML with a document type is refused: it could define entities")


def parse_document(content: bytes) -> ET.Element:
    """Parse a document. Raises FormatError, without quoting the document, if it is malformed or unsafe."""
    parser = ET.XMLParser(target=_TreeBuilder())  # noqa: S314 -- document types are refused
    try:
        parser.feed(content)
        root: ET.Element = parser.close()
    except ET.ParseError as error:
        raise FormatError(f"not well-formed XML: line {error.position[0]}") from None
    except (LookupError, ValueError):
        raise FormatError("not XML, or in an unknown encoding") from None
    return root


def add_child(parent: ET.Element, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    """Append an element to `parent`, and return the element."""
    element = ET.SubElement(parent, name, attributes)
    element.text = text
    return element


def encode_document(root: ET.Element) -> bytes:
    """Encode a document as UTF-8, with an indented line for each element."""
    ET.indent(root, " ")
    content: bytes = ET.tostring(root, "utf-8", xml_declaration=True)
    return content + b"\n"
