"""All checks of the contract by name, and how one is run. Python 3.6 syntax."""

import functools
import traceback
from collections import OrderedDict

from runners.core.adapter import Unsupported
from tests.contract import layer_checks, loader_checks, manner_checks, train_checks
from tests.contract.bench import LOSS, Bench, Deviation

PASS, FAIL, UNSUPPORTED = "PASS", "FAIL", "UNSUPPORTED"
# This check's losses are those of two processes, which must agree.
TWICE = "same-twice"


def _registry():
    checks = OrderedDict()
    checks["describe"] = manner_checks.check_describe
    for option in ("layout", "precision", "pipeline"):
        checks["refuses." + option] = functools.partial(manner_checks.check_refuses_option, option=option)
    checks["refuses.device"] = manner_checks.check_refuses_device
    for prefix, names, function in (
            ("layer", layer_checks.CASES, layer_checks.check_layer),
            ("optimizer", train_checks.OPTIMIZERS, train_checks.check_optimizer),
            ("optimizer-table", train_checks.TABLE_OPTIMIZERS, train_checks.check_table_optimizer),
            ("optimizer-silent", train_checks.SILENT_OPTIMIZERS, train_checks.check_silent_optimizer),
            ("model", train_checks.MODELS, train_checks.check_model),
            ("loader", loader_checks.LOADERS, loader_checks.check_loader)):
        for name in names:
            checks["{}.{}".format(prefix, name)] = functools.partial(function, name=name)
    checks["running-values"] = train_checks.check_running_values
    checks["evaluation"] = train_checks.check_evaluation
    checks["dropout-scale"] = train_checks.check_dropout_scale
    checks["arrays-kept"] = train_checks.check_arrays_kept
    checks["losses-later"] = train_checks.check_losses_later
    checks[TWICE] = train_checks.check_repeatable
    return checks


CHECKS = _registry()


def run(name, adapter_class, open_with):
    """Runs one check in this process. Returns {"outcome", "message", "losses"} and, of a crash, "trace"."""
    bench = Bench(adapter_class, open_with)
    try:
        CHECKS[name](bench)
    except Deviation as error:
        return {"outcome": FAIL, "message": str(error)}
    except Unsupported as error:
        return {"outcome": UNSUPPORTED, "message": str(error)}
    except Exception as error:  # whatever a framework raises is a finding
        return {"outcome": FAIL, "message": "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:300]),
                "trace": traceback.format_exc()}
    outcome = bench.outcome
    largest = "largest deviation {:.1e} ({})".format(outcome.deviation, outcome.where) if outcome.where else ""
    return {"outcome": PASS, "message": largest, "losses": [float(loss) for loss in outcome.losses]}


def agree(first, second):
    """The result of a check that was run twice: FAIL if the losses differ."""
    if first["outcome"] != PASS or second["outcome"] != PASS:
        return first if first["outcome"] != PASS else second
    for step, (one, other) in enumerate(zip(first["losses"], second["losses"]), 1):
        if abs(one - other) > LOSS * abs(one):
            return {"outcome": FAIL, "message": "loss of step {} is {:.8g}, then {:.8g}, for the same request".format(
                step, one, other)}
    return first
