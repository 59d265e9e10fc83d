"""Where new runners are written: into the checkout that this controller runs from, else into the user's own folder."""

from dataclasses import dataclass
from pathlib import Path

from controller import paths
from controller.catalog.runners import RunnerSpec, runners_folder
from controller.errors import UsageError


@dataclass(frozen=True, slots=True)
class Place:
    """``folder`` holds one folder per framework; ``is_own``: it is the user's, not the checkout's ``runners``."""

    folder: Path
    is_own: bool

    def hint(self) -> str:
        """What has to be set so that the runners there are found; empty where nothing has."""
        if not self.is_own or self.folder == paths.own_runners_folder():
            return ""
        return f"they are found with {paths.RUNNERS_VARIABLE}={self.folder}"


def place(chosen: Path | None = None, current: Path | None = None) -> Place:
    """The place for new runners: ``chosen``; the checkout in the ``current`` folder, if the controller runs from it;
    else the user's own folder."""
    if chosen is not None:
        return Place(chosen.expanduser().absolute(), is_own=True)
    here = (current or Path.cwd()) / "runners"
    is_checkout = here.resolve() == runners_folder().resolve() and (here.parent / "pyproject.toml").is_file()
    return Place(here, is_own=False) if is_checkout else Place(paths.own_runners_folder(), is_own=True)


def refuse_taken(name: str, specs: dict[str, RunnerSpec]) -> None:
    """Raises UsageError for a name that a runner has."""
    if name in specs:
        raise UsageError(f"the runner name {name!r} is taken by {specs[name].folder / 'runner.toml'}", "take another")
