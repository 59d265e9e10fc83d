"""Where results are kept: one SQLite file, a transaction after each trial, safe for several controllers at once."""

import re
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from controller.errors import StoreBusyError, StoreError, UsageError
from controller.results import Campaign, Failure, Probe, Trial

_BUSY_SECONDS = 30.0
# The n-th makes format n of format n - 1; a file is brought up to date when it is opened.
_MIGRATIONS = (
    """
CREATE TABLE campaigns (id TEXT PRIMARY KEY, created_at TEXT NOT NULL, content TEXT NOT NULL) STRICT;
CREATE TABLE trials (
    id TEXT PRIMARY KEY,
    campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    state TEXT NOT NULL,
    content TEXT NOT NULL,
    step_seconds BLOB NOT NULL
) STRICT;
CREATE INDEX trials_by_campaign ON trials (campaign, position);
""",
    """
CREATE TABLE probes (key TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT;
""",
    """
CREATE TABLE tags (name TEXT PRIMARY KEY, campaign TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE) STRICT;
CREATE INDEX tags_by_campaign ON tags (campaign);
""",
)
SCHEMA_VERSION = len(_MIGRATIONS)
# A campaign's id begins with a digit, so no tag is ever the beginning of one.
_TAG = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_OTHER_FOLDER = "choose another folder with TRAINYARD_DATA"
_RESERVED = "published"  # what --against takes for the published tables


@dataclass(frozen=True, slots=True)
class Kept:
    """A campaign in the store: its tags, and how many of its trials have ended in which state."""

    campaign: Campaign
    tags: tuple[str, ...]
    states: dict[str, int]


class Store:
    """The results file; made when it is not there. Raises StoreError for one that cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as connection:
                _migrate(connection, path)
        except (sqlite3.DatabaseError, OSError) as error:
            raise _unusable(path, error) from error

    def add_campaign(self, campaign: Campaign) -> None:
        """Keeps a campaign before its first trial."""
        with self._open() as connection:
            connection.execute(
                "INSERT INTO campaigns VALUES (?, ?, ?)",
                (campaign.id, campaign.created_at, _campaigns().dump_json(campaign).decode()),
            )

    def change_campaign(self, campaign: Campaign) -> None:
        """Keeps what became of a campaign that is continued; its trials stay."""
        content = _campaigns().dump_json(campaign).decode()
        with self._open() as connection:
            connection.execute("UPDATE campaigns SET content = ? WHERE id = ?", (content, campaign.id))

    def add_trial(self, trial: Trial, instead_of: str = "") -> None:
        """Keeps a trial that has ended, in place of an older one; all of it or nothing. Raises StoreError if its
        campaign is gone."""
        stripped, steps = _without_steps(trial)
        content = _trials().dump_json(stripped).decode()
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            known = connection.execute("SELECT 1 FROM campaigns WHERE id = ?", (trial.campaign,)).fetchone()
            if known is None:
                raise StoreError(f"campaign {trial.campaign} was removed while it ran", "start it again")
            connection.execute("DELETE FROM trials WHERE id = ?", (instead_of,))
            connection.execute(
                "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?)",
                (trial.id, trial.campaign, trial.position, trial.state, content, steps),
            )

    def add_finished(self, found: Iterable[tuple[Campaign, Iterable[Trial]]]) -> None:
        """Keeps whole campaigns of elsewhere, all of them or none. Raises StoreError where an id is taken."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for campaign, trials in found:
                content = _campaigns().dump_json(campaign).decode()
                connection.execute(
                    "INSERT INTO campaigns VALUES (?, ?, ?)", (campaign.id, campaign.created_at, content)
                )
                for trial in trials:
                    stripped, steps = _without_steps(trial)
                    row = (
                        trial.id,
                        trial.campaign,
                        trial.position,
                        trial.state,
                        _trials().dump_json(stripped).decode(),
                    )
                    connection.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?)", (*row, steps))

    def campaign(self, campaign_id: str) -> Campaign:
        """One campaign. Raises StoreError if there is none of that name."""
        with self._open() as connection:
            row = connection.execute("SELECT content FROM campaigns WHERE id = ?", (campaign_id,)).fetchone()
        if row is None:
            raise StoreError(f"there is no campaign {campaign_id!r} in {self.path}")
        campaign: Campaign = _read(_campaigns(), row[0])
        return campaign

    def campaigns(self) -> list[Campaign]:
        """All campaigns, the newest first."""
        with self._open() as connection:
            rows = connection.execute("SELECT content FROM campaigns ORDER BY created_at DESC, id DESC").fetchall()
        return [_read(_campaigns(), row[0]) for row in rows]

    def find(self, text: str | None) -> Campaign:
        """The campaign of that tag, id or unique beginning of an id; the last one for None. Raises UsageError."""
        with self._open() as connection:
            tagged = connection.execute("SELECT campaign FROM tags WHERE name = ?", (text,)).fetchone()
            rows = connection.execute("SELECT id FROM campaigns ORDER BY created_at DESC, id DESC").fetchall()
        ids: list[str] = [row[0] for row in rows]
        if not ids:
            raise UsageError(f"there is no campaign in {self.path} yet", "controller compare makes one")
        if text is None:
            return self.campaign(ids[0])
        found = [tagged[0]] if tagged else [name for name in ids if name.startswith(text) and text]
        if text in found:
            found = [text]
        if not found:
            raise UsageError(f"no campaign is called {text!r} or begins so", "controller history lists them")
        if len(found) > 1:
            few = ", ".join(found[:4]) + (", ..." if len(found) > 4 else "")
            raise UsageError(f"{len(found)} campaigns begin with {text!r}: {few}", "write more of it")
        return self.campaign(found[0])

    def history(self) -> list[Kept]:
        """All campaigns, the newest first, with their tags and how their trials ended."""
        with self._open() as connection:
            connection.execute("BEGIN")  # one moment for all three
            rows = connection.execute("SELECT content FROM campaigns ORDER BY created_at DESC, id DESC").fetchall()
            tags = connection.execute("SELECT campaign, name FROM tags ORDER BY name").fetchall()
            counts = connection.execute("SELECT campaign, state, count(*) FROM trials GROUP BY 1, 2").fetchall()
        found: list[Campaign] = [_read(_campaigns(), row[0]) for row in rows]
        return [
            Kept(
                campaign,
                tuple(name for owner, name in tags if owner == campaign.id),
                {state: count for owner, state, count in counts if owner == campaign.id},
            )
            for campaign in found
        ]

    def tag(self, campaign_id: str, name: str) -> str:
        """Gives a campaign a name. A name belongs to one campaign: returns the id of the one that loses it, or "".
        Raises UsageError for a name that could be mistaken."""
        if not _TAG.fullmatch(name) or name == _RESERVED:
            raise UsageError(
                f"tag {name!r} is not a letter followed by letters, digits, dots, dashes or underscores, at most 64"
                if name != _RESERVED
                else f"tag {name!r} means the published tables",
                "write e.g. before-upgrade",
            )
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            row = connection.execute("SELECT campaign FROM tags WHERE name = ?", (name,)).fetchone()
            if connection.execute("SELECT 1 FROM campaigns WHERE id = ?", (campaign_id,)).fetchone() is None:
                raise StoreError(f"there is no campaign {campaign_id!r} in {self.path}")
            connection.execute("INSERT OR REPLACE INTO tags VALUES (?, ?)", (name, campaign_id))
        return row[0] if row is not None and row[0] != campaign_id else ""

    def remove(self, campaign_id: str) -> None:
        """Removes a campaign with its trials and tags; all of it or nothing. It need not be there any more."""
        with self._open() as connection:
            connection.execute("DELETE FROM campaigns WHERE id = ?", (campaign_id,))

    def trials(self, campaign_id: str) -> list[Trial]:
        """The trials of a campaign that have ended, in the order in which they ran."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT content, step_seconds FROM trials WHERE campaign = ? ORDER BY position, rowid", (campaign_id,)
            ).fetchall()
        return [_with_steps(_read(_trials(), content), steps) for content, steps in rows]

    def keep_probe(self, key: str, answer: Probe | Failure) -> None:
        """Keeps what a runner answered to a probe, or why it cannot; ``key`` names all that the answer depends on."""
        with self._open() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO probes VALUES (?, ?)", (key, _answers().dump_json(answer).decode())
            )

    def probe(self, key: str) -> Probe | Failure | None:
        """What was kept under ``key``."""
        with self._open() as connection:
            row = connection.execute("SELECT content FROM probes WHERE key = ?", (key,)).fetchone()
        answer: Probe | Failure | None = None if row is None else _read(_answers(), row[0])
        return answer

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            with connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise _unusable(self.path, error) from error
        finally:
            connection.close()


def _unusable(path: Path, error: Exception) -> StoreError:
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        return StoreError(f"the folder of results, {path.parent}, cannot be used: {why}", _OTHER_FOLDER)
    hints = {
        sqlite3.SQLITE_BUSY: "end the program that holds it",
        sqlite3.SQLITE_FULL: "free space on its disk",
        sqlite3.SQLITE_IOERR: "free space on its disk, or check that disk",
        sqlite3.SQLITE_READONLY: "check its permissions",
    }
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of an extended code says more of the same
    hint = hints.get(code, f"move the file away, or {_OTHER_FOLDER}")
    may_pass = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return (StoreBusyError if may_pass else StoreError)(f"the results file {path} cannot be used: {error}", hint)


def _read(kind: Any, content: str) -> Any:
    """A record as it was kept. Raises StoreError for one that no version of this tool has written."""
    try:
        return kind.validate_json(content)
    except ValueError as error:
        line = str(error).splitlines()[0]
        raise StoreError(f"a record of the results file is damaged: {line}", "move the file away") from error


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreError(f"the results file {path} is from a newer Trainyard (format {version})", "upgrade trainyard")
    if version == 0:
        connection.execute("PRAGMA journal_mode = WAL")
    if version < SCHEMA_VERSION:
        # Two controllers may find an old file, or none, at the same moment: the second waits here, then it is new.
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for migration in _MIGRATIONS[version:]:
            for statement in migration.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _without_steps(trial: Trial) -> tuple[Trial, bytes]:
    """The trial without its step times, and these as compressed float32: most of a trial's size."""
    if trial.measurement is None:
        return trial, b""
    packed = zlib.compress(array("f", trial.measurement.step_seconds).tobytes())
    return replace(trial, measurement=replace(trial.measurement, step_seconds=())), packed


def _with_steps(trial: Trial, packed: bytes) -> Trial:
    if trial.measurement is None or not packed:
        return trial
    steps = array("f")
    steps.frombytes(zlib.decompress(packed))
    return replace(trial, measurement=replace(trial.measurement, step_seconds=tuple(steps)))


@cache
def _campaigns() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Campaign)


@cache
def _trials() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Trial)


@cache
def _answers() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Probe | Failure)
