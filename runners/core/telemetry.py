"""Memory and processor time, read before and after the measured part and never inside it.

What a platform does not define is None with a reason, never a made-up zero.
"""

import os
import sys

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0


def host_rss_peak():
    """(bytes, reason): the largest resident set of this process so far."""
    if sys.platform.startswith("linux"):
        value = _status_kilobytes("VmHWM")
        return (value * 1024, "") if value is not None else (None, "/proc/self/status has no VmHWM")
    if sys.platform == "darwin":
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, ""
    if sys.platform == "win32":
        return _windows_peak()
    return None, "not known on {}".format(sys.platform)


def workers_pss():
    """(bytes, reason): the proportional set of all child processes together, now."""
    if not sys.platform.startswith("linux"):
        return None, "only Linux tells shared pages apart"
    total = 0
    for pid in descendants(os.getpid()):
        value = _pss_kilobytes(pid)
        if value is None:
            return None, "/proc/{}/smaps_rollup cannot be read".format(pid)
        total += value * 1024
    return total, ""


def descendants(pid):
    """Process numbers of all children of ``pid``, theirs included (Linux)."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(name)
            if fields is not None:
                parents.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [pid]
    while queue:
        for child in parents.get(queue.pop(), ()):
            found.append(child)
            queue.append(child)
    return found


class ProcessorSnapshot(object):
    """Processor seconds so far: of this process and its descendants, those that have ended and were waited for among
    them; of the whole machine; and stolen by a hypervisor.
    ``defined`` is False where there is no /proc/stat."""

    def __init__(self, clock):
        self.time = clock()
        self.defined = sys.platform.startswith("linux")
        if self.defined:
            self.own = sum(_process_seconds(pid) for pid in [os.getpid()] + descendants(os.getpid()))
            self.busy, self.stolen = _machine_seconds()


def processor_telemetry(before, after):
    """{name: value} between two snapshots: ``cpu_seconds`` of the trial's own processes, ``cpu_other_share``
    and ``cpu_steal_share`` of all the machine's processor time."""
    if not (before.defined and after.defined):
        return {}
    available = (after.time - before.time) * (os.cpu_count() or 1)
    if available <= 0:
        return {}
    own = after.own - before.own
    return {
        "cpu_seconds": own,
        # Ticks are 10 ms, so a short section can come out a little below zero.
        "cpu_other_share": max(0.0, (after.busy - before.busy - own) / available),
        "cpu_steal_share": (after.stolen - before.stolen) / available,
    }


def out_of_memory_kills(root="/"):
    """How many processes the kernel has killed for want of memory: of this control group, or where that does not
    count them, of the whole machine; 0 where not known. ``root``: the folder that holds ``proc`` and ``sys``."""
    found = (_oom_kills(os.path.join(root, path)) for path in _counters(root))
    return next((kills for kills in found if kills is not None), 0)


def _counters(root):
    """Files that may count kills, the most exact first."""
    for controllers, group in _control_groups(root):
        if not controllers:
            yield "sys/fs/cgroup{}/memory.events".format(group.rstrip("/"))
        elif "memory" in controllers.split(","):
            # A container of version 1 is told the name that its group has outside, and has the group itself at the top.
            for name in (group.rstrip("/"), ""):
                yield "sys/fs/cgroup/memory{}/memory.oom_control".format(name)
    yield "proc/vmstat"


def _control_groups(root):
    """(controllers, path) of each hierarchy that this process is in; version 2 names no controllers."""
    try:
        with open(os.path.join(root, "proc/self/cgroup")) as file:
            return [line.rstrip("\n").split(":", 2)[1:] for line in file]
    except OSError:
        return []


def _oom_kills(path):
    """The number behind ``oom_kill`` in a file, None without one."""
    try:
        with open(path) as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), None)
    except (OSError, ValueError, IndexError):
        return None


def _status_kilobytes(key):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    return None


def _pss_kilobytes(pid):
    try:
        with open("/proc/{}/smaps_rollup".format(pid)) as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Pss:")), None)
    except (OSError, ValueError):
        return None if os.path.exists("/proc/{}".format(pid)) else 0


def _stat(pid):
    """Fields of /proc/PID/stat from the state on (the command may hold blanks), or None if it is gone."""
    try:
        with open("/proc/{}/stat".format(pid)) as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def _process_seconds(pid):
    """User and system time, its own and that of children that it has waited for."""
    fields = _stat(pid)
    return 0.0 if fields is None else sum(map(int, fields[11:15])) / _TICKS


def _machine_seconds():
    """(busy, stolen) seconds of all processors: user, nice, system, irq, softirq; and steal."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = (int(word) for word in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq) / _TICKS, steal / _TICKS


def _windows_peak():
    import ctypes
    from ctypes import wintypes

    class Counters(ctypes.Structure):
        _fields_ = [("cb", wintypes.DWORD), ("PageFaultCount", wintypes.DWORD)] + [
            (name, ctypes.c_size_t) for name in (
                "PeakWorkingSetSize", "WorkingSetSize", "QuotaPeakPagedPoolUsage", "QuotaPagedPoolUsage",
                "QuotaPeakNonPagedPoolUsage", "QuotaNonPagedPoolUsage", "PagefileUsage", "PeakPagefileUsage")]

    counters = Counters()
    counters.cb = ctypes.sizeof(counters)
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.GetCurrentProcess.restype = wintypes.HANDLE
    kernel.K32GetProcessMemoryInfo.argtypes = [wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD]
    if not kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.cb):
        return None, "GetProcessMemoryInfo failed"
    return counters.PeakWorkingSetSize, ""
