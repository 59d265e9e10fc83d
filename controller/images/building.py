"""Builds images on an engine, several at once: progress from the engine's own words, one failure stops no other."""

import contextlib
import os
import queue
import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from controller import paths
from controller.errors import BuildError, ControllerError, HostError
from controller.events import Observer
from controller.images import bases, contexts
from controller.images.recipes import ImagePlan
from controller.images.states import engine_errors, look
from controller.runtimes import engine as engines
from controller.runtimes.builds import Job, Slots, build_all
from controller.runtimes.engine import Engine
from controller.runtimes.engine_errors import translated
from controller.runtimes.locks import FileLock
from controller.runtimes.packages import Report

_POLL_SECONDS = 0.1
_TAIL_LINES = 20
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
# What a step is for people, and the part of the whole time that has passed when it begins.
_STAGES = (
    ("FROM", "base image", 0.10),
    ("apt-get install", "Debian packages", 0.11),
    ("-m venv", "creating the environment", 0.15),
    ("--no-build-isolation", "installing packages", 0.20),
    ("PREPARE_SOURCE", "preparing", 0.60),
    ("COPY --chown=10001:10001 runners", "copying the service", 0.95),
)
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def build(
    engine: Engine, plans: Sequence[ImagePlan], policy: str, observe: Observer
) -> Mapping[str, ControllerError | None]:
    """Builds all, and returns each runner's error or None. ``policy`` as in ``bases.ensure``."""
    jobs = [Job(plan.spec.name, partial(_job, engine, plan, policy)) for plan in sorted(plans, key=_longest_first)]
    return build_all(jobs, observe)


def _longest_first(plan: ImagePlan) -> tuple[bool, bool]:
    return (not plan.spec.prepare, not plan.spec.cuda)


def _job(engine: Engine, plan: ImagePlan, policy: str, slots: Slots, report: Report) -> None:
    def waiting() -> None:
        slots.check()
        report("waiting for its turn", None)

    lock = paths.cache_folder() / "images" / f"{plan.spec.name}-{plan.flavour}.lock"
    turn = slots.compiling if plan.spec.prepare else slots.downloading
    with FileLock(lock, waiting), turn(waiting):
        if look(engine, plan).is_ready:
            return  # Another controller has built it meanwhile.
        base_id = bases.ensure(engine, plan.spec.python, policy, slots, report)
        _Build(engine, plan, slots, report).run(base_id)


class _Build:
    """One build; what the engine prints goes to a log."""

    def __init__(self, engine: Engine, plan: ImagePlan, slots: Slots, report: Report) -> None:
        self._engine = engine
        self._plan = plan
        self._slots = slots
        self._report = report
        self._lines: list[str] = []
        self._error = ""
        self._fraction, self._stage = 0.1, ""
        self._log = paths.cache_folder() / "logs" / f"image-{plan.spec.name}-{plan.flavour}.log"

    def run(self, base_id: str) -> None:
        """Raises BuildError with the log's last lines, HostError when the engine fails, CancelledError."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        arguments = {**self._plan.arguments(base_id), **proxies(os.environ)}
        what = f"building {self._plan.reference}"
        try:
            with self._log.open("w", encoding="utf-8") as log:
                for event in _Stream(self._engine, self._plan, arguments, self._slots):
                    self._take(event, log.write)
        except engine_errors() as error:
            raise translated(error, what) from error
        if self._error:
            raise self._failure()
        if not look(self._engine, self._plan).is_ready:
            raise HostError(f"{what}: the image that came out is not what was asked for", f"see {self._log}")

    def _take(self, event: Mapping[str, Any], write: Callable[[str], object]) -> None:
        text = _COLOURS.sub("", str(event.get("stream") or event.get("status") or event.get("error") or ""))
        write(text if text.endswith("\n") else text + "\n" if text else "")
        self._lines += [line for line in text.splitlines() if line.strip()]
        del self._lines[:-200]
        if "error" in event:
            self._error = str(event["error"])
        for line in text.splitlines():
            self._progress(line)

    def _progress(self, line: str) -> None:
        if re.match(r"Step \d+/\d+ : ", line):
            for sign, stage, fraction in _STAGES:
                if sign in line:
                    self._stage, self._fraction = stage, max(self._fraction, fraction)
        elif match := re.match(r"\s*Downloading (?:.*/)?([A-Za-z0-9_.]+?)-\d\S* \((.+)\)", line):
            self._report(f"downloading {match[1]} ({match[2]})", self._fraction)
            return
        elif match := re.match(r"progress ([01](?:\.\d+)?)\s*(.*)", line):
            self._stage, self._fraction = match[2] or "preparing", 0.6 + 0.35 * float(match[1])
        self._report(self._stage or "building", self._fraction)

    def _failure(self) -> BuildError:
        tail = "\n".join(self._lines[-_TAIL_LINES:])
        if "no space left on device" in (tail + self._error):
            known = translated(self._error + " no space left on device", self._plan.spec.name)
            return BuildError(known.message, known.hint, tail)
        causes = [line for line in self._lines if re.match(r"\s*(ERROR|E|error):", line)]
        said = [line for line in self._lines[:-1] if not re.match(r"Step \d|Removing intermediate| --->", line)]
        cause = (causes or said or [self._error])[-1].strip()
        return BuildError(f"{self._plan.spec.name}: its image could not be built: {cause}", f"see {self._log}", tail)


class _Stream:
    """The engine's events of one build. Leaving it, also by an exception, ends the build on the engine."""

    def __init__(self, engine: Engine, plan: ImagePlan, arguments: Mapping[str, str], slots: Slots) -> None:
        self._slots = slots
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # A client of its own: one that is closed in the middle of an answer cannot be used again.
        self._client = engines.client(engine.address)
        self._response: Any = None
        self._thread = threading.Thread(target=self._read, args=(plan, arguments), daemon=True)

    def __iter__(self) -> Any:
        self._thread.start()
        try:
            while True:
                self._slots.check()
                with contextlib.suppress(queue.Empty):
                    event = self._events.get(timeout=_POLL_SECONDS)
                    if event is None:
                        return
                    if isinstance(event, Exception):
                        raise event
                    yield event
        finally:
            self._end()

    def _read(self, plan: ImagePlan, arguments: Mapping[str, str]) -> None:
        api = self._client.api
        follow = api._stream_helper

        def remember(response: Any, decode: bool = False) -> Any:
            self._response = response
            return follow(response, decode)

        api._stream_helper = remember
        try:
            events = api.build(
                fileobj=contexts.pack(plan),
                custom_context=True,
                dockerfile=contexts.DOCKERFILE,
                tag=plan.reference,
                buildargs=dict(arguments),
                rm=True,
                forcerm=True,
                decode=True,
                timeout=None,
            )
            for event in events:
                self._events.put(event)
            self._events.put(None)
        except Exception as error:  # handed over to the thread that reads the events
            self._events.put(error)

    def _end(self) -> None:
        """An engine ends a build whose client is gone; closing alone would not wake the thread that reads."""
        with contextlib.suppress(Exception):
            self._client.api._get_raw_response_socket(self._response)._sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(Exception):
            self._client.close()


def proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Proxy settings for the build, as Docker's own command line hands them over: not kept in the image. One on
    this machine's loopback address leads nowhere from inside a container."""
    found = {}
    for name in (*_PROXIES, *map(str.lower, _PROXIES)):
        value = environment.get(name, "")
        host = urlsplit(value if "://" in value else f"http://{value}").hostname or ""
        if value and (name.lower() == "no_proxy" or not re.match(r"localhost$|127\.|::1$", host)):
            found[name] = value
    return found
