"""The ``controller`` command: its subcommands, and what becomes of their errors.

Exit codes: 0 all sound, 1 something failed, 2 usage, 130 interrupted. An error is one line on standard error.
Nothing slow is imported here or by the subcommands' modules: ``controller --help`` answers at once.
"""

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

import controller
from controller.cli.build import build
from controller.cli.bundles import diff, merge, save
from controller.cli.calibrate import calibrate
from controller.cli.campaigns import history, rm, show, tag
from controller.cli.certs import app as certs
from controller.cli.clean import clean
from controller.cli.compare import compare
from controller.cli.config import config, configure
from controller.cli.doctor import doctor
from controller.cli.hosts import hosts
from controller.cli.images import app as images
from controller.cli.lock import lock
from controller.cli.new import app as new
from controller.cli.published import published
from controller.cli.report import report, schema
from controller.cli.runners import runners
from controller.cli.serve import serve
from controller.cli.verify import verify
from controller.cli.workloads import workloads
from controller.errors import ControllerError

INTERRUPTED = 130
# A disk's limits and defects, wherever they show.
_HOST_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}
# What Typer raises for a mistake on the command line; it has no public name in every release.
_USAGE_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="controller",
    help="Compares deep learning frameworks: the same model, the same data, the same machine.",
    epilog="Exit codes: 0 all sound, 1 something failed, 2 usage, 130 interrupted.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(short_help="Train the same workloads on several runners and print which is how fast.")(compare)
app.command()(verify)
app.command()(show)
app.command()(report)
app.command()(history)
app.command()(tag)
app.command()(save)
app.command()(diff)
app.command()(merge)
app.command()(rm)
app.command()(runners)
app.command()(workloads)
app.command()(published)
app.command()(schema)
app.command()(build)
app.add_typer(images, name="images")
app.add_typer(certs, name="certs")
app.command()(serve)
app.command()(hosts)
app.command()(clean)
app.command()(doctor)
app.command()(calibrate)
app.add_typer(new, name="new")
app.command()(lock)
app.command()(config)


def _show_version(wanted: bool) -> None:
    if wanted:
        import platform
        from importlib.metadata import version

        python = f"Python {platform.python_version()}"
        typer.echo(f"trainyard {controller.__version__}, {python}, grpcio {version('grpcio')}, {platform.platform()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    configure(context)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> NoReturn:
    """Runs the command line of this process, and ends it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: what would be printed there is not wanted
            setattr(sys, name, _nowhere())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a pipe in an old code page must not stop a report
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        code = app(args=list(arguments), prog_name="controller", standalone_mode=False, obj=list(arguments))
        sys.stdout.flush()  # what cannot be written must be known before the end
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        return _answer(error)
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _answer(error: Exception) -> int:
    """Says what went wrong in one line; returns the exit code."""
    if isinstance(error, ControllerError):
        return _fail(error.line(), error.exit_code)
    if isinstance(error, _USAGE_ERROR):
        return _fail(_usage_line(error), error.exit_code)
    if isinstance(error, OSError) and error.errno in (errno.EPIPE, *_HOST_ERRORS):
        return _cannot_write(error)
    return _fail(_report_bug(error), 1)  # the last resort: what is left is a bug


def _cannot_write(error: OSError) -> int:
    if not error.filename:
        # What is still buffered would fail once more when Python ends.
        sys.stdout = _nowhere()
    if error.errno == errno.EPIPE:
        return 1  # whoever read the output has seen enough
    where = error.filename or "the output"
    return _fail(f"cannot write {where}: {error.strerror}; free space there or write somewhere else", 1)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _fail(line: str, code: int) -> int:
    sys.stderr.write(f"error: {line}\n")
    return code


def _usage_line(error: Any) -> str:
    """Typer's message in one line, with where to read on."""
    text = " ".join(error.format_message().split()).rstrip(".").replace(": Value error, ", ": ")
    path = error.ctx.command_path if getattr(error, "ctx", None) else "controller"
    return f"{text[:1].lower()}{text[1:]}; see {path} --help"


def _report_bug(error: Exception) -> str:
    kind = type(error).__name__
    return f"unexpected {kind}, a bug of this tool; please report it with the file {_write_traceback(error)}"


def _write_traceback(error: Exception) -> Path:
    """Keeps the traceback for a report, in the state folder or else in a temporary one."""
    import tempfile
    import time
    import traceback

    from controller.paths import state_folder

    lines = [f"trainyard {controller.__version__}, Python {sys.version}\n", f"{sys.argv}\n"]
    text = "".join([*lines, *traceback.format_exception(error)])
    name = f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for folder in (state_folder() / "logs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:
            continue
        return folder / name
    return Path(os.devnull)
