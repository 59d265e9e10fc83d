#!/usr/bin/env python3
"""Makes a base image without any registry: Debian's archive (mmdebstrap) and a CPython that is on this machine.

    python3 docker/base/make_base.py --python ~/.pyenv/versions/3.9.18/bin/python -o base.tar && docker load -i base.tar

The result stands for ``python:X.Y-slim-bookworm`` and carries its name. It has one layer and no time of making in it:
the same Debian packages and the same CPython give the same image id, which can be pinned. Needs mmdebstrap, GNU tar
and, where it is installed, strip; Python 3.11 or newer runs it. ``controller build --base offline`` calls it.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

SUITE = "bookworm"
# Every file is as old as this at most; what is younger would differ from run to run.
EPOCH = 1735689600
# What the modules of the standard library link to, what opens HTTPS connections, and what names users and zones.
PACKAGES = (
    *("ca-certificates", "netbase", "tzdata", "libssl3", "libffi8", "libsqlite3-0", "zlib1g", "libbz2-1.0"),
    *("liblzma5", "libreadline8", "libncursesw6", "libexpat1", "libuuid1", "libgdbm6", "libnsl2", "libtirpc3"),
    "libcrypt1",
)
LEFT_OUT = ("doc", "man", "info", "locale", "lintian", "bug")
# Of a CPython: what no runner imports.
PRUNED = re.compile(
    r"lib/python3\.\d+/(test|idlelib|tkinter|turtledemo|site-packages|lib2to3/tests|.*/tests?|.*/__pycache__)(/|$)"
    r"|.*\.(pyc|a)$"
)
PREFIX = "/usr/local"
DESCRIPTION = "Debian bookworm and a relocated CPython, made by docker/base/make_base.py"


def main() -> None:
    options = _options()
    if shutil.which("mmdebstrap") is None:
        _fail("mmdebstrap is not on PATH: apt-get install mmdebstrap")
    prefix, version = _interpreter(options.python)
    tag = options.tag or f"python:{version.rpartition('.')[0]}-slim-{SUITE}"
    with tempfile.TemporaryDirectory(prefix="trainyard-base-") as name:
        folder = Path(name)
        _collect(prefix, folder / "python")
        _settings(options, folder / "python")
        _tar(folder / "python", folder / "python.tar")
        _debootstrap(folder, options.mirror)
        _write_archive(folder / "rootfs.tar", version, tag, options.output)
    sys.stdout.write(f"{tag} written to {options.output}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--python", type=Path, required=True, metavar="PROGRAM", help="a CPython, as of pyenv or uv")
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="FILE", help="archive for docker load")
    parser.add_argument("--tag", help="name of the image (default: that of the public one)")
    parser.add_argument("--mirror", default="", help="Debian archive, such as a snapshot (default: deb.debian.org)")
    parser.add_argument(
        "--certificates",
        type=Path,
        metavar="FOLDER",
        help="further certificate authorities (*.crt) that the image shall trust, as /usr/local/share/ca-certificates",
    )
    parser.add_argument("--pip-conf", type=Path, metavar="FILE", help="becomes the image's /etc/pip.conf")
    return parser.parse_args()


def _fail(message: str) -> NoReturn:
    sys.exit(f"make_base.py: {message}")


# --- CPython ---------------------------------------------------------------------------------------------------


def _interpreter(program: Path) -> tuple[Path, str]:
    """Folder and version, such as "3.9.18", of the CPython that a program is, or that its environment is made from."""
    code = "import platform, sys; print(platform.python_implementation(), sys.base_prefix, platform.python_version())"
    try:
        done = subprocess.run([str(program), "-I", "-c", code], capture_output=True, text=True, check=True)
        implementation, folder, version = done.stdout.split()
    except (OSError, subprocess.CalledProcessError, ValueError):
        _fail(f"{program} is no Python program that runs")
    if implementation != "CPython":
        _fail(f"{program} is no CPython")
    if Path(folder) == Path("/usr"):
        _fail(f"{program} is the system's own Python, which cannot be moved: take one of pyenv or uv")
    return Path(folder).resolve(), version


def _collect(prefix: Path, root: Path) -> None:
    """Copies the CPython below ``root``/usr/local, its own path replaced wherever it is written down."""
    target = root / PREFIX.lstrip("/")
    for part in ("bin", "include", "lib"):
        for source in sorted((prefix / part).rglob("*")):
            name = source.relative_to(prefix).as_posix()
            if PRUNED.match(name) or (source.is_dir() and not source.is_symlink()):
                continue
            if part == "bin" and not re.match(r"bin/(python|pydoc)3", name):
                continue  # Scripts of packages that somebody installed there.
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    _relocate(target, str(prefix))
    _strip(target)
    (target / "bin" / "python").symlink_to("python3")


def _relocate(target: Path, prefix: str) -> None:
    places = [*target.glob("bin/*-config"), *target.glob("lib/pkgconfig/*.pc")]
    places += [*target.glob("lib/python3.*/_sysconfigdata*.py"), *target.glob("lib/python3.*/config-*/*")]
    places += [*target.glob("bin/pydoc3*")]
    for path in places:
        content = path.read_bytes()
        if path.is_symlink() or prefix.encode() not in content or b"\0" in content:
            continue
        path.write_bytes(content.replace(prefix.encode(), PREFIX.encode()))


def _strip(target: Path) -> None:
    strip = shutil.which("strip")
    if strip is None:
        return
    found = [path for path in target.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    found += [path for path in target.glob("bin/python3.*") if path.read_bytes()[:4] == b"\x7fELF"]
    for path in found:
        path.chmod(0o755)
    subprocess.run([strip, "--strip-unneeded", *map(str, found)], check=False)


def _settings(options: argparse.Namespace, root: Path) -> None:
    """Certificates and pip's settings, where the packages' index is a private one."""
    if options.certificates:
        folder = root / "usr/local/share/ca-certificates"
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(options.certificates.glob("*.crt")):
            shutil.copyfile(path, folder / path.name)
    if options.pip_conf:
        (root / "etc").mkdir(exist_ok=True)
        shutil.copyfile(options.pip_conf, root / "etc/pip.conf")


def _tar(folder: Path, archive: Path) -> None:
    _run(
        [
            *("tar", "--create", "--sort=name", f"--mtime=@{EPOCH}", "--owner=0", "--group=0", "--numeric-owner"),
            *("--mode=u+rwX,go+rX,go-w", f"--file={archive}", f"--directory={folder}", "."),
        ]
    )


# --- Debian ----------------------------------------------------------------------------------------------------


def _debootstrap(folder: Path, mirror: str) -> None:
    """Writes rootfs.tar: Debian's packages and the CPython over them."""
    python = f'chroot "$1" {PREFIX}/bin/python3'
    hooks = (
        f"tar-in {shlex.quote(str(folder / 'python.tar'))} /",
        'chroot "$1" ldconfig',
        'chroot "$1" update-ca-certificates',
        f"{python} -B -m ensurepip",
        f'ln -s pip3 "$1{PREFIX}/bin/pip"',
        'find "$1/usr" -depth -name __pycache__ -exec rm -r {} +',
        # Without its own file in /tmp mmdebstrap would clean this machine's package cache afterwards, not the base's.
        'find "$1/tmp" -mindepth 1 -maxdepth 1 ! -name "mmdebstrap.*" -exec rm -rf {} +',
        'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin',
        'rm -rf "$1"/var/cache/ldconfig/* "$1"/var/cache/debconf/*-old "$1"/var/log/* "$1"/root/.cache',
    )
    command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    command += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in LEFT_OUT]
    command += [f"--customize-hook={hook}" for hook in hooks]
    command += [SUITE, str(folder / "rootfs.tar"), *([mirror] if mirror else [])]
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("PYTHONPATH", "PYTHONHOME", "PIP_FIND_LINKS", "PIP_CONFIG_FILE", "PIP_CERT"):
        variables.pop(name, None)
    _run(command, variables)


# --- the image -------------------------------------------------------------------------------------------------


def _write_archive(rootfs: Path, version: str, tag: str, output: Path) -> None:
    """What ``docker save`` would write of an image with this one layer."""
    layer = _sha256(rootfs)
    config = json.dumps(_config(layer, version), sort_keys=True).encode("utf-8")
    name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": [f"{layer}/layer.tar"]}]
    partial = output.with_name(output.name + ".partial")
    with tarfile.open(partial, "w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, name, config)
        _add(archive, f"{layer}/VERSION", b"1.0")
        entry = tarfile.TarInfo(f"{layer}/layer.tar")
        entry.size, entry.mtime = rootfs.stat().st_size, EPOCH
        with rootfs.open("rb") as file:
            archive.addfile(entry, file)
        _add(archive, "manifest.json", json.dumps(manifest).encode("utf-8"))
    partial.replace(output)


def _config(layer: str, version: str) -> dict[str, Any]:
    created = datetime.fromtimestamp(EPOCH, UTC).isoformat().replace("+00:00", "Z")
    path = f"PATH={PREFIX}/bin:{PREFIX}/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": created,
        "config": {
            "Env": [path, "LANG=C.UTF-8", f"PYTHON_VERSION={version}"],
            "Cmd": ["python3"],
            "Labels": {"org.opencontainers.image.description": DESCRIPTION},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
        "history": [{"created": created, "created_by": "docker/base/make_base.py"}],
    }


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(content), EPOCH
    archive.addfile(entry, io.BytesIO(content))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        _fail(f"{command[0]} failed with exit code {done.returncode}; its own words are above")


if __name__ == "__main__":
    main()
