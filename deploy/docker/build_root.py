#!/usr/bin/env python3
"""Builds the Dockerfile's targets as plain folders, for machines without a container engine, and runs programs in them.

    build_root.py build TARGET [--out FOLDER] [--suite bookworm] [--ccache FOLDER] [--bind HOST:INSIDE[:ro]]...
    build_root.py run FOLDER/TARGET [--user UID:GID] [--bind HOST:INSIDE[:ro]]... [--shm SIZE] -- PROGRAM [ARGUMENT]...

`build` reads the Dockerfile's own instructions; its base image is what debootstrap makes of the suite. `run` is as
strict as the chart's pods: read-only root, the given user without capabilities or new privileges, an empty environment
but for the image's, a /tmp and a /dev/shm of its own. Both need root (chroot, mounts). The network is the machine's.
What is bound into a build is there while RUN runs, such as the certificates of a proxy, and becomes no part of the
image.
"""

import argparse
import dataclasses
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
DOCKERFILE = os.path.join(ROOT, "deploy", "docker", "Dockerfile")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONFIG = "image.json"  # beside a root: what an image's configuration would hold
# From the caller's environment to RUN.
PASSED_ON = re.compile(r"(?i)(https?|no)_proxy|CMAKE_BUILD_PARALLEL_LEVEL|CCACHE_(BASEDIR|NOHASHDIR|COMPILERCHECK)")


@dataclasses.dataclass
class Stage:
    name: str
    base: str
    steps: list = dataclasses.field(default_factory=list)  # (instruction, arguments)


def instructions(text):
    """(INSTRUCTION, rest) with continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    for line in joined.splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def stages(text):
    arguments, found = {}, {}
    stage = None
    for word, rest in instructions(text):
        if word == "ARG" and stage is None:
            name, _, value = rest.partition("=")
            arguments[name] = value
        elif word == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            stage = found[name] = Stage(name, re.sub(r"\$\{(\w+)\}", lambda m: arguments[m[1]], base))
        else:
            stage.steps.append((word, rest))
    return found


def sh(*command, **options):
    return subprocess.run(command, check=True, **options)


def bind_mounts(root, binds):
    """Shell commands that mount HOST:INSIDE[:ro], files or folders, with something made in the root to mount over."""
    for bind in binds:
        host, inside, *options = bind.split(":")
        if os.path.isdir(host):
            os.makedirs(root + inside, exist_ok=True)
        elif not os.path.exists(root + inside):
            os.makedirs(os.path.dirname(root + inside), exist_ok=True)
            open(root + inside, "w", encoding="ascii").close()
        yield f"mount --bind {shlex.quote(host)} {{0}}{inside}"
        if options == ["ro"]:
            yield f"mount -o remount,bind,ro {{0}}{inside}"


def in_mounts(root, mounts, command):
    """Runs a shell script with `mounts` made in a mount namespace that ends with it."""
    script = " && ".join(["mount -t proc proc {0}/proc", "mount --rbind /dev {0}/dev", *mounts, command])
    return ["/usr/bin/unshare", "--mount", "sh", "-ec", script.replace("{0}", shlex.quote(root))]


class Builder:
    def __init__(self, out, suite, ccache, binds=()):
        self.out, self.suite, self.ccache, self.binds = os.path.abspath(out), suite, os.path.abspath(ccache), binds
        with open(DOCKERFILE, encoding="utf-8") as file:
            self.stages = stages(file.read())

    def folder(self, name):
        return os.path.join(self.out, name)

    def base(self):
        """The base image's stand-in, kept for the next build."""
        root = self.folder("debian-" + self.suite)
        if not os.path.exists(root + ".done"):
            shutil.rmtree(root, ignore_errors=True)
            sh("debootstrap", "--variant=minbase", "--include=ca-certificates", self.suite, root,
               stdout=subprocess.DEVNULL)
            with open(root + "/etc/apt/sources.list", "w", encoding="ascii") as file:
                for suite, archive in ((self.suite, "debian"), (self.suite + "-updates", "debian"),
                                       (self.suite + "-security", "debian-security")):
                    file.write(f"deb http://deb.debian.org/{archive} {suite} main\n")
            open(root + ".done", "w", encoding="ascii").close()
        return root

    def build(self, name):
        stage = self.stages[name]
        for word, rest in stage.steps:
            if word == "COPY" and (source := re.search(r"--from=([\w-]+)", rest)):
                if not os.path.exists(os.path.join(self.folder(source[1]), CONFIG)):
                    self.build(source[1])
        if stage.base in self.stages:
            if not os.path.exists(os.path.join(self.folder(stage.base), CONFIG)):
                self.build(stage.base)
            parent = self.folder(stage.base)
            with open(os.path.join(parent, CONFIG), encoding="utf-8") as file:
                config = json.load(file)
            parent = os.path.join(parent, "root")
        else:
            parent = self.base()
            config = {"env": {"PATH": PATH}, "user": "0:0", "workdir": "/", "entrypoint": [], "cmd": []}
        print(f"== stage {name}", file=sys.stderr)
        shutil.rmtree(self.folder(name), ignore_errors=True)
        os.makedirs(self.folder(name))
        root = os.path.join(self.folder(name), "root")
        sh("cp", "-a", "--reflink=auto", parent, root)
        for word, rest in stage.steps:
            print(f"   {word} {rest[:110]}", file=sys.stderr)
            getattr(self, "do_" + word.lower())(root, config, rest)
        with open(os.path.join(self.folder(name), CONFIG), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)

    def do_run(self, root, config, rest):
        mounts = ["cp /etc/resolv.conf {0}/etc/resolv.conf", *bind_mounts(root, self.binds)]
        while match := re.match(r"--mount=(\S+)\s+", rest):
            mount = dict(part.split("=") for part in match[1].split(","))
            assert mount["type"] == "cache", rest
            os.makedirs(self.ccache, exist_ok=True)
            os.makedirs(root + mount["target"], exist_ok=True)
            mounts.append(f"mount --bind {shlex.quote(self.ccache)} {{0}}{mount['target']}")
            rest = rest[match.end():]
        env = {**config["env"], **{k: v for k, v in os.environ.items() if PASSED_ON.fullmatch(k)}}
        command = ["chroot", "{0}", "env", "-i", "HOME=/root", *[f"{k}={v}" for k, v in env.items()], "sh", "-c",
                   f"cd {config['workdir']} && {rest}"]
        sh(*in_mounts(root, mounts, "exec " + " ".join(c if c == "{0}" else shlex.quote(c) for c in command)),
           stdin=subprocess.DEVNULL, stdout=sys.stderr)

    def do_copy(self, root, config, rest):
        words = shlex.split(rest)
        source_root = ROOT
        if words[0].startswith("--from="):
            source_root = os.path.join(self.folder(words.pop(0)[7:]), "root")
        *sources, target = words
        place = os.path.join(root + "/", os.path.join(config["workdir"], target).lstrip("/"))
        found = [path for source in sources
                 for path in sorted(glob.glob(os.path.join(source_root, source.lstrip("/"))))]
        assert found, f"COPY {rest}: nothing there"
        many = target.endswith("/") or len(found) > 1
        os.makedirs(place if many else os.path.dirname(place), exist_ok=True)
        for path in found:
            if os.path.isdir(path):  # a folder's content
                shutil.copytree(path, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, place)

    def do_env(self, root, config, rest):
        config["env"].update(word.split("=", 1) for word in shlex.split(rest))

    def do_workdir(self, root, config, rest):
        config["workdir"] = rest
        os.makedirs(root + rest, exist_ok=True)

    def do_user(self, root, config, rest):
        config["user"] = rest

    def do_entrypoint(self, root, config, rest):
        config["entrypoint"], config["cmd"] = json.loads(rest), []

    def do_cmd(self, root, config, rest):
        config["cmd"] = json.loads(rest)

    def do_expose(self, root, config, rest):
        pass


def run_command(folder, user, binds, shm, arguments, env=()):
    """The command line that starts `arguments` (or the image's own) in a built folder, as root."""
    folder = os.path.abspath(folder)
    with open(os.path.join(folder, CONFIG), encoding="utf-8") as file:
        config = json.load(file)
    root = os.path.join(folder, "root")
    uid, gid = (user or config["user"]).split(":")
    for name in ("resolv.conf", "hosts"):  # something to mount over
        with open(os.path.join(root, "etc", name), "a", encoding="ascii"):
            pass
    mounts = [f"mount --bind {{0}} {{0}}"]
    mounts += [*bind_mounts(root, binds),
               "mount -t tmpfs -o mode=1777 tmp {0}/tmp", f"mount -t tmpfs -o mode=1777,size={shm} shm {{0}}/dev/shm",
               "mount --bind /etc/resolv.conf {0}/etc/resolv.conf", "mount --bind /etc/hosts {0}/etc/hosts",
               "mount -o remount,bind,ro {0}"]
    command = ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--no-new-privs", "--inh-caps=-all",
               "--bounding-set=-all", "env", "-i", *[f"{k}={v}" for k, v in config["env"].items()], *env,
               *config["entrypoint"], *(arguments or config["cmd"])]
    enter = f"exec chroot {{0}} {shlex.join(command)}"
    # The recursive mount of /dev would lose the tmpfs on /dev/shm to the bind of the root; so the root comes first.
    script = in_mounts(root, mounts[1:], enter)
    script[-1] = mounts[0].replace("{0}", shlex.quote(root)) + " && " + script[-1]
    return script


def parse(words):
    """The command line; `arguments` is what stands behind "--", flags included."""
    mark = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("target")
    build.add_argument("--out", default=os.path.join(ROOT, "build", "images"))
    build.add_argument("--suite", default="bookworm")
    build.add_argument("--ccache", default=os.path.join(ROOT, "build", "images", "ccache"))
    build.add_argument("--bind", action="append", default=[])
    run = commands.add_parser("run")
    run.add_argument("folder")
    run.add_argument("--user", help="UID:GID; default: the image's")
    run.add_argument("--bind", action="append", default=[])
    run.add_argument("--shm", default="1g")
    options = parser.parse_args(words[:mark])
    options.arguments = words[mark + 1:]
    return options


def main():
    options = parse(sys.argv[1:])
    if os.geteuid() != 0:
        sys.exit("build_root.py: needs root, for chroot and mounts")
    if options.command == "build":
        builder = Builder(options.out, options.suite, options.ccache, options.bind)
        if options.target not in builder.stages:
            known = ", ".join(builder.stages)
            sys.exit(f"build_root.py: the Dockerfile has no target {options.target!r}; it has {known}")
        builder.build(options.target)
    else:
        command = run_command(options.folder, options.user, options.bind, options.shm, options.arguments)
        os.execvp(command[0], command)


if __name__ == "__main__":
    main()
