"""What holds this process in, read back from inside: an engine that was asked for a protection may not have it."""

import os

_PROTECTIONS = {"CapEff": "capabilities", "CapBnd": "capabilities_bounding", "NoNewPrivs": "no_new_privileges",
                "Seccomp": "seccomp"}


def confinement_facts():
    """{name: text} of user, capabilities, file systems, network and limits; only what this system defines."""
    facts = {"uid": str(os.getuid())} if hasattr(os, "getuid") else {}
    facts.update(_status())
    facts.update(_file_systems())
    facts.update(_network())
    facts.update(_limits())
    return facts


def _status():
    found = {}
    for line in _read("/proc/self/status").splitlines():
        key, _, value = line.partition(":")
        if key in _PROTECTIONS:
            found[_PROTECTIONS[key]] = value.strip()
        elif key == "Cpus_allowed_list":
            found["cpuset"] = value.strip()
    return found


def _file_systems():
    if not hasattr(os, "statvfs"):
        return {}
    found = {"root_read_only": str(int(bool(os.statvfs("/").f_flag & getattr(os, "ST_RDONLY", 1))))}
    for name, path in (("shm_bytes", "/dev/shm"), ("tmp_bytes", "/tmp")):
        try:
            status = os.statvfs(path)
        except OSError:
            continue
        found[name] = str(status.f_blocks * status.f_frsize)
    return found


def _network():
    """Interfaces but the loopback, such as "eth0"; empty when there is no way out."""
    try:
        names = os.listdir("/sys/class/net")
    except OSError:
        return {}
    return {"network": " ".join(sorted(name for name in names if name != "lo" and not _is_down_tunnel(name)))}


def _is_down_tunnel(name):
    """Kernels with tunnel drivers show one unusable device of each in every network namespace."""
    return _read("/sys/class/net/{}/operstate".format(name)).strip() == "down" and name.endswith("0") and (
        name in ("tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"))


def _limits():
    """Of the control group as it is seen from inside: processor quota in cores, processes."""
    found = {}
    quota = _quota(_read("/sys/fs/cgroup/cpu.max")) or _quota("{} {}".format(
        _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip(), _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()))
    if quota:
        found["cpu_quota"] = quota
    pids = (_read("/sys/fs/cgroup/pids.max") or _read("/sys/fs/cgroup/pids/pids.max")).strip()
    if pids.isdigit():
        found["pids_limit"] = pids
    return found


def _quota(text):
    parts = text.split()
    if len(parts) != 2 or not parts[0].isdigit() or not parts[1].isdigit() or not int(parts[1]):
        return ""
    return "{:g}".format(int(parts[0]) / float(parts[1]))


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
