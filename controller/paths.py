"""Where this tool keeps its files: a cache that can be deleted, and data that cannot be made again."""

import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "TRAINYARD_CACHE"
DATA_VARIABLE = "TRAINYARD_DATA"
RUNNERS_VARIABLE = "TRAINYARD_RUNNERS"
CONFIG_VARIABLE = "TRAINYARD_CONFIG"
_NAME = "trainyard"


def cache_folder() -> Path:
    """Environments, datasets and staged code; TRAINYARD_CACHE overrides the system's cache folder."""
    return _folder(CACHE_VARIABLE, platformdirs.user_cache_path(_NAME, appauthor=False))


def data_folder() -> Path:
    """Results; TRAINYARD_DATA overrides the system's data folder."""
    return _folder(DATA_VARIABLE, platformdirs.user_data_path(_NAME, appauthor=False))


def own_runners_folder() -> Path:
    """The user's own runners (``controller new runner``); TRAINYARD_RUNNERS overrides it."""
    return _folder(RUNNERS_VARIABLE, data_folder() / "runners")


def config_file() -> Path:
    """The user's settings for every folder; TRAINYARD_CONFIG overrides it."""
    return _folder(CONFIG_VARIABLE, platformdirs.user_config_path(_NAME, appauthor=False) / "trainyard.toml")


def state_folder() -> Path:
    """Logs of campaigns and of runners; below TRAINYARD_DATA when that is set."""
    chosen = os.environ.get(DATA_VARIABLE)
    return data_folder() / "state" if chosen else platformdirs.user_state_path(_NAME, appauthor=False)


def _folder(variable: str, default: Path) -> Path:
    chosen = os.environ.get(variable)
    return Path(chosen).expanduser().absolute() if chosen else default
