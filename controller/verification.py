"""Certificates of cells: their runners are probed, the reference is too, and all are compared.

Each cell is compared with the reference, and each two cells of a workload with each other. Where there is no reference
the second alone is left, and of two that differ nothing says which is right.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from controller.certificate import PAIR_FACTOR, TOLERANCES, Noise, Tolerance, certify
from controller.errors import ControllerError
from controller.events import Note, Observer
from controller.execution import Settings
from controller.probing import ANY_ENVIRONMENT, Answer, Form, Prober, Runner, Task, is_unsupported
from controller.results import FAIL, PASS, UNSUPPORTED, Cell, CellCertificate, Certificate, Failure, Probe, Variant
from controller.runtimes.base import PreparedRunner
from controller.store import Store
from controller.wishes import REFERENCE

THE_REFERENCE = "the reference"
_PLAIN = Variant(workers=0, prefetch=1)
Runners = Mapping[tuple[str, str], PreparedRunner | ControllerError]


@dataclass(frozen=True, slots=True)
class Verified:
    """A certificate for every cell that there was something to compare with; ``notes`` say what is missing."""

    certificates: tuple[CellCertificate, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A cell, what its runner answered, and what the reference did: as it is, and from perturbed weights."""

    cell: Cell
    form: Form
    answer: Answer
    plain: Answer
    perturbed: Answer

    @property
    def tolerance(self) -> Tolerance:
        """Of the cell's arithmetic."""
        return TOLERANCES[self.cell.variant.precision]

    def noise(self) -> Noise | None:
        """How far rounding carries the numbers of this workload, where the reference could say so."""
        if isinstance(self.plain, Probe) and isinstance(self.perturbed, Probe):
            return Noise(self.plain, self.perturbed)
        return None


def verify_cells(
    cells: Sequence[Cell],
    prepared: Runners,
    forms: Mapping[str, Form],
    settings: Mapping[str, Settings],
    *,
    reference: Runner,
    observe: Observer,
    store: Store,
    fresh: bool = False,
) -> Verified:
    """Certificates of ``cells`` whose runners stand. ``prepared``: by host and runner, ``settings``: by host,
    ``forms``: by the digest of the cells' workload. ``reference`` gives the reference runner; it is called when one
    of its answers is not in the store. Raises nothing but KeyboardInterrupt and what is a bug."""
    tasks = {cell: _task(cell, runner, forms, settings[cell.host]) for cell, runner in _standing(cells, prepared)}
    oracles = {cell: _oracle_tasks(task, cell.variant) for cell, task in tasks.items()}
    groups: list[tuple[Runner, list[Task]]] = [(reference, [task for pair in oracles.values() for task in pair])]
    for place, runner in prepared.items():
        groups.append((_given(runner), [task for cell, task in tasks.items() if cell.place == place]))
    answers = Prober(observe, store, fresh=fresh).answers(groups)
    judged = [
        _Judged(cell, task.form, answers[task.key], *(answers[each.key] for each in oracles[cell]))
        for cell, task in tasks.items()
    ]
    certificates = _certificates(judged)
    notes = tuple(dict.fromkeys(_missing(judged, certificates)))
    for note in notes:
        observe(Note(note))
    return Verified(tuple(CellCertificate(cell, found) for cell, found in certificates.items()), notes)


# --- which probes ------------------------------------------------------------------------------------------


def _standing(cells: Sequence[Cell], prepared: Runners) -> Iterator[tuple[Cell, PreparedRunner]]:
    for cell in cells:
        runner = prepared[cell.place]
        if not isinstance(runner, ControllerError):
            yield cell, runner


def _given(runner: PreparedRunner | ControllerError) -> Runner:
    return lambda: runner


def _task(cell: Cell, runner: PreparedRunner, forms: Mapping[str, Form], settings: Settings) -> Task:
    form = forms[cell.workload_digest]
    return Task(cell.runner, runner.environment.digest, form, cell.variant, settings, host=cell.host)


def _oracle_tasks(task: Task, variant: Variant) -> tuple[Task, Task]:
    """The reference's two probes for a runner's."""
    settings = replace(task.settings, device="cpu", gpu_uuid="")
    plain = Task(REFERENCE, ANY_ENVIRONMENT, task.form, _PLAIN, settings)
    return plain, replace(plain, perturbation=TOLERANCES[variant.precision].perturbation)


# --- certificates ------------------------------------------------------------------------------------------


def _certificates(judged: Sequence[_Judged]) -> dict[Cell, Certificate]:
    found = {each.cell: certificate for each in judged if (certificate := _alone(each))}
    for first, second in combinations(judged, 2):
        # Variants that a probe does not depend on share one: there is nothing to compare.
        if first.form.work.digest == second.form.work.digest and first.answer is not second.answer:
            _pair(first, second, found)
    return found


def _alone(each: _Judged) -> Certificate | None:
    """A cell beside the reference; None where there is no reference to compare with."""
    form = each.form
    if isinstance(each.answer, Failure):
        if is_unsupported(each.answer):
            return Certificate(UNSUPPORTED, each.answer.message, probed=form.work.digest, cut=form.cut)
        text = f"its probe failed: {each.answer.reason} {each.answer.message}"
        return Certificate(FAIL, text, probed=form.work.digest, cut=form.cut)
    if not isinstance(each.plain, Probe):
        return None
    certificate = certify(
        each.answer, each.plain, form.model, each.tolerance, against=THE_REFERENCE, noise=each.noise()
    )
    return replace(certificate, cut=form.cut)


def _pair(first: _Judged, second: _Judged, found: dict[Cell, Certificate]) -> None:
    """Adds to the certificates of two cells what they have to do with each other. One that parts from the reference
    is known to be wrong: whoever differs from it is not to blame."""
    for one, other in ((first, second), (second, first)):
        if not isinstance(one.answer, Probe) or not isinstance(other.answer, Probe) or _is_wrong(other, found):
            continue
        looser = max(one.tolerance, other.tolerance, key=lambda tolerance: tolerance.loss)
        against = other.cell.placed()
        pair = certify(
            one.answer, other.answer, one.form.model, looser, against=against, noise=one.noise(), factor=PAIR_FACTOR
        )
        if not pair.against:  # rounding left nothing to compare
            continue
        found[one.cell] = _merged(found.get(one.cell), replace(pair, cut=one.form.cut))


def _is_wrong(each: _Judged, found: Mapping[Cell, Certificate]) -> bool:
    certificate = found.get(each.cell)
    return certificate is not None and certificate.state == FAIL and certificate.against[:1] == (THE_REFERENCE,)


def _merged(known: Certificate | None, pair: Certificate) -> Certificate:
    if known is None:
        return pair
    against = known.against + pair.against
    if known.state != PASS or pair.state == PASS:
        return replace(known, against=against)
    return replace(known, against=against, state=FAIL, text=pair.text, parting=pair.parting)


def _missing(judged: Sequence[_Judged], certificates: Mapping[Cell, Certificate]) -> Iterator[str]:
    """What could not be compared, in words."""
    for each in judged:
        if isinstance(each.plain, Failure):
            alone = "" if each.cell in certificates else ", and nothing else to compare with"
            name = each.form.model.workload.name
            yield f"{each.cell.placed()} on {name}: no reference ({each.plain.message}){alone}"
