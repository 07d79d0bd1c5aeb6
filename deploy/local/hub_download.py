#!/usr/bin/env python3
"""Downloads what Baton needs of a Hugging Face repository; standard library only. Called by get-model.sh.

Every file goes to NAME.part, is continued there after an interruption, checked against the hub's checksum and only then
renamed. The last line of stdout is the model's path: its folder, or the GGUF file.
"""

import argparse
import contextlib
import errno
import fcntl
import fnmatch
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

TEXT_FILES = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
MANIFEST = ".baton-download.json"
TIMEOUT_S = 30
ATTEMPTS = 5  # without a byte of progress between them
CHUNK = 1 << 20


class Failure(Exception):
    """Ends the program with its message."""


class Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps the token away from other hosts, and the checksum that only the hub's own answer carries."""

    linked_etag = None

    def redirect_request(self, request, file, code, message, headers, new_url):
        new = super().redirect_request(request, file, code, message, headers, new_url)
        self.linked_etag = headers.get("X-Linked-ETag") or self.linked_etag
        if new is not None and urllib.parse.urlsplit(new_url)[:2] != urllib.parse.urlsplit(request.full_url)[:2]:
            new.remove_header("Authorization")
        return new


class Hub:
    def __init__(self, endpoint, token):
        self.endpoint = endpoint.rstrip("/")
        self.token = token
        self.redirects = Redirects()
        self.opener = urllib.request.build_opener(self.redirects)

    def open(self, path, headers=None):
        request = urllib.request.Request(self.endpoint + path, headers={"User-Agent": "baton-get-model", **(headers or {})})
        self.redirects.linked_etag = None
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        return self.opener.open(request, timeout=TIMEOUT_S)

    def model_info(self, repository, revision):
        path = f"/api/models/{repository}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
        try:
            with self.open(path) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise Failure(self.explain(error, f"{repository} at revision {revision}")) from error
        except ValueError as error:
            raise Failure(f"{self.endpoint} answered with something else than JSON") from error

    def explain(self, error, what):
        if error.code in (401, 403):
            hint = "HF_TOKEN is not accepted" if self.token else "set HF_TOKEN, and accept its terms on the hub if it has some"
            return f"{what}: no access (HTTP {error.code}); {hint}"
        if error.code == 404:
            return f"{what}: not found at {self.endpoint} (HTTP 404)"
        return f"{what}: {self.endpoint} answered HTTP {error.code} {error.reason}"


class RemoteFile:
    """A file of the repository: name, size and checksum as far as the hub tells them."""

    def __init__(self, sibling):
        self.name = sibling.get("rfilename", "")
        lfs = sibling.get("lfs") or {}
        self.size = lfs.get("size", sibling.get("size"))
        self.checksum = None
        if lfs.get("sha256"):
            self.checksum = ("sha256", lfs["sha256"])
        elif sibling.get("blobId"):
            self.checksum = ("git", sibling["blobId"])

    def take_checksum_from(self, etag):
        """An ETag is a sha256 for large files and a git blob id for small ones."""
        value = (etag or "").strip().removeprefix("W/").strip('"')
        if self.checksum is None and re.fullmatch(r"[0-9a-f]{64}", value):
            self.checksum = ("sha256", value)
        elif self.checksum is None and re.fullmatch(r"[0-9a-f]{40}", value):
            self.checksum = ("git", value)


def check_name(name):
    parts = name.split("/")
    if not name or "\\" in name or "\0" in name or name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise Failure(f"the repository lists a file named {name!r}, which would lie outside of the model's folder")


def choose_files(files, gguf_pattern):
    """Config, tokenizer and safetensors; or one GGUF file. Only the top folder counts."""
    top = {file.name: file for file in files if "/" not in file.name}
    gguf = [name for name in top if name.endswith(".gguf")]
    weights = [name for name in top if fnmatch.fnmatchcase(name, "model*.safetensors")]
    weights = weights or [name for name in top if name.endswith(".safetensors") and not name.startswith("adapter")]
    if gguf_pattern or (gguf and not weights):
        matching = sorted(name for name in gguf if fnmatch.fnmatchcase(name, gguf_pattern or "*"))
        if len(matching) != 1:
            listing = "".join(f"\n  {name}  {megabytes(top[name].size)}" for name in matching or sorted(gguf))
            raise Failure(f"{len(matching)} GGUF files match {gguf_pattern or '*'!r}; choose one with --gguf PATTERN:{listing}")
        return [top[matching[0]]]
    if not weights:
        raise Failure(f"none of its {len(files)} files is a .safetensors or .gguf file")
    if "config.json" not in top:
        raise Failure("it has .safetensors files but no config.json")
    index = [name for name in top if name == "model.safetensors.index.json"]
    return [top[name] for name in TEXT_FILES if name in top] + [top[name] for name in index + sorted(weights)]


def megabytes(size):
    return "? MB" if size is None else f"{size / 1e6:.1f} MB"


def checksum_of(path, kind):
    digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1()
    if kind == "git":
        digest.update(b"blob %d\0" % path.stat().st_size)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class Progress:
    """One line per file on stderr; a bar that moves if it is a terminal."""

    def __init__(self, name, size, done):
        self.name, self.size, self.done, self.begin = name, size, done, done
        self.start = self.shown = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def add(self, count):
        self.done += count
        now = time.monotonic()
        if self.terminal and now - self.shown > 0.1:
            self.shown = now
            print(f"\r{self.line(now)}", end="", file=sys.stderr, flush=True)

    def line(self, now):
        rate = (self.done - self.begin) / max(now - self.start, 1e-3) / 1e6
        bar = ""
        if self.size:
            filled = min(20, 20 * self.done // self.size)
            bar = f"[{'#' * filled}{' ' * (20 - filled)}] {100 * self.done // self.size:3d}%  "
        return f"{self.name[:40]:40} {bar}{megabytes(self.done)} of {megabytes(self.size)}  {rate:.1f} MB/s"

    def finish(self):
        print(("\r" if self.terminal else "") + self.line(time.monotonic()), file=sys.stderr, flush=True)


def fetch_once(hub, path, file, part):
    """Appends what is missing to `part`; an OSError if the line breaks."""
    have = part.stat().st_size if part.exists() else 0
    if file.size is not None and have > file.size:
        part.unlink()
        have = 0
    if have and have == file.size:
        return
    try:
        response = hub.open(path, {"Range": f"bytes={have}-"} if have else {})
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing behind what we have: it belongs to another file, begin again
            part.unlink()
            raise ConnectionError("the partial file does not fit the file on the hub") from error
        if error.code >= 500 or error.code == 429:
            raise ConnectionError(f"HTTP {error.code}") from error
        raise Failure(hub.explain(error, file.name)) from error
    with response:
        file.take_checksum_from(hub.redirects.linked_etag or response.headers.get("X-Linked-ETag") or response.headers.get("ETag"))
        resumes = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if not resumes:
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else file.size
        if file.size is None:
            file.size = total
        progress = Progress(file.name, file.size, have)
        with open(part, "ab" if resumes else "wb") as output:
            while chunk := response.read(CHUNK):
                output.write(chunk)
                progress.add(len(chunk))
            output.flush()
            os.fsync(output.fileno())
        progress.finish()
        if total is not None and part.stat().st_size < total:
            raise ConnectionError(f"the connection ended at {part.stat().st_size} of {total} bytes")


def download(hub, path, file, target):
    part = target.with_name(target.name + ".part")
    resumed = part.exists()
    attempts = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            fetch_once(hub, path, file, part)
            break
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise Failure(f"{file.name}: the disk is full") from error
            after = part.stat().st_size if part.exists() else 0
            attempts = 1 if after > before else attempts + 1
            if attempts >= ATTEMPTS:
                raise Failure(f"{file.name}: gave up after {ATTEMPTS} attempts at {after} of {file.size} bytes: {error}") from error
            print(f"{file.name}: {error}; going on at {after} bytes", file=sys.stderr)
            time.sleep(min(0.2 * 2**attempts, 5))
    size = part.stat().st_size
    if file.size is not None and size != file.size:
        part.unlink()
        raise Failure(f"{file.name} has {size} bytes, the hub says {file.size}")
    if file.checksum is not None:
        kind, expected = file.checksum
        actual = checksum_of(part, kind)
        if actual != expected:
            part.unlink()
            if resumed:  # the beginning may have been another version's
                print(f"{file.name}: the continued file has a wrong {kind} checksum; beginning again", file=sys.stderr)
                return download(hub, path, file, target)
            raise Failure(f"{file.name}: {kind} checksum is {actual}, the hub says {expected}; it was removed, try again")
    os.replace(part, target)


def read_manifest(folder):
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        return manifest if isinstance(manifest, dict) else {}
    except (OSError, ValueError):
        return {}


def write_manifest(folder, manifest):
    part = folder / (MANIFEST + ".part")
    part.write_text(json.dumps(manifest, indent=1) + "\n")
    os.replace(part, folder / MANIFEST)


def is_current(target, file, entry):
    """Whether `target` is the file that was checked when it was downloaded, and still the hub's."""
    if not target.is_file() or not entry:
        return False
    stat = target.stat()
    if [stat.st_size, stat.st_mtime_ns] != entry.get("stat"):
        return False
    return file is None or file.checksum is None or list(file.checksum) == entry.get("checksum")


def check_space(folder, files):
    needed = sum(file.size or 0 for file in files)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise Failure(f"{megabytes(needed)} are needed in {folder}, {megabytes(free)} are free")


@contextlib.contextmanager
def locked(folder):
    """Two runs at once take turns."""
    with open(folder / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def get(hub, repository, revision, gguf_pattern, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        manifest = read_manifest(folder)
        entries = manifest.setdefault("files", {})
        request = [repository, gguf_pattern]
        try:
            info = hub.model_info(repository, revision)
        except (OSError, http.client.HTTPException) as error:
            complete = manifest.get("complete") == request
            if not complete or not all(is_current(folder / name, None, entry) for name, entry in entries.items()):
                raise Failure(f"{hub.endpoint} cannot be reached: {error}") from error
            print(f"{hub.endpoint} cannot be reached ({error}); using what is there", file=sys.stderr)
            return result_path(folder, manifest["chosen"])
        siblings = info.get("siblings")
        if not isinstance(siblings, list) or not re.fullmatch(r"[0-9a-zA-Z]+", str(info.get("sha", ""))):
            raise Failure(f"{hub.endpoint} told no files or no commit of {repository}")
        files = [RemoteFile(sibling) for sibling in siblings]
        for file in files:
            check_name(file.name)
        chosen = choose_files(files, gguf_pattern)
        missing = [file for file in chosen if not is_current(folder / file.name, file, entries.get(file.name))]
        check_space(folder, missing)
        manifest["complete"] = None
        for file in missing:
            path = f"/{repository}/resolve/{info['sha']}/{urllib.parse.quote(file.name)}"
            download(hub, path, file, folder / file.name)
            stat = (folder / file.name).stat()
            entries[file.name] = {"stat": [stat.st_size, stat.st_mtime_ns], "checksum": file.checksum and list(file.checksum)}
            write_manifest(folder, manifest)
        manifest.update(complete=request, commit=info["sha"], chosen=[file.name for file in chosen])
        write_manifest(folder, manifest)
        return result_path(folder, manifest["chosen"])


def result_path(folder, chosen):
    return folder / chosen[0] if chosen[0].endswith(".gguf") else folder


def main():
    parser = argparse.ArgumentParser(prog="get-model.sh", description="Downloads a model from a Hugging Face hub.")
    parser.add_argument("repository", help="OWNER/NAME")
    parser.add_argument("--revision", default="main", help="branch, tag or commit (default main)")
    parser.add_argument("--gguf", metavar="PATTERN", help="take the one GGUF file whose name matches, e.g. '*q8_0.gguf'")
    parser.add_argument("--models", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    hub = Hub(os.environ.get("HF_ENDPOINT") or "https://huggingface.co", os.environ.get("HF_TOKEN"))
    try:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*", arguments.repository):
            raise Failure(f"{arguments.repository!r} is neither smollm2 nor a repository OWNER/NAME")
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._/-]*", arguments.revision) or ".." in arguments.revision:
            raise Failure(f"{arguments.revision!r} is no revision")
        suffix = "" if arguments.revision == "main" else "@" + arguments.revision.replace("/", "_")
        folder = arguments.models / (arguments.repository + suffix)
        print(get(hub, arguments.repository, arguments.revision, arguments.gguf, folder))
    except Failure as failure:
        sys.exit(f"get-model: {arguments.repository}: {failure}")
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"get-model: {arguments.repository}: {error}")
    except KeyboardInterrupt:
        sys.exit("get-model: interrupted; run it again to go on")


if __name__ == "__main__":
    main()
