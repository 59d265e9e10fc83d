"""Reports for others: Markdown, CSV, JSON with its schema, and the commands that write them."""

import csv
import io
import json
import os
import re
from dataclasses import replace

import jsonschema
import pytest

from controller.cli import main
from controller.comparison import compare
from controller.report import csv_, json_, markdown
from controller.report.schema import schema
from controller.store import Store
from tests.unit.controller.made_up import (
    OTHER_WORK,
    PASSED,
    campaign,
    cell,
    certified,
    lost,
    measurement,
    trial,
    trials,
)
from tests.unit.controller.test_against import beside_several
from tests.unit.controller.test_reports import GOLDEN, several

HOSTILE = "a|b *c* _d_ <e> [f](g) `h` @somebody #12 ~~i~~ \\"


# --- Markdown ----------------------------------------------------------------------------------------------


def test_markdown_as_a_whole():
    found = markdown.render(compare(*several()))
    path = GOLDEN / "compare.md"
    if os.environ.get("TRAINYARD_WRITE_GOLDENS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_markdown_tables_are_whole_whatever_a_text_holds():
    a, b = cell("a-1"), cell("b-1")
    text = markdown.render(
        compare(campaign(a, b, notes=(HOSTILE,)), [*trials(a, 1.0), *lost(b, "failed", "X", HOSTILE)])
    )
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in tables}) == 1
    # What it would mean as markup is gone, and no one is called.
    assert "@somebody" not in text and "#12" not in text and "<e>" not in text.replace("\\<e\\>", "")
    assert r"a\|b \*c\* \_d\_ \<e\> \[f\](g) \`h\` &#64;somebody &#35;12 \~\~i\~\~ \\" in text


def test_markdown_names_no_file_of_this_machine():
    assert "results.sqlite" not in markdown.render(compare(*several()))


# --- CSV ---------------------------------------------------------------------------------------------------


def rows_of(comparison, entries):
    return list(csv.DictReader(io.StringIO(csv_.render(comparison, entries))))


def test_csv_has_a_row_for_each_trial():
    whole, entries = several()
    rows = rows_of(compare(whole, entries), entries)
    assert [row["trial"] for row in rows] == [entry.id for entry in entries]
    first, failed = rows[0], next(row for row in rows if row["state"] == "failed")
    assert (first["runner"], first["workload"], first["jit"]) == ("tensorflow-2.6.0", "mlp-mnist", "false")
    assert float(first["measured_seconds"]) == 31.2
    assert float(first["step_seconds_median"]) == 31.2 / 200
    assert (first["phase_import_seconds"], first["memory_host_rss_peak_bytes"]) == ("2.5", str(512 * 2**20))
    assert (first["version_torch"], first["memory_device_peak_bytes"]) == ("1.11.0", "")
    assert (failed["measured_seconds"], failed["reason"]) == ("", "PROCESS_DIED")
    assert all(None not in row for row in rows)


def test_csv_leaves_what_is_not_finite_empty_and_quotes_texts():
    where = cell("a-1")
    run = replace(measurement(1.0), test_loss=float("nan"))
    entries = [trial(where, 0, run=run), *lost(where, "failed", "X", 'two, "lines"\nhere', count=1)]
    rows = rows_of(compare(campaign(where), entries), entries)
    assert (rows[0]["test_loss"], rows[1]["message"]) == ("", 'two, "lines"\nhere')


def test_csv_of_a_campaign_without_trials_has_names_only():
    assert csv_.render(compare(campaign(cell("a-1")), []), []) == "campaign,trial\n"


# --- JSON --------------------------------------------------------------------------------------------------


def documents():
    whole, entries = several()
    yield json_.document(compare(whole, entries), entries)
    yield json_.document(compare(whole, []), [])
    comparison, entries, against = beside_several()
    yield json_.document(comparison, entries, "", against)
    a, b = cell("a-1"), cell("b-1")
    odd = [replace(entry, identity=replace(entry.identity, data_digest="00" * 32)) for entry in trials(b, 1.0, 2.0)]
    whole = certified(replace(campaign(a, b), until_precision=0.02, max_trials=9), PASSED, PASSED)
    yield json_.document(compare(whole, [*trials(a, 3.0, 4.0), *odd]), odd)
    run = replace(measurement(1.0), test_loss=float("nan"), step_seconds=())
    entries = [trial(a, 0, run=run)]
    yield json_.document(compare(certified(campaign(a), OTHER_WORK), entries), entries)


def test_documents_are_as_the_schema_says():
    whole = schema()
    jsonschema.Draft202012Validator.check_schema(whole)
    validator = jsonschema.Draft202012Validator(whole)
    for document in documents():
        # As a reader has it: through text.
        assert [error.message for error in validator.iter_errors(json.loads(json.dumps(document)))] == []


def closed(value):
    """The schema with no further keys allowed."""
    if isinstance(value, list):
        return [closed(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    changed = {key: closed(entry) for key, entry in value.items()}
    return {**changed, "additionalProperties": False} if isinstance(changed.get("properties"), dict) else changed


def test_the_schema_names_every_key():
    validator = jsonschema.Draft202012Validator(closed(schema()))
    for document in documents():
        assert [error.message for error in validator.iter_errors(json.loads(json.dumps(document)))] == []


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda document: document.pop("rows"), "'rows' is a required property"),
        (lambda document: document.update(version=2), "1 was expected"),
        (lambda document: document["rows"][0].update(ratio="1.0"), "'1.0' is not of type"),
        (lambda document: document["trials"][0]["measurement"].pop("phases"), "is not valid under any"),
        (lambda document: document["campaign"].pop("threads"), "'threads' is a required property"),
    ],
)
def test_the_schema_refuses_what_is_not_such_a_document(change, part):
    document = json.loads(json.dumps(next(documents())))
    change(document)
    found = [error.message for error in jsonschema.Draft202012Validator(schema()).iter_errors(document)]
    assert any(part in message for message in found)


# --- the commands ------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "data" / "results.sqlite")
    whole, entries = several()
    for name in ("2023-1", whole.id):
        store.add_campaign(replace(whole, id=name, created_at=f"{name[:4]}-01-02T00:00:00Z"))
        for number, entry in enumerate(entries):
            store.add_trial(replace(entry, id=f"{name}-{number}", campaign=name, position=number))
    return store


def run(capsys, *words, code=0):
    assert main.run(words) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def test_markdown_is_what_is_written_without_a_wish(kept, capsys):
    assert run(capsys, "report").startswith("### mlp-mnist: mnist, batch 32")
    assert "- stored: campaign 2023-1" in run(capsys, "report", "2023")


@pytest.mark.parametrize(
    ("name", "begin"),
    [("a.md", "### mlp"), ("a.csv", "campaign,trial,"), ("a.JSON", "{"), ("a.html", "<!doctype html>")],
)
def test_the_form_is_what_the_file_ends_in(kept, capsys, tmp_path, name, begin):
    assert run(capsys, "report", "-o", name) == ""
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begin)


def test_the_form_can_be_named(kept, capsys, tmp_path):
    run(capsys, "report", "--format", "csv", "-o", "a.txt")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8").startswith("campaign,trial,")
    document = json.loads(run(capsys, "report", "-f", "json"))
    jsonschema.validate(document, json.loads(run(capsys, "schema")))


def test_a_report_can_stand_beside_other_numbers(kept, capsys):
    kept.tag("2023-1", "before")
    assert "| before s |" in run(capsys, "report", "--against", "before")
    assert "RTX 3090 s" in run(capsys, "report", "--against", "published:ttj-1")
    assert "is the campaign itself" in run(capsys, "report", "--against", "2024", code=2)
    assert "before s" in run(capsys, "report", "-f", "html", "--against", "before")


@pytest.mark.parametrize("words", [["report", "-o", "nowhere/a.md"], ["report", "nothing"], ["report", "-f", "pdf"]])
def test_mistakes_are_one_line(kept, capsys, words):
    err = run(capsys, *words, code=2)
    assert err.startswith("error: ") and err.count("\n") == 1


def test_published_tables_with_what_was_not_the_same(tmp_path, monkeypatch, capsys):
    text = run(capsys, "published", "ttj-2")
    assert re.search(r"TensorFlow +2\.6\.0 +RTX 3090 +Linux +no JIT +88, 85 +86\.50 +1\.00 +9\.8", text)
    assert "note: TensorFlow's labels were divided by 255" in text and "source: " in text
    assert run(capsys, "published").count("\nsource: ") == 10
    document = json.loads(run(capsys, "published", "bilstm-imdb", "--json"))
    (table,) = document["tables"]
    assert (table["measure"], len(table["rows"])) == ("seconds_per_epoch", 10)
    assert table["rows"][0]["median_seconds"] == 310.3
    assert "unknown published table" in run(capsys, "published", "ttj-9", code=2)
