"""``controller compare``: trains workloads on runners and prints the comparison."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from controller.cli import options, presets
from controller.cli.config import configured_words
from controller.cli.options import DEFAULT_WORKLOAD, MAX_TRIALS, QUICK_TRIALS, TRIALS, DeviceKind, Output, RuntimeKind
from controller.errors import UsageError

if TYPE_CHECKING:
    from controller.preparation import CompareRequest
    from controller.report.view import View


def compare(
    context: typer.Context,
    campaign: options.ResumedCampaign = None,
    *,
    preset: options.PresetName = None,
    runner: options.Runners = None,
    workload: options.Workloads = None,
    variant: options.Variants = None,
    device: options.Device = None,
    gpu: options.GpuIndex = None,
    trials: options.Trials = None,
    until_precision: options.Precision = None,
    max_trials: options.MaxTrials = None,
    quick: options.Quick = False,
    seed: options.Seeds = None,
    order_seed: options.OrderSeed = None,
    threads: options.Threads = None,
    epochs: options.Epochs = None,
    steps: options.Steps = None,
    batch_size: options.BatchSize = None,
    warmup_steps: options.WarmupSteps = None,
    output: options.OutputForm = Output.table,
    data_dir: options.DataFolder = None,
    interpreter: options.Interpreters = None,
    runtime: options.Runtime = RuntimeKind.auto,
    host: options.Hosts = None,
    exclusive: options.Exclusive = None,
    certificate: options.Certificate = None,
    limit: options.Limits = None,
    pause: options.PauseSeconds = options.PAUSE_SECONDS,
    no_verify: options.NoVerify = False,
    resume: options.Resume = False,
    rerun: options.Rerun = False,
    rerun_failed: options.RerunFailed = False,
    save: options.Save = None,
    against: options.Against = None,
    columns: options.Columns = None,
    sort: options.Sort = None,
    group_by: options.Grouping = options.GroupBy.workload,
) -> None:
    """Examples:

    \b
        controller compare --device cpu --quick
        controller compare --workload my.toml --runner pytorch-1.11.0 --runner jittor-1.3.1
        controller compare --resume

    Trains the same workloads on several runners and prints which is how fast.
    """
    from controller.report.view import view_of

    view = view_of(columns, sort, group_by.value)
    if resume:
        request = _resumed(context, campaign)
    else:
        _refuse_without_resume(context, campaign)
        chosen, decided = presets.chosen(context)
        request, against = _request(chosen, configured_words(context, decided)), chosen["against"]
    check_against(against, request.workloads)
    if save is not None:
        from controller.bundles.format import check_writable

        check_writable(save)
    raise typer.Exit(_carry_out(request, output, against, view, save))


def _request(chosen: Mapping[str, Any], settings: Sequence[str]) -> "CompareRequest":
    """From the values of all options, by their names in ``compare``; ``settings`` are words that stand for those that
    the command line does not say."""
    asked = asked_of(chosen)
    names = ("epochs", "steps", "batch_size", "warmup_steps")
    overrides = {name: chosen[name] for name in names}
    quick, seeds = chosen["quick"], chosen["seed"] or [None]
    asked["workloads"] = workloads_of(chosen["workload"] or [DEFAULT_WORKLOAD], quick, overrides, seeds)
    asked["runners"] = runner_names(chosen["runner"] or [])
    from controller import preparation
    from controller.cli import repeating

    drawn = preparation.new_seed() if chosen["order_seed"] is None else None
    order = chosen["order_seed"] if drawn is None else drawn
    command = repeating.command(sys.argv[1:], settings, drawn)
    return preparation.CompareRequest(order_seed=order, command=command, **asked)


def asked_of(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the request but workloads, runners and what is drawn or printed."""
    kind, index = device_of(chosen["device"], chosen["gpu"])
    wanted = hosts_of(chosen["host"] or [])
    if kind == "gpu" and any(each.is_local for each in wanted):
        from controller import hosts

        hosts.gpu(index or 0)  # a machine without one is told so before anything else happens
    precision = precision_of(chosen["until_precision"])
    return {
        "variants": variants_of(chosen["variant"] or []),
        "interpreters": interpreters_of(chosen["interpreter"] or []),
        "data_dir": folder_of(chosen["data_dir"]),
        "device": kind,
        "gpu_index": index,
        "trials": chosen["trials"] or (QUICK_TRIALS if chosen["quick"] else TRIALS),
        "threads": threads_of(chosen["threads"], wanted),
        "runtime": chosen["runtime"].value,
        "hosts": wanted,
        "exclusive": tuple(name for name in (chosen["exclusive"] or "").split(",") if name),
        "certificate": chosen["certificate"],
        "limits": limits_of(chosen["limit"] or []),
        "verify": not chosen["no_verify"],
        "pause_seconds": chosen["pause"],
        "calibrate": True,
        "until_precision": precision,
        "max_trials": chosen["max_trials"] or (MAX_TRIALS if precision else 0),
    }


def _resumed(context: typer.Context, name: str | None) -> "CompareRequest":
    """What continues a stored campaign: the options of its command, and all that it says itself."""
    from controller.cli import resume
    from controller.cli.campaigns import results_store

    resume.check_alone(context)
    campaign = results_store().find(name)
    chosen = resume.stored_options(campaign)
    chosen["data_dir"] = context.params["data_dir"] or chosen["data_dir"]
    from controller.preparation import CompareRequest

    return CompareRequest(**{**asked_of(chosen), **resume.as_stored(campaign), **_again(context)})


def _again(context: typer.Context) -> dict[str, bool]:
    """Which trials of a campaign that goes on are run again."""
    return {name: context.params[name] for name in ("rerun", "rerun_failed")}


def _refuse_without_resume(context: typer.Context, campaign: str | None) -> None:
    if campaign is not None:
        raise UsageError(f"got unexpected argument {campaign!r}", "see controller compare --help")
    for name, is_given in _again(context).items():
        if is_given:
            raise UsageError(f"--{name.replace('_', '-')} is only for --resume", "a new campaign runs every trial")


# --- options to values -------------------------------------------------------------------------------------


def device_of(device: DeviceKind | None, gpu: int | None) -> tuple[str, int | None]:
    if gpu is not None and device is DeviceKind.cpu:
        raise UsageError(f"--device cpu and --gpu {gpu} contradict each other", "give one of the two")
    if gpu is not None or device is DeviceKind.gpu:
        return "gpu", gpu or 0
    return "cpu", None


def workloads_of(
    names: list[str], quick: bool, overrides: dict[str, Any], seeds: Sequence[int | None]
) -> tuple[Any, ...]:
    """Workload messages: each name with each seed, None being the workload's own."""
    from controller.catalog import workloads

    found = [workloads.find(name, quick=quick) for name in dict.fromkeys(names)]
    return tuple(
        workloads.override(workload, **overrides, seed=seed) for workload in found for seed in dict.fromkeys(seeds)
    )


def runner_names(names: list[str]) -> tuple[str, ...]:
    from controller.catalog import runners

    return tuple(spec.name for spec in runners.select(names)) if names else ()


def variants_of(texts: list[str]) -> tuple[Any, ...]:
    from controller.results import Variant
    from controller.variants import parse_variant

    return tuple(dict.fromkeys(map(parse_variant, texts))) or (Variant(),)


def interpreters_of(pairs: list[str]) -> tuple[tuple[str, Path], ...]:
    """Pairs of a name and a file that exists; what they mean is ``runtimes.interpreter.resolve``'s to say."""
    found = []
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not name or not separator or not path:
            raise UsageError(f"--interpreter {pair!r} is not NAME=PYTHON", "write e.g. pytorch-1.11.0=/usr/bin/python3")
        file = Path(path).expanduser()
        if not file.is_file():
            raise UsageError(f"--interpreter {name}: there is no file {path}", "give the path of a Python program")
        found.append((name, file.absolute()))
    return tuple(found)


def precision_of(text: str | None) -> float | None:
    """A percentage as a fraction of 1. Raises UsageError."""
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = 0.0
    if not 0.0001 <= value <= 1:
        raise UsageError(f"--until-precision {text!r} is not between 0.01% and 100%", "write e.g. 2%")
    return value


def folder_of(path: Path | None) -> Path | None:
    if path is not None and not path.is_dir():
        raise UsageError(f"--data-dir {path} is not a folder", "give the folder that holds the dataset files")
    return path


def check_against(text: str | None, asked: Sequence[Any]) -> None:
    """Whether there is what ``--against`` names, before anything is trained. Raises UsageError."""
    if text is None:
        return
    from controller.catalog import against

    if against.is_published(text):
        against.tables(text, tuple(workload.name for workload in asked))
    else:
        from controller.cli.campaigns import results_store

        results_store().find(text)


def limits_of(pairs: list[str]) -> dict[str, str]:
    if not pairs:
        return {}
    from controller.runtimes import limits

    return limits.parse(pairs)


def hosts_of(texts: Sequence[str]) -> tuple[Any, ...]:
    from controller import addresses

    return addresses.parse_all(texts)


def threads_of(threads: int | None, wanted: Sequence[Any]) -> int:
    """All cores; 0 where those of other hosts have to be asked for first."""
    from controller import hosts

    if threads:
        return threads
    return 0 if any(each.is_served for each in wanted) else hosts.usable_cpus()


# --- the campaign and its report ---------------------------------------------------------------------------


def _carry_out(request: "CompareRequest", output: Output, against: str | None, view: "View", save: Path | None) -> int:
    from controller import campaign
    from controller.cli.campaigns import results_store
    from controller.cli.consoles import progress
    from controller.cli.reporting import print_comparison
    from controller.report.live import live

    store = results_store()
    try:
        with live(progress()) as observe:
            done = campaign.run(request, observe, store)
    except campaign.CampaignInterrupted as interrupted:
        print_comparison(interrupted.campaign, store, output, against, view)
        save_if_asked(interrupted.campaign.id, save)
        sys.stderr.write(f"to go on: controller compare --resume {interrupted.campaign.id}\n")
        raise
    is_sound = print_comparison(done, store, output, against, view)
    save_if_asked(done.id, save)
    return 0 if is_sound else 1


def save_if_asked(campaign_id: str, file: Path | None) -> None:
    if file is not None:
        from controller.cli.bundles import save_campaign

        save_campaign(campaign_id, file)
