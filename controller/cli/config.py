"""``controller config``: the settings and where each is from; and how they become defaults of options."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import options
from controller.cli.options import Output

if TYPE_CHECKING:
    from controller.configuration import Value

# Whose options have the meaning of those of compare.
_CONFIGURED = ("compare", "verify", "show", "runners", "build", "calibrate", "doctor")
# Two options that say the same: the one on the command line makes a setting of the other void.
_RIVALS = {"gpu": "device", "device": "gpu"}
_HELP = {"--help", "-h"}

Json = Annotated[bool, typer.Option("--json", help="Short for --output json.")]


def config(*, output: options.OutputForm = Output.table, json: Json = False) -> None:
    """Print every setting, its value, and where it is from: trainyard.toml, a variable, or the default.

    Settings are defaults of the options of the same name, as in trainyard.toml in this folder or above:

    \b
        trials = 3
        runner = ["pytorch-1.11.0", "jittor-1.3.1"]

    or as a variable: TRAINYARD_TRIALS=3. The command line always wins.
    """
    from controller import configuration

    found = configuration.load()
    rows = [*_settings(found), *_folders()]
    if json or output is Output.json:
        from controller.cli.consoles import print_json

        entries = [{"name": name, "value": value, "origin": origin} for name, value, origin in rows]
        files = [str(path) for path in configuration.files()]
        print_json({"format": "trainyard-config", "version": 1, "files": files, "settings": entries})
        return
    from controller.cli.consoles import results
    from controller.report.listing import render

    render(results(), ("setting", "value", "from"), [(name, _text(value), origin) for name, value, origin in rows])


def configure(context: typer.Context) -> None:
    """Makes the settings the defaults of the command that is about to run. Raises UsageError naming file and key."""
    name, words = context.invoked_subcommand or "", context.obj or []
    if name not in _CONFIGURED or _HELP & set(words):
        return
    from controller import configuration

    found = configuration.load()
    group: Any = context.command
    known = {option.name: option for option in group.commands[name].params if option.param_type_name == "option"}
    given = {word.split("=")[0].removeprefix("--") for word in words if word.startswith("--")}
    chosen = {
        key.replace("-", "_"): _converted(context, known[key.replace("-", "_")], key, value)
        for key, value in found.items()
        if key.replace("-", "_") in known and _RIVALS.get(key) not in given
    }
    context.default_map = {name: chosen}


def configured_words(context: typer.Context, besides: Collection[str] = ()) -> list[str]:
    """The options that a command has from its settings, as words of a command line that does not need them;
    ``besides`` are those of which something else has decided."""
    words: list[str] = []
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if getattr(source, "name", "") == "DEFAULT_MAP" and option.name not in besides:
            value = context.params[option.name or ""]
            for each in value if isinstance(value, list | tuple) else [value]:
                words += [option.opts[0], str(each.value if isinstance(each, Enum) else each)]
    return words


def _converted(context: typer.Context, option: Any, key: str, value: "Value") -> Any:
    """The value as the option takes it, checked here so that the message can name its origin."""
    from controller.errors import UsageError

    # One word is also a list of one: compare takes several hosts where build takes one.
    given = [value.value] if option.multiple and not isinstance(value.value, list | tuple) else value.value
    try:
        option.process_value(context, given)
    except typer.BadParameter as error:
        text = " ".join(error.message.removeprefix("Value error, ").split()).rstrip(".")
        raise UsageError(f"{value.origin}: {key} = {value.value!r}: {text}", "change it there") from error
    return given


def _settings(found: "Mapping[str, Value]") -> Iterator[tuple[str, Any, str]]:
    from controller.configuration import SETTINGS

    defaults = _defaults(SETTINGS)
    for name in SETTINGS:
        value = found.get(name)
        yield (name, value.value, value.origin) if value else (name, defaults[name], "default")


def _defaults(names: Iterable[str]) -> dict[str, Any]:
    """Default values of the options of compare, or what their help says of them."""
    import re

    from controller.cli.main import app

    whole: Any = typer.main.get_command(app)
    known = {option.name: option for option in whole.commands["compare"].params}
    found: dict[str, Any] = {}
    for name in names:
        option = known[name.replace("-", "_")]
        said = re.search(r"Default: (.*?)\.?$", option.help or "")
        default = option.default.value if isinstance(option.default, Enum) else option.default
        found[name] = default if default is not None else said[1] if said else None
    return found


def _folders() -> Iterator[tuple[str, Any, str]]:
    """Where files are: variables of their own, which no file can set."""
    import os

    from controller import paths

    for name, variable, folder in (
        ("cache folder", paths.CACHE_VARIABLE, paths.cache_folder()),
        ("data folder", paths.DATA_VARIABLE, paths.data_folder()),
        ("own runners", paths.RUNNERS_VARIABLE, paths.own_runners_folder()),
        ("own settings", paths.CONFIG_VARIABLE, paths.config_file()),
    ):
        yield name, str(folder), variable if os.environ.get(variable) else "default"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
