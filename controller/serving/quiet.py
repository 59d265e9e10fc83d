"""Waits for this machine to be quiet between the trials of campaigns that controllers elsewhere run."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from controller import hosts
from controller.serving.limits import invalid
from controller.settling import Pause, look_at

MAX_SECONDS = 600.0
_MAX_CAMPAIGNS = 64


class Quiet:
    """The first call for a campaign finds its baseline."""

    def __init__(self) -> None:
        self._pauses: OrderedDict[tuple[str, str], Pause] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, campaign: str, gpu_uuid: str, seconds: float, is_wanted: Callable[[], bool]) -> str:
        """What the machine was not back at; empty where it was, or nobody wants to know any more. Raises Refusal."""
        if gpu_uuid and gpu_uuid not in [gpu.uuid for gpu in hosts.find_gpus().gpus]:
            raise invalid("gpu_uuid", "this host has no such GPU")
        if not 0 <= seconds <= MAX_SECONDS:
            raise invalid("seconds", f"0 to {MAX_SECONDS:g} s can be waited for")
        with self._lock:
            pause = self._pauses.pop((campaign, gpu_uuid), None) or Pause(seconds, look_at(gpu_uuid))
            self._pauses[campaign, gpu_uuid] = pause
            while len(self._pauses) > _MAX_CAMPAIGNS:
                self._pauses.popitem(last=False)
        return pause.wait(is_wanted)
