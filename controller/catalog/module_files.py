"""Which source files a module of the service needs: found by reading its imports, without importing anything."""

import ast
from pathlib import Path

PACKAGES = ("runners", "trainyard")


def closure(root: Path, module: str) -> tuple[str, ...]:
    """Paths relative to ``root`` (which holds the packages) of ``module`` and all that it imports, sorted."""
    found: set[str] = set()
    pending = [module]
    while pending:
        for path in _files(root, pending.pop()):
            name = path.relative_to(root).as_posix()
            if name not in found:
                found.add(name)
                pending.extend(_imports(path))
    return tuple(sorted(found))


def _files(root: Path, module: str) -> list[Path]:
    """The module's file and the packages it lies in; empty for a name that is no module of ours."""
    parts = module.split(".")
    if parts[0] not in PACKAGES:
        return []
    folder = root.joinpath(*parts)
    packages = [root.joinpath(*parts[:count], "__init__.py") for count in range(1, len(parts) + 1)]
    return [path for path in (*packages, folder.with_suffix(".py")) if path.is_file()]


def _imports(path: Path) -> list[str]:
    """Every name that may be a module: ``from a.b import c`` may mean a.b or a.b.c."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names
