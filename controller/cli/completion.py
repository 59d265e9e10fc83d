"""What the shell completes: names of runners, workloads, campaigns and tags, settings. An error completes nothing."""

from collections.abc import Callable, Iterable

import typer

Complete = Callable[[typer.Context, list[str], str], list[str]]


def _completes(names: Callable[[], Iterable[str]]) -> Complete:
    """For ``autocompletion``: names that begin as what is typed. Nothing is printed into somebody's command line."""

    def complete(context: typer.Context, arguments: list[str], incomplete: str) -> list[str]:
        try:
            return sorted({name for name in names() if name.startswith(incomplete)})
        except Exception:  # whatever is broken is told by the command itself
            return []

    return complete


def _runners() -> Iterable[str]:
    from controller.catalog.runners import declared

    return declared()


def _workloads() -> Iterable[str]:
    from controller.catalog import workloads

    return workloads.names()


def _campaigns() -> Iterable[str]:
    from controller.cli.campaigns import results_store

    return [name for kept in results_store().history() for name in (kept.campaign.id, *kept.tags)]


def _against() -> Iterable[str]:
    from controller.catalog import published

    return ["published", *(f"published:{table.name}" for table in published.tables()), *_campaigns()]


def _presets() -> Iterable[str]:
    from controller.catalog.presets import PRESETS

    return PRESETS


runner_names = _completes(_runners)
workload_names = _completes(_workloads)
campaign_names = _completes(_campaigns)
against_names = _completes(_against)
preset_names = _completes(_presets)
