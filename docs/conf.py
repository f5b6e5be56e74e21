"""The documentation site, which `make docs` builds: the repository's Markdown files, each where it lies.

The source folder is the repository's root, so a link between files works on the site as it does in a clone.
`reference` adds a page for each module with public names, `embed` one for each notebook.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from meteragent import __version__  # noqa: E402 (the path comes first)

project = "meteragent"
project_copyright = "the meteragent authors, Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "reference", "embed"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "benchmarks/README.md",
    "deploy/**README.md",
    "deploy/homeassistant/addon/meteragent/DOCS.md",
    "docs/**.md",
    "meteragent/**README.md",
    "proofs/README.md",
    "simulators/**README.md",
    "tests/README.md",
]
exclude_patterns = [".*", "build", "dist", "demo-out", "faults-logs"]

# GitHub makes the same anchors.
myst_heading_anchors = 5
myst_enable_extensions = ["colon_fence", "fieldlist"]

# Types in signatures are names without modules, which several modules may have.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = f"meteragent {release}"
html_copy_source = False
# Pages are at their files' paths; this folder has the index.html that leads to the first one.
html_extra_path = ["site"]
html_show_sphinx = False
