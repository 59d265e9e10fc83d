"""What becomes of a runner's answer before it is compared."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from controller import probing
from controller.execution import Settings
from controller.results import Device, Failure


def asked(device, uuid=""):
    settings = Settings("campaign", device, uuid, 1, Path("logs"), "digest")
    return SimpleNamespace(request=lambda: None, settings=settings)


def answering(device):
    answer = SimpleNamespace(device=device)
    return SimpleNamespace(probe=lambda request, seconds: answer), answer


def test_an_answer_from_the_device_that_was_asked_for_counts():
    client, answer = answering(Device("gpu", uuid="GPU-1"))
    assert probing._ask(client, asked("gpu", "GPU-1")) is answer


@pytest.mark.parametrize("found", [Device("cpu"), Device("gpu", uuid="GPU-2"), Device()])
def test_an_answer_from_another_device_is_a_fallback(found):
    answer = probing._ask(answering(found)[0], asked("gpu", "GPU-1"))
    assert isinstance(answer, Failure) and answer.reason == "FALLBACK"
    assert "not on" in answer.message
