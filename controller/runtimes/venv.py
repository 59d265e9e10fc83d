"""Runtime of managed virtual environments: each runner's lock installed by uv, once, in the cache."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from controller import paths, preflight
from controller.catalog.runners import RunnerSpec
from controller.errors import ControllerError, HostError, UsageError
from controller.events import BuildProgress, Observer
from controller.hosts import Gpu
from controller.results import Environment
from controller.runtimes import availability, environments, service
from controller.runtimes.base import Availability, PreparedRunner
from controller.runtimes.builds import Job, build_all
from controller.runtimes.environments import Plan
from controller.runtimes.process import LocalRunner
from controller.runtimes.pythons import Pythons
from controller.runtimes.service import Staged

NAME = "venv"


class VenvRuntime:
    """See ``base.Runtime``."""

    name = NAME

    def __init__(self, cache: Path | None = None, gpu: Gpu | None = None) -> None:
        self._gpu = gpu
        self._cache = cache or paths.cache_folder()
        self._pythons = Pythons(self._cache)

    def availability(self, spec: RunnerSpec, device: str = "cpu") -> Availability:
        try:
            stands = environments.plan(spec, device, self._cache).stands()
        except UsageError as error:
            return Availability(False, error.message, error.hint)
        if device == "gpu" and self._gpu is not None:
            for check in preflight.gpu_checks(spec, self._gpu):
                if check.state == preflight.FAILED:
                    return Availability(False, check.text, check.remedy)
        return availability.check(spec, device, None if stands else self._pythons)

    def prepare(
        self, specs: Sequence[RunnerSpec], device: str, observe: Observer
    ) -> Mapping[str, PreparedRunner | ControllerError]:
        """Builds what does not stand yet; see ``base.Runtime``."""
        staged = service.stage(self._cache)
        plans: dict[str, Plan] = {}
        results: dict[str, PreparedRunner | ControllerError] = {}
        for spec in specs:
            try:
                plans[spec.name] = environments.plan(spec, device, self._cache)
            except UsageError as error:
                results[spec.name] = error
            else:
                if fault := spec.platform_fault(device):
                    results[spec.name] = HostError(f"{spec.name} {fault}")
        results |= self._unfit(plans.values(), device)
        results |= self._build({name: plan for name, plan in plans.items() if name not in results}, staged, observe)
        ready = {name: plan for name, plan in plans.items() if name not in results}
        return results | {name: _local_runner(plan, staged) for name, plan in ready.items()}

    def _unfit(self, plans: Iterable[Plan], device: str) -> dict[str, ControllerError]:
        """Those that could not compute on the GPU: nothing is downloaded for them."""
        if device != "gpu" or self._gpu is None:
            return {}
        return {
            plan.spec.name: HostError(f"{plan.spec.name}: {check.text}", check.remedy)
            for plan in plans
            for check in preflight.gpu_checks(plan.spec, self._gpu)
            if check.state == preflight.FAILED
        }

    def _build(self, plans: Mapping[str, Plan], staged: Staged, observe: Observer) -> dict[str, ControllerError]:
        missing = []
        for plan in plans.values():
            if plan.stands():
                observe(BuildProgress(plan.spec.name, "ready", fraction=1.0))
            else:
                missing.append(plan)
        jobs = [
            Job(plan.spec.name, partial(environments.build, plan, self._pythons, staged.folder))
            for plan in sorted(missing, key=_longest_first)
        ]
        return {name: error for name, error in build_all(jobs, observe).items() if error is not None}


def _longest_first(plan: Plan) -> tuple[bool, bool]:
    """What compiles for minutes begins first, then builds with CUDA, which are by far the largest downloads."""
    return (not plan.spec.prepare, not plan.spec.cuda)


def _local_runner(plan: Plan, staged: Staged) -> LocalRunner:
    staged.compile(plan.python, plan.spec.python)
    return LocalRunner(plan.spec, Environment(NAME, plan.identity(), str(plan.folder)), plan.launch(staged.folder))
