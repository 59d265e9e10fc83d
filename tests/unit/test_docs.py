"""The documentation holds together: what is generated is of now, links lead somewhere, every page is on the site."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "docker" / "README.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]*))?\)")


def reference():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "site" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_workload_reference_is_that_of_the_proto():
    made = reference()
    text = made.page(made.SOURCE.read_text(encoding="utf-8"))
    assert made.PAGE.read_text(encoding="utf-8") == text, "run python docs/site/reference.py"


def test_the_workload_reference_has_every_operation():
    from trainyard.v1 import workload_pb2

    text = (DOCS / "workload-reference.md").read_text(encoding="utf-8")
    named = [(workload_pb2.Layer, "op"), (workload_pb2.Optimizer, "kind"), (workload_pb2.Dataset, "kind")]
    for message, group in named:
        for field in message.DESCRIPTOR.oneofs_by_name[group].fields:
            assert f"### `{field.name}`\n" in text
            assert all(f"- `{each.name}` (" in text for each in field.message_type.fields)


def test_a_line_of_the_proto_that_is_not_understood_is_refused():
    with pytest.raises(ValueError, match="not understood: map<string, int64> more = 2;"):
        reference().parse("message A {\n  int64 one = 1;\n  map<string, int64> more = 2;\n}\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            file = page.parent / target
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


def anchors(file):
    """Of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_on_the_site():
    listed = (DOCS / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f": {page.name}\n" in listed, page.name


def test_the_example_of_a_workload_file_is_one(tmp_path):
    from controller.catalog import workloads

    block = re.search(r"```toml\n(.*?)```", (DOCS / "workload-files.md").read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "my.toml"
    file.write_text(block[1], encoding="utf-8")
    assert workloads.find(str(file)).name == "my-cnn"
