"""The options of ``controller compare``, each with its help."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from controller.cli import completion

DEFAULT_WORKLOAD = "mlp-mnist"
TRIALS = 5
QUICK_TRIALS = 3
MAX_TRIALS = 30
PAUSE_SECONDS = 20.0


class Output(StrEnum):
    """Form of the result on standard output."""

    table = "table"
    json = "json"


class GroupBy(StrEnum):
    """What one table is of."""

    workload = "workload"
    runner = "runner"
    host = "host"


class DeviceKind(StrEnum):
    """What is trained on."""

    cpu = "cpu"
    gpu = "gpu"


class RuntimeKind(StrEnum):
    """How runners are had. ``auto`` takes what this machine can do."""

    auto = "auto"
    docker = "docker"
    venv = "venv"


PresetName = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="Measure a published table anew: its workload, runners, variants and device, with its numbers beside; "
        "every other option given wins over it. windows-vs-wsl2: give a --host for each of the two.",
        autocompletion=completion.preset_names,
    ),
]
Runners = Annotated[
    list[str] | None,
    typer.Option(
        "--runner",
        "-r",
        metavar="NAME",
        help="A runner; repeatable. Default: those this machine can have.",
        autocompletion=completion.runner_names,
    ),
]
Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        metavar="NAME|FILE.toml",
        help=f"A workload; repeatable. Default: {DEFAULT_WORKLOAD}; of verify all of the catalog.",
        autocompletion=completion.workload_names,
    ),
]
Variants = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="OPTIONS",
        help="Options of a run, such as 'jit', 'pipeline=memory' or 'jit,workers=0'; each --variant is a further "
        "row of every runner. 'default' is the row without any.",
    ),
]
Device = Annotated[DeviceKind | None, typer.Option(help="What to train on. Default: cpu.")]
GpuIndex = Annotated[int | None, typer.Option(min=0, metavar="N", help="Short for --device gpu with GPU number N.")]
Trials = Annotated[
    int | None,
    typer.Option(
        min=1, max=10_000, metavar="N", help=f"Trials of every row. Default: {TRIALS}, or {QUICK_TRIALS} with --quick."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--until-precision",
        metavar="PERCENT",
        help="Add blocks of trials, of all rows alike, until each row's time is known to this (95 %), such as 2%.",
    ),
]
MaxTrials = Annotated[
    int | None,
    typer.Option(min=2, max=10_000, metavar="N", help=f"Where --until-precision gives up. Default: {MAX_TRIALS}."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Shorten the schedule, for a first look.")]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Seed of initial weights and of the order of samples. Default: the workload's."),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option(
        "--seed",
        metavar="N",
        help="Seed of initial weights and of the order of samples; repeatable, each with a table of its own. Default: "
        "the workload's.",
    ),
]
OrderSeed = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Seed of the order of trials. Default: drawn afresh, and printed."),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=4096, metavar="N", help="Threads of each framework. Default: all cores it may use."),
]
Epochs = Annotated[int | None, typer.Option(metavar="N", help="Measured epochs, instead of the workload's.")]
Steps = Annotated[int | None, typer.Option(metavar="N", help="Measured steps, instead of the workload's.")]
BatchSize = Annotated[int | None, typer.Option(metavar="N", help="Batch size, instead of the workload's.")]
WarmupSteps = Annotated[int | None, typer.Option(metavar="N", help="Steps of warm-up, instead of the workload's.")]
OutputForm = Annotated[Output, typer.Option("--output", "-o", help="Form of the result.")]
DataFolder = Annotated[
    Path | None, typer.Option("--data-dir", metavar="FOLDER", help="Where dataset files are, such as mnist.npz.")
]
Interpreters = Annotated[
    list[str] | None,
    typer.Option(
        "--interpreter",
        metavar="NAME=PYTHON",
        help="Take your own Python, as it is, for runner NAME; or, where NAME is a framework such as pytorch, as one "
        "more row with the version that it has. Repeatable.",
    ),
]
Runtime = Annotated[
    RuntimeKind,
    typer.Option(
        help="How runners are had. auto: containers where a Docker engine answers and the device is a GPU or every "
        "runner has an image; else environments."
    ),
]
Host = Annotated[
    str,
    typer.Option(metavar="local|docker:CONTEXT", help="Where images are: this machine, or the engine of a context."),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="local|docker:CONTEXT|NAME=grpcs://HOST:PORT",
        help="Where runners run: this machine, the engine of a context, or a machine that serves; repeatable.",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", envvar="TRAINYARD_CERTIFICATE", help="This controller's certificate, for hosts that want one."
    ),
]
Exclusive = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME", help="Hosts that are one machine: refused if they are on different GPUs."),
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the campaign to a file, for controller diff and merge elsewhere."),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="What every container may take, such as memory=8g, cpus=2, cpuset=0-3 or shm=2g; repeatable.",
    ),
]
NoVerify = Annotated[
    bool,
    typer.Option(
        "--no-verify",
        help="Do not check first that the runners do the same work; the table then says that nothing proves it.",
    ),
]
PauseSeconds = Annotated[
    float,
    typer.Option(
        "--pause",
        min=0,
        max=3600,
        metavar="SECONDS",
        help="How long to wait, at most, before each trial until the machine is as quiet as in the beginning.",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Probe every runner again, whatever is known from before.")]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="CAMPAIGN|published[:NAME]",
        help="Put the numbers of another campaign, or of published tables, beside the rows, and say what differs.",
        autocompletion=completion.against_names,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME...", help="The columns of the table in their order, such as runner,seconds,ratio."),
]
Sort = Annotated[
    str | None,
    typer.Option(metavar="[-]NAME", help="Order the rows by this column; with - the largest first."),
]
Grouping = Annotated[GroupBy, typer.Option("--group-by", help="What one table is of.")]
ResumedCampaign = Annotated[str | None, typer.Argument(hidden=True, autocompletion=completion.campaign_names)]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue an interrupted campaign: --resume CAMPAIGN, by default the last one. Trials count as done "
        "only if workload, environment, device, host and the runner's source are still the same.",
    ),
]
Rerun = Annotated[bool, typer.Option("--rerun", help="With --resume: run every trial again.")]
RerunFailed = Annotated[bool, typer.Option("--rerun-failed", help="With --resume: run failed trials again too.")]
