"""Memory of a process, in 10⁶ bytes."""

from pathlib import Path


def resident_mb(pid: int | str = "self") -> float:
    """Current resident memory."""
    return _status("VmRSS", pid)


def peak_mb(pid: int | str = "self") -> float:
    """Highest resident memory of a process since its start."""
    return _status("VmHWM", pid)


def _status(field: str, pid: int | str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) * 1024 / 1e6
