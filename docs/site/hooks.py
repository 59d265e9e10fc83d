"""Pages of the site that are files elsewhere in the repository, and links that hold in both places.

A link in a page is relative to the page's file in the repository, where people read it too. Here it becomes one to the
site's page, or plain text where the site has none (source files).
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# File in the repository -> page of the site.
ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "docker/README.md": "containers.md",
}
_PLACES = {page: source for source, page in ELSEWHERE.items()}
_DECISIONS = "decisions/index.md"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)((?:#[^)\s]*)?)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that lie elsewhere, and a list of decisions."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    lines = [f"- [{_title(path)}]({path.name})" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    text = "\n".join(["# Decisions", "", "What may surprise, and why it is so.", "", *lines, ""])
    files.append(File.generated(config, _DECISIONS, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """The page with its links turned to where they lead on the site."""
    place = page.file.src_uri
    known = {file.src_uri for file in files}
    return _LINK.sub(lambda link: _turned(link, place, known), markdown)


def _turned(link: "re.Match[str]", place: str, known: set[str]) -> str:
    mark, text, target, anchor = link.groups()
    if "://" in target or target.startswith("mailto:"):
        return link[0]
    folder = posixpath.dirname(_PLACES.get(place, f"docs/{place}"))
    source = posixpath.normpath(posixpath.join(folder, target))
    if not (ROOT / source).exists():
        return link[0]  # MkDocs says that it leads nowhere
    found = _DECISIONS if source == "docs/decisions" else ELSEWHERE.get(source, source.removeprefix("docs/"))
    if found not in known:
        return text
    return f"{mark}[{text}]({posixpath.relpath(found, posixpath.dirname(place) or '.')}{anchor})"


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
