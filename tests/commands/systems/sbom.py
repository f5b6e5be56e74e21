"""Bills of materials in the form of CycloneDX: what an image, an environment or a system really contains.

`parts` reads the metadata of installed packages: Python's distributions, Debian's packages, and the script
that the agent's page contains. `text` writes them, in the order of their names, and checks the result against
the published schema.
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.parser import Parser
from typing import Final, NamedTuple

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tests.commands.systems.debian import Failed

DPKG: Final = "var/lib/dpkg/status"
DEBIAN_PYTHON: Final = "usr/lib/python3/"
"""Where Debian's packages put distributions of Python; dpkg lists these packages already."""
NAMES: Final = uuid.UUID("6d0c5a52-4f0e-5d3c-9d52-0c6c1f3c7a11")
"""The name space of serial numbers, which are made of the content."""
LICENSE_CHARACTERS_MAX: Final = 60
"""The longest text that is taken for the name of a license, not for the license itself."""


class Part(NamedTuple):
    """An installed package: how package URLs name it, its license, and the packages that it needs."""

    kind: str
    name: str
    version: str
    license: str = ""
    architecture: str = ""
    needs: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()

    @property
    def url(self) -> PackageURL:
        """The package URL."""
        qualifiers = {"arch": self.architecture} if self.architecture else {}
        space = "debian" if self.kind == "deb" else None
        return PackageURL(self.kind, space, self.name, self.version, qualifiers)


class Subject(NamedTuple):
    """What a bill is of: a file with its digest, or an image."""

    name: str
    version: str
    is_image: bool = False
    sha256: str = ""


# Read -----------------------------------------------------------------------------------------------


def has_metadata(path: str) -> bool:
    """Return whether a file below a root says what is installed."""
    if path.endswith(".dist-info/METADATA"):
        return not path.startswith(DEBIAN_PYTHON)
    return path == DPKG


def parts(files: Iterable[tuple[str, bytes]]) -> set[Part]:
    """Return the packages that files with metadata describe; paths are relative to a root."""
    all_parts: set[Part] = set()
    for path, content in files:
        metadata = content.decode(errors="replace")
        if path == DPKG:
            all_parts |= {debian_part(fields) for fields in debian_fields(metadata)}
        else:
            all_parts.add(python_part(metadata))
    return all_parts


def python_part(metadata: str) -> Part:
    """Return the distribution that a METADATA file describes."""
    fields = Parser().parsestr(metadata, headersonly=True)
    named = " ".join((fields.get("License-Expression") or fields.get("License") or "").split())
    is_name = "License-Expression" in fields or len(named) <= LICENSE_CHARACTERS_MAX
    needs = (re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in fields.get_all("Requires-Dist", []))
    return Part(
        "pypi",
        normal(fields["Name"]),
        fields["Version"],
        named if is_name else "",
        needs=frozenset(map(normal, needs)),
    )


def normal(name: str) -> str:
    """Return the one form of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def debian_fields(status: str) -> Iterable[Mapping[str, str]]:
    """Yield the fields of each installed package of dpkg's status."""
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"(?m)^([\w-]+): (.*(?:\n .*)*)$", paragraph))
        if fields.get("Status") == "install ok installed":
            yield fields


def debian_part(fields: Mapping[str, str]) -> Part:
    """Return a package of Debian from the fields of its status."""
    depends = ", ".join(fields.get(field, "") for field in ("Depends", "Pre-Depends"))
    return Part(
        "deb",
        fields["Package"],
        fields["Version"],
        architecture=fields["Architecture"],
        needs=frozenset(re.findall(r"(?:^|[,|] *)([a-z0-9][a-z0-9.+-]+)", depends)),
        provides=frozenset(re.findall(r"(?:^|, *)([a-z0-9][a-z0-9.+-]+)", fields.get("Provides", ""))),
    )


def closure(all_parts: Iterable[Part], name: str) -> set[Part]:
    """Return a package of Debian and all that it needs, directly or not."""
    debian = [part for part in all_parts if part.kind == "deb"]
    providers: dict[str, set[Part]] = {}
    for part in debian:
        for provided in {part.name, *part.provides}:
            providers.setdefault(provided, set()).add(part)
    reached: set[Part] = set()
    waiting = list(providers[name])
    while waiting:
        part = waiting.pop()
        if part not in reached:
            reached.add(part)
            waiting += [provider for need in part.needs for provider in providers.get(need, ())]
    return reached


# Write ----------------------------------------------------------------------------------------------


def text(subject: Subject, all_parts: Iterable[Part], epoch_s: int) -> str:
    """Return the bill of a subject, as JSON. Raises Failed if the published schema refuses it.

    `epoch_s` is the time that it states. The same parts give the same text.
    """
    in_order = sorted(all_parts, key=lambda part: str(part.url))
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=subject.sha256)] if subject.sha256 else []
    subject_component = Component(
        name=subject.name,
        version=subject.version,
        type=ComponentType.CONTAINER if subject.is_image else ComponentType.APPLICATION,
        bom_ref="subject",
        hashes=hashes,
    )
    components = {part: component(part) for part in in_order}
    metadata = BomMetaData(component=subject_component, timestamp=datetime.fromtimestamp(epoch_s, UTC))
    serial_number = uuid.uuid5(NAMES, repr([subject, epoch_s, *(str(part.url) for part in in_order)]))
    bill = Bom(components=components.values(), metadata=metadata, serial_number=serial_number)
    dependencies = {part: direct(part, in_order) for part in in_order}
    for part, needs in dependencies.items():
        bill.register_dependency(components[part], [components[other] for other in needs])
    below = set().union(*dependencies.values()) if dependencies else set()
    bill.register_dependency(subject_component, [components[part] for part in in_order if part not in below])
    document = JsonV1Dot6(bill).output_as_string(indent=2)
    refusal = JsonStrictValidator(SchemaVersion.V1_6).validate_str(document)
    if refusal is not None:
        raise Failed(f"the bill of {subject.name} does not follow CycloneDX: {refusal}")
    return f"{document}\n"


def component(part: Part) -> Component:
    """Return a part as CycloneDX has it."""
    licenses = [LicenseFactory().make_from_string(part.license)] if part.license else []
    return Component(
        name=part.name,
        version=part.version,
        type=ComponentType.LIBRARY,
        purl=part.url,
        bom_ref=str(part.url),
        licenses=licenses,
    )


def direct(part: Part, all_parts: Iterable[Part]) -> list[Part]:
    """Return the parts of the same kind that a part needs directly."""
    return [
        other
        for other in all_parts
        if other.kind == part.kind and other != part and part.needs & {other.name, *other.provides}
    ]
