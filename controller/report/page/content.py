"""The body of the page as elements, and its figures by their id."""

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement

from controller.against import Against
from controller.comparison import Comparison, Group
from controller.report.beside import beside_columns, beside_lines
from controller.report.columns import ABSENT, Column, filled, number
from controller.report.hosts import host_lines
from controller.report.page import charts
from controller.report.page.charts import Curves, Figure
from controller.report.words import certificate_line, flag_lines, footer, heading
from controller.results import FAIL, PASS, UNSUPPORTED, Certificate
from controller.rows import Row

_WORDS = {PASS: "pass", FAIL: "FAIL", UNSUPPORTED: "not supported"}

_CAPTIONS = {
    "times": "Time. Bars are medians, whiskers their 95 % intervals, circles the trials.",
    "phases": "Phases. Medians over the trials; only the phase measure counts in the table.",
    "steps": "Step time. Medians of neighbouring steps over all trials; bands are quartiles. A double click shows all.",
    "losses": "Training loss. Means of neighbouring steps, first trial of each row.",
}


def page(comparison: Comparison, curves: Curves, against: Against | None) -> tuple[Element, dict[str, Figure]]:
    """The whole body; figures are drawn into the elements of their ids."""
    body = Element("body")
    figures: dict[str, Figure] = {}
    add(body, "a", "Skip to the first table", href="#results", class_="skip")
    _header(body, comparison)
    main = add(body, "main", id="results")
    for place, group in enumerate(comparison.groups):
        _workload(main, group, place, curves, against, figures)
    _certificates(main, comparison)
    _environments(main, comparison)
    foot = add(body, "footer")
    add(foot, "h2", "Setting")
    lines = [f"note: {note}" for note in comparison.campaign.notes]
    _list(foot, [*lines, *(against.lines if against else ()), *footer(comparison)])
    return body, figures


def add(parent: Element, name: str, text: str = "", **attributes: str) -> Element:
    """A new element at the end of ``parent``; ``class_`` is class, and other underscores are dashes."""
    found = SubElement(parent, name, {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()})
    found.text = text
    return found


def _header(body: Element, comparison: Comparison) -> None:
    head = add(body, "header")
    add(head, "h1", "Framework comparison")
    add(head, "p", f"Campaign {comparison.campaign.id} of {comparison.campaign.created_at}", class_="sub")
    tools = add(head, "div", class_="tools", role="search")
    label = add(tools, "label", "Filter rows ")
    add(label, "input", id="filter", type="search", placeholder="such as pytorch", autocomplete="off")
    add(tools, "span", "", id="count", role="status")
    add(tools, "button", "Theme: automatic", id="theme", type="button")


# --- one workload ------------------------------------------------------------------------------------------


def _workload(
    main: Element, group: Group, place: int, curves: Curves, against: Against | None, figures: dict[str, Figure]
) -> None:
    section = add(main, "section", id=f"workload-{place}")
    add(section, "h2", group.workload.name)
    add(section, "p", heading(group.workload), class_="sub")
    columns = (*filled(group.rows), *beside_columns(group, against))
    _comparison_table(section, group, columns)
    add(section, "p", group.verdict, class_="verdict")
    _list(section, _findings(group))
    if lines := [line.strip() for line in beside_lines(group, against)]:
        add(section, "h3", "Numbers of elsewhere")
        _list(section, lines)
    beside = against.groups.get(group.workload.digest) if against else None
    drawn = {
        "times": charts.times(group, curves, beside),
        "phases": charts.phases(group, curves),
        "steps": charts.steps(group, curves),
        "losses": charts.losses(group, curves),
    }
    for name, figure in drawn.items():
        if figure is not None:
            figures[f"{name}-{place}"] = figure
            _figure(section, f"{name}-{place}", _CAPTIONS[name], figure["layout"]["height"])
            if name == "phases":
                _phase_table(section, group, curves)


def _comparison_table(section: Element, group: Group, columns: Sequence[Column]) -> None:
    body = _table(section, f"Rows of {group.workload.name}", [(each.header, each.is_number) for each in columns])
    for row in group.rows:
        line = add(body, "tr")
        if state := _state(row, group):
            line.set("class", state)
        for column in columns:
            text = column.text(row) or ABSENT
            if column.key == "runner":
                add(line, "th", text, scope="row")
            else:
                add(line, "td", text, **({"class_": "number"} if column.is_number else {}))


def _state(row: Row, group: Group) -> str:
    if row.seconds is None or row.is_unequal:
        return "bad"
    if row.flags:
        return "doubtful"
    return "fastest" if group.fastest and row.label() == group.fastest else ""


def _findings(group: Group) -> Iterable[str]:
    yield from (f"problem: {problem.text()}" for problem in group.problems)
    for row in group.rows:
        yield from (f"{row.label()}: {text}" for text in (*flag_lines(row), row.text) if text)
    yield from host_lines(group)
    if line := certificate_line(group):
        yield line


def _figure(section: Element, name: str, caption: str, height: int) -> None:
    figure = add(section, "figure")
    add(figure, "figcaption", caption, id=f"{name}-caption")
    # Its height is said here too: on paper the library would take the chart's from an empty element.
    size = f"height: {height}px"
    add(figure, "div", id=name, class_="chart", style=size, role="img", aria_labelledby=f"{name}-caption")


def _phase_table(section: Element, group: Group, curves: Curves) -> None:
    table = charts.phase_table(group.rows, curves)
    names = list(dict.fromkeys(name for values in table.values() for name in values))
    details = add(section, "details")
    add(details, "summary", "Phases as numbers")
    headers = [("row", False), *((f"{name.replace('_', ' ')} s", True) for name in names)]
    body = _table(details, f"Phases of {group.workload.name}", headers)
    for label, values in table.items():
        line = add(body, "tr")
        add(line, "th", label, scope="row")
        for name in names:
            add(line, "td", number(values.get(name)), class_="number")


# --- all workloads -----------------------------------------------------------------------------------------


def _certificates(main: Element, comparison: Comparison) -> None:
    """A row for each label, a column for each workload; then every certificate with its numbers."""
    if all(row.certificate is None for row in comparison.rows):
        return
    section = add(main, "section", id="certificates")
    add(section, "h2", "Same work")
    add(section, "p", "Each row trained a few steps before it was timed, and was compared with a float64 reference.")
    headers = [group.workload.name for group in comparison.groups]
    if len(set(headers)) < len(headers):
        headers = [f"{group.workload.name}, seed {group.workload.seed}" for group in comparison.groups]
    body = _table(section, "Certificates", [("row", False), *((name, False) for name in headers)])
    found = [{row.label(): row for row in group.rows} for group in comparison.groups]
    for label in dict.fromkeys(row.label() for row in comparison.rows):
        line = add(body, "tr")
        add(line, "th", label, scope="row")
        for rows in found:
            word = _word(rows[label].certificate) if label in rows else ABSENT
            add(line, "td", word, class_=f"certificate {word.split()[0].lower()}")
    details = add(section, "details")
    add(details, "summary", "Certificates as numbers")
    headers = ["row", "workload", "result", "compared with", "largest deviations (allowed)", "why"]
    body = _table(details, "Certificates as numbers", [(name, False) for name in headers])
    for row in comparison.rows:
        if row.certificate is not None:
            _certificate(add(body, "tr"), row, row.certificate)


def _word(certificate: Certificate | None) -> str:
    return "not verified" if certificate is None else _WORDS.get(certificate.state, certificate.state)


def _certificate(line: Element, row: Row, certificate: Certificate) -> None:
    add(line, "th", row.label(), scope="row")
    largest = "; ".join(
        f"{each.kind} {'not finite' if each.deviation is None else f'{each.deviation:.0e}'} ({each.allowed:.0e})"
        for each in certificate.largest
    )
    against = ", ".join(certificate.against)
    for text in (row.workload.name, _word(certificate), against, largest, certificate.text):
        add(line, "td", text or ABSENT)


def _environments(main: Element, comparison: Comparison) -> None:
    section = add(main, "section", id="environments")
    add(section, "h2", "Environments")
    for row in comparison.rows:
        details = add(section, "details")
        add(details, "summary", f"{row.label()}, {row.workload.name}")
        table = add(details, "table", class_="facts")
        body = add(table, "tbody")
        for name, value in _facts(row):
            line = add(body, "tr")
            add(line, "th", name, scope="row")
            add(line, "td", value or ABSENT)


def _facts(row: Row) -> Iterable[tuple[str, str]]:
    if row.text:
        yield "result", row.text
    if row.environment:
        yield "runtime", row.environment.runtime
        yield "lock or image, sha256", row.environment.digest
        yield "location", row.environment.location
    if row.identity:
        device = row.identity.device
        yield "device", " ".join(filter(None, (device.kind, device.name, device.uuid)))
        yield "data, sha256", row.identity.data_digest
        yield "initial weights, sha256", row.identity.weights_digest
        yield "runner service, sha256", row.identity.service_digest
        yield from ((f"version of {name}", value) for name, value in sorted(row.identity.versions.items()))
        yield from sorted(row.identity.facts.items())
    yield from ((f"memory, {each.kind}", _memory(each.size_bytes, each.reason)) for each in row.memory)


def _memory(size: int | None, reason: str) -> str:
    return reason or "not defined" if size is None else f"{size:,} bytes"


# --- elements ----------------------------------------------------------------------------------------------


def _table(parent: Element, caption: str, headers: Sequence[tuple[str, bool]]) -> Element:
    """A table that can be sorted; returns its body. It scrolls by itself where the window is narrow."""
    scroll = add(parent, "div", class_="scroll", tabindex="0", role="region", aria_label=caption)
    table = add(scroll, "table", class_="sortable")
    add(table, "caption", caption)
    line = add(add(table, "thead"), "tr")
    for text, is_number in headers:
        cell = add(line, "th", scope="col", **({"class_": "number"} if is_number else {}))
        add(cell, "button", text, type="button")
    return add(table, "tbody")


def _list(parent: Element, lines: Iterable[str]) -> None:
    found = list(lines)
    if found:
        whole = add(parent, "ul")
        for line in found:
            add(whole, "li", line)
