"""Checks an adapter against the reference, in its own framework's environment. Python 3.6 syntax; no pytest.

    python tests/contract/check.py runners.pytorch.adapter [--device cpu] [--check NAME] [--json]

Each check runs in a fresh process, for frameworks keep global state. Prints PASS, FAIL or UNSUPPORTED for each, with
the first layer that deviates. Exit code 0: nothing failed; 1: something did; 2: wrong use.
"""

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Not the folder of this script: its modules are `tests.contract.*`.
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.path.dirname(os.path.abspath(__file__))]
sys.path += [path for path in (ROOT, os.path.join(ROOT, "proto")) if path not in sys.path]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


def main(arguments=None):
    options = _options(arguments)
    from tests.contract import registry
    if options.result:
        _child(options)
        return 0
    if options.list:
        print("\n".join(registry.CHECKS))
        return 0
    chosen = [name for name in registry.CHECKS
              if not options.check or any(name == want or name.startswith(want + ".") for want in options.check)]
    if not chosen or not options.adapter:
        print("check.py: no check is called {}; --list shows them".format(", ".join(options.check or ["so"]))
              if options.adapter else "check.py: name the adapter's module, such as runners.pytorch.adapter",
              file=sys.stderr)
        return 2
    results = [_checked(name, options) for name in chosen]
    return _close(results, options)


def _options(arguments):
    parser = argparse.ArgumentParser(description="Checks an adapter against the reference.")
    parser.add_argument("adapter", nargs="?", help="module with ADAPTER, such as runners.pytorch.adapter")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gpu-uuid", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variant", action="append", default=[], metavar="OPTION=VALUE", help="such as jit=true")
    parser.add_argument("--check", action="append", help="a check, or the first word of several; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of all checks")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one check")
    parser.add_argument("--result", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _checked(name, options):
    """Runs a check in a process of its own, or in two, and prints its line."""
    from tests.contract import registry
    started = time.time()
    result = _spawn(name, options)
    if name == registry.TWICE:
        result = registry.agree(result, _spawn(name, options))
    result.update(name=name, seconds=round(time.time() - started, 2))
    if not options.json:
        print("{:11} {:32} {}".format(result["outcome"], name, result["message"]), flush=True)
        if result["outcome"] == registry.FAIL and result.get("trace"):
            print("    " + result["trace"].strip().replace("\n", "\n    "), flush=True)
    return result


def _spawn(name, options):
    """The result of one check in a fresh process; of a dead one, what it printed last."""
    folder = tempfile.mkdtemp(prefix="trainyard-check-")
    target, log = os.path.join(folder, "result.json"), os.path.join(folder, "log")
    command = [sys.executable, os.path.abspath(__file__), options.adapter, "--check", name, "--result", target,
               "--device", options.device, "--gpu-uuid", options.gpu_uuid, "--threads", str(options.threads)]
    for variant in options.variant:
        command += ["--variant", variant]
    try:
        with open(log, "wb") as output:
            ended = _run(command, output, options)
        if ended is not None and os.path.exists(target):
            with open(target, encoding="utf-8") as file:
                return json.load(file)
        return {"outcome": "FAIL", "trace": _tail(log), "message": "the check did not end within {:g} s".format(
            options.timeout) if ended is None else "the process died with exit code {}".format(ended)}
    finally:
        for path in (target, log):
            if os.path.exists(path):
                os.unlink(path)
        os.rmdir(folder)


def _run(command, output, options):
    """The exit code, or None for a process that had to be killed with its children."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    environment.update((name, str(options.threads)) for name in THREAD_VARIABLES)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                               start_new_session=os.name == "posix")
    try:
        return process.wait(options.timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process)


def _end(process):
    try:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def _tail(log):
    with open(log, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-15:])


def _child(options):
    """Runs the one check and writes its result; imports the framework first, as a runner does."""
    from tests.contract import registry, sketch
    adapter = importlib.import_module(options.adapter).ADAPTER
    variant = dict(_variant(text) for text in options.variant)
    open_with = sketch.execution(options.device, options.threads, **variant)
    open_with.gpu_uuid = options.gpu_uuid
    result = registry.run(options.check[0], adapter, open_with)
    with open(options.result + ".part", "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(options.result + ".part", options.result)


def _variant(text):
    """("jit", True) of "jit=true"."""
    option, _, value = text.partition("=")
    if option == "jit":
        return option, value == "true"
    return option, int(value) if option in ("workers", "prefetch") else value


def _close(results, options):
    counts = {outcome: sum(result["outcome"] == outcome for result in results)
              for outcome in ("PASS", "FAIL", "UNSUPPORTED")}
    if options.json:
        print(json.dumps({"adapter": options.adapter, "device": options.device, "python": sys.version.split()[0],
                          "counts": counts, "checks": results}, indent=1))
    else:
        print("{}: {PASS} passed, {FAIL} failed, {UNSUPPORTED} not supported".format(options.adapter, **counts))
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
