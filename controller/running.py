"""The mark of a campaign that runs: whoever continues or removes it must have it first."""

from controller import paths
from controller.errors import UsageError
from controller.runtimes.locks import FileLock


def held(campaign_id: str) -> FileLock:
    """A context in which no other controller runs, continues or removes the campaign. It ends with this process,
    however that ends. Raises UsageError, on entry, where another has it."""

    def waiting() -> None:
        raise UsageError(f"campaign {campaign_id} is running", "wait for it, or end that controller first")

    return FileLock(paths.state_folder() / "logs" / campaign_id / "running", waiting)
