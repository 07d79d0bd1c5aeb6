"""The pod specs' promises, kept by the real processes: started with the command lines and environment of the chart's render
(tests/golden/helm), asked what its probes ask, sent what the kubelet sends."""

import glob
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import yaml

from harness import (BIN, DEMO, PATIENCE, ROOT, Process, Stream, grpc, inference_pb2, inference_pb2_grpc, make_request,
                     wait_until)

sys.path.insert(0, os.path.join(ROOT, "deploy", "docker"))
import build_root  # noqa: E402

RENDERS = os.path.join(ROOT, "tests", "golden", "helm")
CHAT = [("user", "What is a KV block?")]
READINESS = {"router": "baton.v1.InferenceService", "prefill": "baton.internal.v1.PrefillService",
             "decode": "baton.internal.v1.DecodeService"}


def deployments(render="*"):
    """(render's name, deployment) of every kept render."""
    for path in sorted(glob.glob(os.path.join(RENDERS, render + ".yaml"))):
        with open(path, encoding="utf-8") as file:
            for found in yaml.safe_load_all(file):
                if found and found["kind"] == "Deployment":
                    yield os.path.basename(path), found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pod:
    """One pod of the default render on this machine. Of its command line only addresses, the model's path, the size of the pool
    and the number of threads are replaced: there is one machine and no mount."""

    def __init__(self, role, workers=(), model=DEMO, wrap=lambda command, env: (command, env), extra=(), port=None):
        found, = (d for _, d in deployments("default") if d["spec"]["template"]["metadata"]["labels"]["baton/role"] == role)
        self.role, self.deployment, self.spec = role, found, found["spec"]["template"]["spec"]
        self.container, = self.spec["containers"]
        self.port = port or free_port()
        local = {"--host": "127.0.0.1", "--metrics_host": "127.0.0.1", "--control_host": "127.0.0.1", "--bind_host": "127.0.0.1",
                 "--port": str(self.port), "--metrics_port": "0", "--control_port": "0", "--threads": "1", "--kv_gib": "0.1",
                 "--model": model, "--workers": ",".join(getattr(worker, "address", worker) for worker in workers)}
        program, *arguments = self.container["args"]
        flags = []
        for argument in arguments:
            flag, _, value = argument.partition("=")
            flags.append(f"{flag}={local.get(flag, value)}")
        env = {e["name"]: e["value"] for e in self.container["env"] if "value" in e}
        command, env = wrap([os.path.join(BIN, program), *flags, *extra], env)
        self.process = Process(*command, env=env)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def probe(self, kind):
        """What the kubelet's gRPC probe would find: True, False, or None when nobody answers."""
        ask = self.container[kind + "Probe"]["grpc"]
        result = subprocess.run([os.path.join(BIN, "baton"), "health", self.address, *filter(None, [ask.get("service")])],
                                capture_output=True, text=True, timeout=PATIENCE, check=False)
        return {"SERVING\n": True, "NOT_SERVING\n": False}.get(result.stdout)

    def wait_ready(self):
        wait_until(lambda: self.probe("readiness"), f"{self.role} is ready")
        return self

    def terminate(self):
        self.process.popen.send_signal(signal.SIGTERM)

    def assert_ends_well(self):
        assert self.process.popen.wait(PATIENCE) == 0, self.process.log_text()
        self.process.assert_ended_well()


class Release(unittest.TestCase):
    """Pods of a test; whatever still runs at its end is stopped and must end well."""

    def setUp(self):
        self.pods = []

    def tearDown(self):
        for pod in sorted(self.pods, key=lambda pod: pod.role != "router"):
            pod.process.stop()
            pod.process.assert_ended_well()

    def pod(self, role, **options):
        self.pods.append(Pod(role, **options))
        return self.pods[-1]

    def release(self):
        prefill, decode = self.pod("prefill"), self.pod("decode")
        router = self.pod("router", workers=[prefill, decode], extra=["--disaggregation=always"])
        for pod in (prefill, decode, router):
            pod.wait_ready()
        self.wait_pair(router)
        return router, prefill, decode

    @staticmethod
    def api(router):
        return inference_pb2_grpc.InferenceServiceStub(grpc.insecure_channel(router.address))

    def wait_pair(self, router):
        wait_until(lambda: any(m.prefill_workers and m.decode_workers for m in self.api(router).ListModels(
            inference_pb2.ListModelsRequest(), timeout=PATIENCE).models), "a pair of workers")

    def stream(self, router, **sampling):
        request = make_request(CHAT, **{"max_tokens": 200, "ignore_eos": True, "temperature": 0, **sampling})
        return Stream(self.api(router).StreamGenerate(inference_pb2.StreamGenerateRequest(request=request), timeout=PATIENCE))

    def wait_decoding(self, stream):
        """A token that the decode worker made: the first ones are the prefill worker's, and may come before the lease."""
        while True:
            message = stream.next()
            self.assertIsNotNone(message, stream.error)
            if any(delta.token_index > 0 for delta in message.deltas):
                return


class Probes(unittest.TestCase):
    def test_K8S_01_budgets_instead_of_delays(self):
        seen = 0
        for name, found in deployments():
            role = found["spec"]["template"]["metadata"]["labels"]["baton/role"]
            container, = found["spec"]["template"]["spec"]["containers"]
            with self.subTest(render=name, role=role):
                probes = {kind: container[kind + "Probe"] for kind in ("startup", "liveness", "readiness")}
                for probe in probes.values():
                    self.assertNotIn("initialDelaySeconds", probe)
                    self.assertGreaterEqual(probe["failureThreshold"], 3)
                    self.assertGreater(probe["timeoutSeconds"], 1)
                budget = probes["startup"]["periodSeconds"] * probes["startup"]["failureThreshold"]
                if role != "router":
                    self.assertGreaterEqual(budget, 20 * 60)
                    self.assertGreater(found["spec"]["progressDeadlineSeconds"], budget)
                    self.assertEqual(self.asked(probes["startup"]), READINESS[role])
                else:  # its readiness depends on workers, its start does not
                    self.assertEqual(self.asked(probes["startup"]), "")
                self.assertEqual(self.asked(probes["liveness"]), "")
                self.assertEqual(self.asked(probes["readiness"]), READINESS[role])
                seen += 1
        self.assertGreater(seen, 20)

    @staticmethod
    def asked(probe):
        """The service that a probe names, "" for the process itself."""
        if "grpc" in probe:
            return probe["grpc"].get("service", "")
        command = probe["exec"]["command"]
        assert command[:2] == ["baton", "health"]
        return "".join(word for word in command[3:] if not word.startswith("-"))

    def test_K8S_02_grace_is_pause_and_drain_and_more_without_a_shell(self):
        for name, found in deployments():
            spec = found["spec"]["template"]["spec"]
            container, = spec["containers"]
            with self.subTest(render=name, deployment=found["metadata"]["name"]):
                hook = container.get("lifecycle", {}).get("preStop", {})
                pause = 0
                if "sleep" in hook:
                    pause = hook["sleep"]["seconds"]
                elif hook:
                    self.assertEqual(hook["exec"]["command"][0], "sleep")
                    pause = int(hook["exec"]["command"][1])
                drain = int(next(a for a in container["args"] if a.startswith("--grace_seconds=")).partition("=")[2])
                self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], pause + drain + 10)
                self.assertNotIn("command", container)  # the image's entry point, tini, stays the first process

    def test_K8S_05_security_context_is_restricted(self):
        for name, found in deployments():
            spec = found["spec"]["template"]["spec"]
            with self.subTest(render=name, deployment=found["metadata"]["name"]):
                self.assertTrue(spec["securityContext"]["runAsNonRoot"])
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertFalse(spec["automountServiceAccountToken"])
                self.assertFalse(spec["enableServiceLinks"])
                for container in spec["containers"] + spec.get("initContainers", []):
                    security = container["securityContext"]
                    self.assertTrue(security["readOnlyRootFilesystem"])
                    self.assertFalse(security["allowPrivilegeEscalation"])
                    self.assertEqual(security["capabilities"]["drop"], ["ALL"])

    def test_K8S_05_paths_follow_the_model_s_mount(self):
        for name, found in deployments():
            spec = found["spec"]["template"]["spec"]
            for container in spec["containers"] + spec.get("initContainers", []):
                mounts = {m["name"]: m["mountPath"] for m in container.get("volumeMounts", ())}
                env = {e["name"]: e.get("value") for e in container["env"]}
                with self.subTest(render=name, container=container["name"]):
                    if "model" in mounts:
                        if container["name"] == "model":
                            self.assertEqual(env["BATON_CACHE"], mounts["model"])
                        else:
                            path, = (a.partition("=")[2] for a in container["args"] if a.startswith("--model="))
                            self.assertTrue(path.startswith(mounts["model"] + "/"), path)
                    self.assertEqual(env["HOME"], mounts["tmp"])


class Load(Release):
    def test_K8S_01_a_load_is_live_and_not_ready_until_its_end(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            subprocess.run([os.path.join(BIN, "baton"), "make-model", "--shape", "smollm2-135m", "--dtype", "bf16", "--out", model],
                           check=True, capture_output=True, timeout=PATIENCE * 3)
            decode = self.pod("decode", model=model)
            decode.process.wait_log("listening")
            with grpc.insecure_channel(decode.address) as channel:
                # Asked as fast as it answers, by the bytes of grpc.health.v1: no process start in between.
                check = channel.unary_unary("/grpc.health.v1.Health/Check", lambda s: b"\x0a" + bytes([len(s)]) + s, lambda b: b)

                def ask(service):
                    return check(service, timeout=PATIENCE, wait_for_ready=True) == b"\x08\x01"
                while_loading = []
                while not ask(READINESS["decode"].encode()):
                    while_loading.append(ask(b""))
            self.assertGreater(len(while_loading), 1)
            self.assertTrue(all(while_loading))
            decode.process.wait_log("ready")
            self.assertTrue(decode.probe("startup"))
            self.assertEqual([line["message"] for line in decode.process.lines].count("ready"), 1)

    def test_K8S_01_a_failed_load_ends_the_process_with_its_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            decode = Pod("decode", model=folder)
            self.assertEqual(decode.process.popen.wait(PATIENCE), 1)
            self.assertIn(folder, decode.process.wait_log("cannot start")["error"])

    def test_K8S_01_liveness_does_not_depend_on_peers(self):
        prefill = self.pod("prefill")
        prefill.wait_ready()
        router = self.pod("router", workers=[prefill])
        router.process.wait_log("listening")
        wait_until(lambda: router.probe("startup"), "the router has started")
        self.assertTrue(router.probe("liveness"))
        self.assertFalse(router.probe("readiness"))  # nobody could decode


class Drain(Release):
    def assert_drains(self, choose):
        router, prefill, decode = self.release()
        pod = choose(router, prefill, decode)
        streams = [self.stream(router, n=4) for _ in range(4)]
        for stream in streams:
            self.wait_decoding(stream)
        for _ in range(20):  # whoever else wants it gone
            pod.terminate()
        pod.process.wait_log("draining")
        pod.terminate()
        for stream in streams:
            result = stream.result()
            self.assertEqual([len(choice.token_ids) for choice in result.choices], [200] * 4)
        pod.assert_ends_well()
        return router

    def test_K8S_02_router_finishes_its_streams_and_takes_no_more(self):
        router = self.assert_drains(lambda router, prefill, decode: router)
        stream = self.stream(router)
        self.assertEqual(stream.code(), grpc.StatusCode.UNAVAILABLE)

    def test_K8S_02_prefill_worker_loses_no_stream(self):
        self.assert_drains(lambda router, prefill, decode: prefill)

    def test_K8S_02_decode_worker_loses_no_stream(self):
        self.assert_drains(lambda router, prefill, decode: decode)

    def test_K8S_02_rolling_update_under_load_loses_no_stream(self):
        # What DNS does: the routers know old and new pods. What Endpoints do: clients go to routers that are not being stopped.
        old = {role: self.pod(role) for role in ("prefill", "decode")}
        ports = {role: free_port() for role in old}
        known = [pod.address for pod in old.values()] + [f"127.0.0.1:{port}" for port in ports.values()]
        routers = [self.pod("router", workers=known), self.pod("router", workers=known)]
        for pod in [*old.values(), *routers]:
            pod.wait_ready()
        target, failures, served, stop = [routers[0]], [], [0], threading.Event()

        def client():
            while not stop.is_set():
                stream = self.stream(target[0], max_tokens=60)
                if stream.code() != grpc.StatusCode.OK:
                    failures.append(stream.error)
                served[0] += 1
        clients = [threading.Thread(target=client) for _ in range(3)]
        for thread in clients:
            thread.start()
        try:
            for role in ("decode", "prefill"):
                fresh = self.pod(role, port=ports[role]).wait_ready()
                # minReadySeconds is the time that this may take.
                self.assertGreaterEqual(fresh.deployment["spec"]["minReadySeconds"], 30 + 5)  # a DNS answer's age, --resolve_seconds
                for router in routers:
                    wait_until(lambda r=router, k=role: r.process.metrics()[f'baton_workers_ready{{worker_role="{k}"}}'] == 2,
                               f"the routers have found the new {role}")
                old[role].terminate()
                old[role].assert_ends_well()
            target[0] = routers[1]
            before = served[0]
            wait_until(lambda: served[0] > before + 3, "clients have moved to the other router")
            routers[0].terminate()
            routers[0].assert_ends_well()
            before = served[0]
            wait_until(lambda: served[0] > before + 3, "streams after the update")
        finally:
            stop.set()
            for thread in clients:
                thread.join()
        self.assertEqual([], failures)


def restricted(folder):
    """A wrapper for Pod: read-only root, writable /tmp and /dev/shm only, any user, no capabilities, the pod's environment alone."""
    def wrap(command, env):
        script = ("mount --make-rprivate / && mount -t tmpfs -o mode=1777 tmp /dev/shm && "
                  f"mount --bind {folder} /tmp && mount -o remount,bind,ro / && exec \"$@\"")
        return ["/usr/bin/unshare", "--mount", "/bin/sh", "-ec", script, "sh", "/usr/bin/setpriv", "--reuid", "1000800000", "--regid", "0",
                "--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all",
                "/usr/bin/env", "-i", *[f"{k}={v}" for k, v in env.items()], *command], {}
    return wrap


class Restricted(Release):
    def test_K8S_05_serves_as_any_user_with_a_read_only_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to become another user")
        if BIN.startswith("/tmp/") or DEMO.startswith("/tmp/"):
            self.skipTest("needs programs and model outside /tmp, which the pods have to themselves")
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            os.chmod(folder, 0o1777)
            wrap = restricted(folder)
            prefill, decode = self.pod("prefill", wrap=wrap), self.pod("decode", wrap=wrap)
            router = self.pod("router", workers=[prefill, decode], wrap=wrap, extra=["--disaggregation=always"])
            for pod in (prefill, decode, router):
                pod.wait_ready()
                with open(f"/proc/{pod.process.popen.pid}/status", encoding="ascii") as file:
                    status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
                self.assertEqual(status["Uid"].split(), ["1000800000"] * 4)
                self.assertEqual(int(status["CapEff"], 16), 0)
                self.assertEqual(status["NoNewPrivs"].strip(), "1")
            self.wait_pair(router)
            report = self.stream(router, max_tokens=40, ignore_eos=False).result().reports[0]
            self.assertGreater(report.route.kv_bytes, 0)
            for pod in (router, prefill, decode):
                pod.terminate()
                pod.assert_ends_well()
            self.assertEqual(os.listdir(folder), [])  # what is written to /tmp does not stay


IMAGES = os.environ.get("BATON_IMAGES", "")


def built(image):
    return os.path.exists(os.path.join(IMAGES, image, build_root.CONFIG))


def in_image(name, command, env=None):
    """The command line that runs a program in an image's root, as strict as the chart's pods."""
    return build_root.run_command(os.path.join(IMAGES, name), "1000800000:0", [], "256m",
                                  [os.path.basename(command[0]), *command[1:]], [f"{k}={v}" for k, v in (env or {}).items()])


@unittest.skipUnless(IMAGES, "needs BATON_IMAGES, the folder that build_root.py made")
class Images(Release):
    def pod_in(self, image, role, **options):
        return self.pod(role, wrap=lambda command, env: (in_image(image, command, env), {}), **options)

    def check_workers(self, image):
        model = "/opt/baton/models/demo"
        prefill, decode = self.pod_in(image, "prefill", model=model), self.pod_in(image, "decode", model=model)
        router = self.pod_in("router", "router", workers=[prefill, decode], extra=["--disaggregation=always"])
        for pod in (prefill, decode, router):
            pod.wait_ready()
            with open(f"/proc/{pod.process.popen.pid}/comm", encoding="ascii") as file:
                self.assertEqual(file.read().strip(), "tini")
        self.wait_pair(router)
        stream = self.stream(router, n=4)
        self.wait_decoding(stream)
        for pod in (prefill, decode, router):
            pod.terminate()
            pod.process.wait_log("draining")
        self.assertEqual([len(choice.token_ids) for choice in stream.result().choices], [200] * 4)
        for pod in (prefill, decode, router):
            pod.assert_ends_well()

    def test_K8S_02_K8S_05_workers_serve_and_drain_by_their_first_process(self):
        self.check_workers("worker-cpu")

    @unittest.skipUnless(built("worker-cuda"), "worker-cuda was not built")
    def test_K8S_02_K8S_05_workers_for_gpus_serve_without_one(self):
        self.check_workers("worker-cuda")

    @unittest.skipUnless(built("worker-cuda"), "worker-cuda was not built")
    def test_workers_for_gpus_say_that_there_is_none(self):
        for program in ("baton-prefill", "baton-decode"):
            worker = Process(*in_image("worker-cuda", [program, "--model=/opt/baton/models/demo", "--engine=cuda"]))
            self.assertEqual(worker.popen.wait(PATIENCE), 1)
            self.assertIn("no CUDA device: no driver of NVIDIA found", worker.wait_log("cannot start")["error"])


if __name__ == "__main__":
    unittest.main()
