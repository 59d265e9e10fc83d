"""Several bundles as one, and bundles into the store: campaigns keep their ids, and none is ever changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.bundles.records import Saved, campaign_line, trial_line
from controller.errors import UsageError

if TYPE_CHECKING:
    from controller.store import Store


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of one campaign: new in the store, or there already, just the same."""

    saved: Saved
    is_new: bool


def united(sources: Iterable[tuple[str, Saved]]) -> tuple[Saved, ...]:
    """Campaigns of several sources (name, campaign), each once. Raises UsageError where two of one id differ."""
    found: dict[str, tuple[str, Saved]] = {}
    for name, saved in sources:
        first, known = found.setdefault(saved.campaign.id, (name, saved))
        if not is_same(known, saved):
            raise UsageError(
                f"campaign {saved.campaign.id} is not the same in {first} and {name}{_counts(known, saved)}",
                "leave one of them out",
            )
    return tuple(saved for _, saved in found.values())


def is_same(one: Saved, other: Saved) -> bool:
    """Whether both would be the same lines of a bundle, in whichever order the trials are."""
    return _lines(one) == _lines(other)


def into_store(sources: Sequence[tuple[str, Saved]], store: "Store") -> tuple[Merged, ...]:
    """Puts campaigns into the store, all or none. Raises UsageError where the store has one of the same id that is not
    the same, StoreError for a store that cannot be used."""
    wanted = united(sources)
    there = {campaign.id: campaign for campaign in store.campaigns()}
    result = []
    for saved in wanted:
        known = there.get(saved.campaign.id)
        if known is not None:
            here = Saved(known, tuple(store.trials(known.id)))
            if not is_same(here, saved):
                raise UsageError(
                    f"campaign {known.id} is in the store, and not the same there{_counts(here, saved)}",
                    f"controller rm {known.id} makes room for it",
                )
        result.append(Merged(saved, known is None))
    store.add_finished([(entry.saved.campaign, entry.saved.trials) for entry in result if entry.is_new])
    return tuple(result)


def _lines(saved: Saved) -> tuple[str, list[str]]:
    return campaign_line(saved.campaign), sorted(map(trial_line, saved.trials))


def _counts(one: Saved, other: Saved) -> str:
    """Trials of both, where that tells them apart: mostly one was saved before the campaign went on."""
    first, second = len(one.trials), len(other.trials)
    return f" ({first} and {second} trials)" if first != second else ""
