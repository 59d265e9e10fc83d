"""What becomes of samples: numbers of the measured section, and reasons for those that do not exist."""

import os
import sys
import time

import pytest

from controller.flags import flags
from controller.results import Memory
from controller.telemetry import nvml, processors, sampler, summary
from controller.telemetry.readings import CpuReading, GpuReading
from tests.unit import fake_nvml
from tests.unit.controller.made_up import cell, measurement, trial
from tests.unit.wire import GPU


@pytest.fixture
def driver(monkeypatch):
    """Puts a driver in place of the one that is not here."""

    def put(made):
        monkeypatch.setitem(sys.modules, "pynvml", made)
        return made

    return put


def read():
    with nvml.Gpu(GPU) as gpu:
        return gpu.read(), gpu


def test_a_gpu_that_tells_everything(driver):
    made = driver(fake_nvml.data_centre(GPU, processes=[41, 42]))
    reading, gpu = read()
    assert reading.values == {
        "memory_bytes": 3 * 2**30, "utilisation": 0.97, "sm_clock_mhz": 1740, "memory_clock_mhz": 7250,
        "temperature_c": 61, "power_w": 271.43, "energy_j": 4_000_000, "event_reasons": 4,
    }  # fmt: skip
    assert (reading.processes, gpu.absent, gpu.total_bytes) == ({41, 42}, {}, 48 * 2**30)
    assert made.open == 0


def test_what_a_platform_does_not_define_is_absent_with_its_reason(driver):
    driver(fake_nvml.desktop_wsl2(GPU))
    reading, gpu = read()
    assert "power_w" not in reading.values and "energy_j" not in reading.values
    assert gpu.absent == {
        "power_w": "NVML: the driver's sign for a value that is not available", "energy_j": "NVML: Not Supported"
    }  # fmt: skip
    driver(fake_nvml.desktop_wddm(GPU))
    reading, gpu = read()
    assert reading.processes is None and "WDDM" in gpu.absent["processes"]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (None, "NVML: import of pynvml halted"),
        (fake_nvml.data_centre(GPU, Init=fake_nvml.NVMLError("Driver Not Loaded")), "NVML: Driver Not Loaded"),
        (fake_nvml.data_centre("GPU-other"), "NVML: Not Found"),
    ],
)
def test_without_a_driver_all_is_absent_and_nothing_breaks(driver, made, reason):
    driver(made)
    reading, gpu = read()
    assert (reading.values, reading.processes) == ({}, None)
    assert set(gpu.absent) >= {"memory_bytes", "energy_j", "processes"}
    assert all(text.startswith(reason) for text in gpu.absent.values())


def context(**absent):
    before = GpuReading({"memory_bytes": 2.0**30}, frozenset({7}))
    return summary.GpuContext(before, 8 * 2.0**30, absent, {7: None, 8: True, 9: False}.get)


def samples(**series):
    """Readings a tenth of a second apart, from the values of each name."""
    rows = zip(*series.values(), strict=True)
    return [(number / 10, GpuReading(dict(zip(series, row, strict=True)))) for number, row in enumerate(rows)]


def test_samples_become_the_numbers_of_a_trial():
    found = summary.gpu(
        samples(memory_bytes=[4e9, 6e9, 5e9], utilisation=[0.5, 1.0, 0.9], sm_clock_mhz=[1700.0, 1200.0, 1710.0],
                temperature_c=[60.0, 64.0, 62.0], power_w=[200.0, 260.0, 230.0], energy_j=[1000.0, 1023.0, 1046.0],
                event_reasons=[0.0, float(0x20), float(0x04 | 0x40)], memory_clock_mhz=[7000.0] * 3),
        0.4, (), context(),
    )  # fmt: skip
    values = found.values
    assert (values["gpu_memory_baseline_bytes"], values["gpu_memory_peak_bytes"]) == (2**30, 6e9)
    assert values["gpu_utilisation"] == pytest.approx(0.8) and values["gpu_utilisation_peak"] == 1.0
    assert (values["gpu_sm_clock_mhz"], values["gpu_sm_clock_min_mhz"]) == (1700, 1200)
    assert values["gpu_power_w"] == pytest.approx(230) and values["gpu_temperature_max_c"] == 64
    # 46 J in the 0.2 s between the first and the last sample, of 0.4 s.
    assert values["gpu_energy_j"] == pytest.approx(92)
    assert values["gpu_throttled_share"] == pytest.approx(2 / 3)
    assert values["gpu_power_capped_share"] == pytest.approx(1 / 3)
    assert "gpu_over_capacity_bytes" not in values
    assert found.absent == {"gpu_other_processes": summary.TOO_SHORT}


def test_a_section_without_samples_has_reasons_instead_of_zeros():
    found = summary.gpu([], 0.01, (), context(energy_j="NVML: Not Supported"))
    assert found.values == {"gpu_samples": 0, "gpu_memory_baseline_bytes": 2**30}
    assert found.absent["gpu_utilisation"] == summary.TOO_SHORT
    assert found.absent["gpu_energy_j"] == "NVML: Not Supported"
    assert summary.processor([], {}, "Linux").absent["cpu_busy_share"] == summary.TOO_SHORT


@pytest.mark.parametrize(
    ("pids", "count"), [({8}, 0), ({7, 8}, 1), ({8, 9}, 1), ({7, 8, 9}, 2), ({8, 11}, 0)],
    ids=["own", "there before", "of another", "both", "of a container"],
)  # fmt: skip
def test_only_processes_that_are_not_the_runners_are_others(pids, count):
    found = summary.gpu([(0.0, GpuReading({}, frozenset(pids)))], 0.4, (), context())
    assert found.values["gpu_other_processes"] == count


def test_more_than_the_device_has_is_told():
    taken = (Memory("allocator_reserved_peak", 9 * 2**30), Memory("host_rss_peak", 2**40))
    assert summary.gpu([], 0.4, taken, context()).values["gpu_over_capacity_bytes"] == 2 * 2**30


def test_shares_of_the_processors_are_of_the_section():
    readings = [(10.0, CpuReading(100.0, 4, 1.0, 50.0, 3000.0)), (12.0, CpuReading(106.0, 4, 1.4, 54.0, 2000.0))]
    found = summary.processor(readings, {}, "Windows")
    assert found.values == pytest.approx(
        {"cpu_samples": 2, "cpu_mhz": 2500, "cpu_mhz_min": 2000, "cpu_busy_share": 6 / 8, "cpu_steal_share": 0.05,
         "cpu_other_share": 0.25}
    )  # fmt: skip
    told = summary.processor(readings, {"cpu_other_share": 0.01, "cpu_steal_share": 0.0}, "Linux")
    assert "cpu_other_share" not in told.values and "cpu_other_share" not in told.absent


def test_the_processors_of_this_machine_can_be_read():
    first, second = processors.read(), processors.read(os.getpid())
    assert 0 < first.busy <= second.busy and first.count >= 1
    assert processors._tree_seconds(os.getpid()) > 0 and processors._tree_seconds(2**22 + 1) is None


def test_only_samples_of_the_measured_section_count(driver):
    # Utilisation is low before the section, and in evaluation after it.
    driver(fake_nvml.data_centre(GPU, gpu=97))
    with sampler.Sampler(GPU) as watching:
        for moment, share in ((1.0, 0.1), (2.1, 0.9), (2.9, 1.0), (3.3, 0.2)):
            watching._gpu_samples.append((moment, GpuReading({"utilisation": share})))
        run = measurement(1.0)
        run.phases.update(measure=1.0, evaluate=0.5)
        found = watching.measured(run, arrived=3.5)
    assert found.telemetry["gpu_samples"] == 2 and found.telemetry["gpu_utilisation"] == pytest.approx(0.95)
    assert {entry.kind: entry.size_bytes for entry in found.memory}["device_baseline"] == 3 * 2**30
    assert next(entry.reason for entry in found.memory if entry.kind == "device_peak") == summary.TOO_SHORT


def test_a_sampler_samples_until_the_result_is_there(driver, monkeypatch):
    monkeypatch.setattr(sampler, "GPU_SECONDS", 0.01)
    monkeypatch.setattr(sampler, "CPU_SECONDS", 0.01)
    made = driver(fake_nvml.data_centre(GPU, reasons=0x20, processes=[2**22 + 1]))
    with sampler.Sampler(GPU) as watching:
        watching.begin(os.getpid())
        while len(watching._cpu_samples) < 3:
            time.sleep(0.01)
        run = measurement(60.0)
        run.phases.update(measure=60.0, evaluate=0.0)
        found = watching.measured(run, time.monotonic())
        count = len(watching._gpu_samples)
    assert found.telemetry["gpu_samples"] == count >= 3 and watching._thread is None and made.open == 0
    assert found.telemetry["gpu_other_processes"] == 1
    assert 0 <= found.telemetry["cpu_busy_share"] <= 1.5
    assert ("governor" in found.conditions) != ("governor" in found.telemetry_absent)
    where = cell("a-1", device="gpu:0")
    assert [flag.name for flag in flags([trial(where, 0, run=found)], None)] == ["THROTTLED", "FOREIGN"]


def test_long_sections_are_sampled_less_often_instead_of_for_ever(driver, monkeypatch):
    monkeypatch.setattr(sampler, "CPU_SECONDS", 0.001)
    monkeypatch.setattr(sampler, "MAX_SAMPLES", 8)
    with sampler.Sampler() as watching:
        watching.begin()
        time.sleep(0.3)
        watching._end()
        assert 4 <= len(watching._cpu_samples) <= 8


def test_nothing_is_sampled_where_it_is_off():
    with sampler.Sampler(GPU, off="docker:far is another machine") as watching:
        watching.begin()
        found = watching.measured(measurement(1.0), 5.0)
    assert found.telemetry_absent == {"all": "docker:far is another machine"} and watching._thread is None
