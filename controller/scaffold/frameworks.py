"""A new framework: its folder with runner.toml, a list of packages, an adapter that runs and refuses all, a README."""

from dataclasses import dataclass
from pathlib import Path
from string import Template

from controller.catalog.runners import current_platform, own_python
from controller.errors import UsageError
from controller.scaffold.places import Place
from controller.scaffold.versions import Wanted, Written

_TEMPLATES = Path(__file__).parent / "templates"
# Where each template goes; the list of packages is named after version and Python.
_FILES = {"runner.toml": "runner.toml", "adapter.py": "adapter.py", "README.md": "README.md"}


@dataclass(frozen=True, slots=True)
class Framework:
    """``distribution`` is the package of the index, ``homepage`` a URL; both have defaults by the name."""

    distribution: str = ""
    homepage: str = ""


def write(asked: Wanted, framework: Framework, place: Place) -> Written:
    """Raises UsageError where the folder is there already."""
    name = asked.stem.replace("-", "_")
    folder = place.folder / name
    if folder.exists():
        raise UsageError(f"{folder} is there already", "finish what is there, or take another name")
    values = _values(asked, framework, name, place)
    folder.mkdir(parents=True)
    files = [_put(folder / "__init__.py", "")]
    for template, target in _FILES.items():
        files.append(_put(folder / target, _filled(template, values)))
    (folder / "locks").mkdir()
    packages = _filled("packages.in", values) + "".join(f"{line}\n" for line in asked.further)
    files.append(_put(folder / "locks" / f"{values['lock']}.in", packages))
    return Written(tuple(files), "", ("cpu",))


def _values(asked: Wanted, framework: Framework, name: str, place: Place) -> dict[str, str]:
    distribution = framework.distribution or asked.stem
    python = asked.python or own_python()
    return {
        "framework": name,
        "runner": asked.name,
        "title": name.replace("_", " ").title(),
        "version": asked.version,
        "distribution": distribution,
        "module": distribution.replace("-", "_"),
        "python": python,
        "platform": current_platform(),
        "homepage": framework.homepage or f"https://pypi.org/project/{distribution}/",
        "lock": f"{asked.version}-cpu-py{python.replace('.', '')}",
        "variable": f"TRAINYARD_ADAPTERS={place.folder} " if place.is_own else "",
    }


def _filled(template: str, values: dict[str, str]) -> str:
    return Template((_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).substitute(values)


def _put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="\n")
    return path
