"""Sets up what `make` needs, once: system packages, .venv with the locked packages, hipbook itself.

Runs with nothing but a Python of at least 3.11, says nothing when nothing is to be done, and stops with
what to install where it may not install it itself. Names no package host: pip and apt use their own
configuration (PIP_INDEX_URL, PIP_FIND_LINKS, proxies, certificates).
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "hipbook-setup.json"
LOCK = ROOT / "requirements.lock"
CLANG_MAJOR = 22
ANNOUNCE_BYTES = 1_000_000_000  # a download above this is announced with its size before it begins


class Stop(Exception):
    """Something a person has to do; the text says what."""


def main() -> int:
    try:
        set_up(os.environ.get("TORCH", ""))
    except Stop as stop:
        print(f"setup: {stop}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("setup: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


def set_up(torch_choice: str) -> None:
    """Bring the machine and .venv to what the lock says; `torch_choice` is pip's words for another torch.

    The choice is remembered: a later run without one keeps that torch. `lock` goes back to the locked one.
    """
    system_packages()
    remembered = stamp()
    torch = torch_choice or remembered.get("torch", "")
    torch = "" if torch == "lock" else torch
    wanted = {"torch": torch, "inputs": inputs_digest()}
    if remembered == wanted and PYTHON.exists():
        return
    virtual_environment()
    STAMP.unlink(missing_ok=True)  # from here on an interrupted run begins again
    install_packages(torch)
    say("installing hipbook itself")
    pip("install", "--no-build-isolation", "--no-deps", "--no-index", "-e", ".", quiet=True)
    STAMP.write_text(json.dumps(wanted) + "\n")
    say("ready")


def stamp() -> dict[str, str]:
    try:
        return json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}


def inputs_digest() -> str:
    """A hash of all that decides what .venv holds, its own place included (it cannot be moved)."""
    digest = hashlib.sha256()
    for part in (LOCK.read_bytes(), (ROOT / "pyproject.toml").read_bytes(), str(ROOT).encode()):
        digest.update(hashlib.sha256(part).digest())
    digest.update(f"{sys.version_info[:2]}".encode())
    return digest.hexdigest()


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


# --- system packages ------------------------------------------------------------------------------


def missing_packages() -> dict[str, str]:
    """Debian packages that are needed and absent, each with why."""
    missing = {}
    clang = os.environ.get("HIPBOOK_CLANG") or shutil.which(f"clang++-{CLANG_MAJOR}") or plain_clang()
    if not clang:
        missing[f"clang-{CLANG_MAJOR}"] = "builds the kernels"
    if not (shutil.which(f"ld.lld-{CLANG_MAJOR}") or shutil.which("ld.lld")):
        missing[f"lld-{CLANG_MAJOR}"] = "links the kernels"
    if not (shutil.which(f"llvm-as-{CLANG_MAJOR}") or shutil.which("llvm-as")):
        missing[f"llvm-{CLANG_MAJOR}"] = "makes the device libraries' control files, disassembles in tests"
    if not (Path("/usr/include/stdint.h").exists() or os.environ.get("CONDA_PREFIX")):
        missing["libc6-dev"] = "C headers for the emulated board"
    if not shutil.which("git"):
        missing["git"] = "records name the commit they were made at"
    if not has_venv():
        missing["python3-venv"] = "the virtual environment"
    return missing


def plain_clang() -> str | None:
    """`clang++` on the path when it is of the right version (conda calls it so)."""
    found = shutil.which("clang++")
    if not found:
        return None
    told = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    return found if f"clang version {CLANG_MAJOR}." in told else None


def has_venv() -> bool:
    """Whether this Python can make a virtual environment with pip in it (Debian splits that off)."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return False
    return True


def system_packages() -> None:
    missing = missing_packages()
    if not missing:
        return
    names = list(missing)
    told = "\n".join(f"    {name:14} {why}" for name, why in missing.items())
    command = f"apt-get install -y --no-install-recommends {' '.join(names)}"
    prefix = privileges()
    if prefix is None:
        raise Stop(f"these packages are missing:\n{told}\n  fix: as root, or with sudo: {command}")
    say(f"installing system packages:\n{told}")
    log = ROOT / "build" / "apt.log"
    log.parent.mkdir(exist_ok=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with open(log, "w") as out:
        for step in (["apt-get", "update", "-q"], shlex.split(command)):
            done = subprocess.run(
                [*prefix, *step], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env
            )
    if done.returncode or missing_packages():
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
        raise Stop(f"`{command}` did not bring {', '.join(names)}:\n{tail}\n  the whole log: {log}")


def privileges() -> list[str] | None:
    """What to put before apt-get: nothing as root, sudo where it asks nothing; None where neither works."""
    if not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True).returncode == 0:
        return [sudo, "-n", "--preserve-env=DEBIAN_FRONTEND"]
    return None


# --- Python packages ------------------------------------------------------------------------------


def virtual_environment() -> None:
    """Make .venv, anew when it is of another Python or was moved here."""
    probe = "import sys; print(sys.version_info[:2], sys.prefix)"
    wanted = f"{tuple(sys.version_info[:2])} {VENV}"
    if PYTHON.exists():
        told = subprocess.run([PYTHON, "-c", probe], capture_output=True, text=True).stdout.strip()
        if (
            told == wanted
            and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0
        ):
            return
        say("the virtual environment is of another Python or another place; making it anew")
    say(f"virtual environment .venv with Python {sys.version.split()[0]}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)


def lock_lines() -> tuple[dict[str, str], list[str]]:
    """The lock's lines for pip, torch and triton by name, and all other lines."""
    lines = [line.split(" #")[0].strip() for line in LOCK.read_text().splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    own = {line.split("==")[0]: line for line in lines if re.match(r"(pip|torch|triton)==", line)}
    return own, [line for line in lines if line not in own.values()]


def install_packages(torch_choice: str) -> None:
    """pip, then torch, then what the lock says; torch's own triton stays where it brings one.

    Debian's pip would download whole wheels to learn what they need, before their size could be announced.
    Byte code is made at the first import of a module: most of torch is never imported here.
    """
    own, others = lock_lines()
    rest = VENV / "hipbook-lock.txt"
    rest.write_text("\n".join(others) + "\n")
    wanted = shlex.split(torch_choice) or [own["torch"]]
    pip("install", own["pip"], quiet=True)
    say(f"torch: {' '.join(wanted)}")
    announce_download([*wanted, "-c", str(rest)])
    pip("install", "--no-compile", *wanted, "-c", str(rest))
    extra = [] if brings_triton() else [own["triton"]]
    say(f"{len(others) + len(extra)} locked packages")
    pip("install", "--no-compile", "-r", str(rest), *extra)


def brings_triton() -> bool:
    """Whether the installed torch requires a triton of its own, which is then used and never replaced."""
    code = (
        "import importlib.metadata as m, re\n"
        "print(any(re.match(r'(pytorch-)?triton', r) for r in m.requires('torch') or ()))"
    )
    told = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True).stdout.strip()
    present = subprocess.run([PYTHON, "-c", "import importlib.util as u; exit(not u.find_spec('triton'))"])
    return told == "True" and present.returncode == 0


def announce_download(requirements: list[str]) -> None:
    """Ask pip what it would download for `requirements`; say the sizes when they add up to more than a GB."""
    report = VENV / "hipbook-report.json"
    done = subprocess.run(
        [PYTHON, "-m", "pip", "install", "--dry-run", "--quiet", "--report", report, *requirements],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Stop(f"pip cannot find {' '.join(requirements[:-2])}:\n{done.stderr.strip()}")
    told = announcement(json.loads(report.read_text()), size_of_url)
    report.unlink()
    if told:
        say(told)


def announcement(report: dict, size_of) -> str:
    """What to say before downloading what a pip report lists; empty up to ANNOUNCE_BYTES.

    `size_of(url)` is a size in bytes, None where the server does not say.
    """
    sizes = {}
    for item in report["install"]:
        url = item["download_info"]["url"]
        if not url.startswith("file:"):
            sizes[f"{item['metadata']['name']} {item['metadata']['version']}"] = size_of(url)
    total = sum(size for size in sizes.values() if size)
    if total <= ANNOUNCE_BYTES:
        return ""
    largest = sorted(((size or 0, name) for name, size in sizes.items()), reverse=True)[:4]
    unknown = sum(size is None for size in sizes.values())
    return (
        f"downloading {total / 1e9:.1f} GB"
        + (f" and {unknown} files of unknown size" if unknown else "")
        + ": "
        + ", ".join(f"{name} ({size / 1e9:.2f} GB)" for size, name in largest if size)
        + (", ..." if len(sizes) > len(largest) else "")
        + "\n  a CPU build of torch is enough for the emulated board and much smaller; see the README, Torch"
    )


def size_of_url(url: str) -> int | None:
    """The size a server gives for a file, without fetching it."""
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=20, context=tls_context()) as answer:
            return int(answer.headers["Content-Length"])
    except (urllib.error.URLError, OSError, TypeError, ValueError):
        return None


def tls_context() -> ssl.SSLContext:
    """The certificates pip is configured with."""
    told = subprocess.run(
        [PYTHON, "-m", "pip", "config", "get", "global.cert"], capture_output=True, text=True
    )
    file = os.environ.get("PIP_CERT") or told.stdout.strip() or os.environ.get("REQUESTS_CA_BUNDLE") or None
    return ssl.create_default_context(cafile=file)


def pip(*arguments: str, quiet: bool = False) -> None:
    """Run pip in .venv: its own bars on a terminal, else a line a large file; its last words on failure."""
    command = [PYTHON, "-m", "pip", *arguments]
    if sys.stdout.isatty() and not quiet:
        if subprocess.run(command, cwd=ROOT).returncode:
            raise Stop(f"pip failed; the command was: {shlex.join(map(str, command))}")
        return
    log, began = [], time.monotonic()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            log.append(line.rstrip())
            if not quiet and re.match(r"\s*Downloading .*\([\d.]+ [MG]B\)|Processing ", line):
                print(f"  {line.strip()}", flush=True)
            elif not quiet and line.startswith("Installing collected packages"):
                print(f"  installing {line.count(',') + 1} packages", flush=True)
    if process.returncode:
        tail = "\n".join(log[-15:])
        raise Stop(f"pip failed; the command was: {shlex.join(map(str, command))}\n{tail}")
    if not quiet:
        print(f"  done after {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
