"""Starts real Baton processes on free ports and talks to them over gRPC.

    with Cluster(model) as cluster:
        reply = cluster.generate("hello", max_tokens=4)

Needs python3-grpcio and protoc with its gRPC plugin from Debian, nothing else. BATON_BIN_DIR names the programs' folder.
"""

import contextlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = os.environ.get("BATON_BIN_DIR", os.path.join(ROOT, "build", "cpu", "bin"))
GOLDEN = os.path.join(ROOT, "tests", "golden", "models")
DEMO = os.path.join(ROOT, "deploy", "models", "demo")
# Sanitizers slow everything down; every deadline here is generous and none is a measurement.
# Of a prompt's time account, in their order; they add up.
STAGES = ("tokenize", "queue", "pair", "prefill_queue", "prefill", "first_token", "transfer_tail", "decode_queue", "decode",
          "detokenize", "finish")
PATIENCE = float(os.environ.get("BATON_TEST_PATIENCE", "60"))
# In what a sanitizer prints; never in a log line, which is JSON.
SANITIZER_REPORT = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|: runtime error: ")


def _generate_stubs():
    """Public and internal stubs made from the protos alone, as any client would."""
    out = tempfile.mkdtemp(prefix="baton-stubs-")
    protos = []
    for folder, _, files in os.walk(os.path.join(ROOT, "proto")):
        protos += [os.path.relpath(os.path.join(folder, f), os.path.join(ROOT, "proto")) for f in files if f.endswith(".proto")]
    subprocess.run(
        ["protoc", "-I", os.path.join(ROOT, "proto"), f"--python_out={out}", f"--grpc_python_out={out}",
         "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin", *sorted(protos)],
        check=True)
    # `google` is a namespace of several packages: let the generated google.rpc join it.
    import google
    google.__path__.append(os.path.join(out, "google"))
    sys.path.insert(0, out)


_generate_stubs()
import grpc  # noqa: E402
from baton.v1 import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc  # noqa: E402
from baton.internal.v1 import decode_pb2, decode_pb2_grpc, generation_pb2, prefill_pb2, prefill_pb2_grpc  # noqa: E402
from baton.internal.v1 import worker_pb2, worker_pb2_grpc  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402


def wait_until(condition, what, patience=PATIENCE, every=0.02):
    """Polls until `condition` returns something true and returns that."""
    deadline = time.monotonic() + patience
    while True:
        late = time.monotonic() > deadline  # asked first: a slow machine may give the last look late
        value = condition()
        if value:
            return value
        if late:
            raise AssertionError(f"waited {patience:.0f} s in vain: {what}")
        time.sleep(every)


def wait_for_stage(reached, streams, stage, patience=PATIENCE):
    """Polls until `reached`, as long as one of the streams (or the only one) is under way: work that ended unseen was too
    short for its test, and waiting any longer would be in vain. The work must be long against the poll, by steps
    (prompts read token by token, long answers), not by hoping for a slow machine."""
    streams = streams if isinstance(streams, (list, tuple)) else [streams]

    def reached_in_time():
        ended = all(stream.done.is_set() for stream in streams)  # asked first: the work may end between the two
        value = reached()
        if ended and not value:
            raise AssertionError(f"all work ended before it was seen in this stage: {stage}; it ended with "
                                 f"{[f'{s.call.code()} {s.call.details()}' for s in streams]}")
        return value
    return wait_until(reached_in_time, stage, patience, every=0.002)


class Process:
    """One program; its JSON log lines are kept and can be waited for."""

    def __init__(self, program, *flags, env=None):
        self.program = program
        self.flags = flags
        self.lines = []
        self.plain_lines = []  # what is no JSON: a library's complaint, a sanitizer's report
        self._port_holder = None
        self._changed = threading.Condition()
        environment = dict(os.environ, **(env or {}))
        self.popen = subprocess.Popen([os.path.join(BIN, program), *flags], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self.popen.stderr as lines:
            for line in lines:
                with self._changed:
                    try:
                        self.lines.append(json.loads(line))
                    except ValueError:
                        self.lines.append({"message": line.rstrip("\n")})
                        self.plain_lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_log(self, message, patience=PATIENCE):
        """The first log line with this message."""
        deadline = time.monotonic() + patience
        with self._changed:
            while True:
                over = not self._reader.is_alive()  # it has read the last line there will be
                for line in self.lines:
                    if line.get("message") == message:
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or over:
                    raise AssertionError(f"{self.program} did not log '{message}'; it said:\n{self.log_text()}")
                self._changed.wait(min(left, 0.2))

    def log_text(self):
        return "\n".join(json.dumps(line) for line in self.lines[-40:])

    @property
    def port(self):
        return self.wait_log("listening")["port"]

    @property
    def metrics_port(self):
        return self.wait_log("listening")["metrics_port"]

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def metrics(self):
        """Series to value: 'baton_kv_blocks{state="free"}' (labels sorted; model and role left out, summed over)."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=PATIENCE).read().decode()
        out = {}
        for line in text.splitlines():
            match = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$", line)
            if not match:
                continue
            labels = sorted(l for l in re.findall(r'\w+="[^"]*"', match[2] or "") if not l.startswith(("model=", "role=")))
            key = match[1] + ("{" + ",".join(labels) + "}" if labels else "")
            out[key] = out.get(key, 0) + float(match[3])
        return out

    def kill(self):
        """SIGKILL. Nobody else gets its port: a router still asks for it, and it may be started again."""
        port = self.port
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()
        self._port_holder = socket.socket()
        self._port_holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that does the same may listen
        self._port_holder.bind(("0.0.0.0", port))

    def free_port(self):
        if self._port_holder:
            self._port_holder.close()

    @contextlib.contextmanager
    def paused(self):
        """Stopped for the length of a block. Routers take workers for lost that are silent for some seconds: keep it short."""
        self.popen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.popen.send_signal(signal.SIGCONT)

    def stop(self, patience=PATIENCE):
        """SIGTERM; returns the exit status."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        try:
            status = self.popen.wait(patience)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(f"{self.program} did not stop:\n{self.log_text()}")
        report = self.sanitizer_report()
        assert not report, f"{self.program} ended with {status} and this report:\n{report}"
        return status

    def sanitizer_report(self):
        """What a sanitizer said of a process that has ended, or ""."""
        self._reader.join(PATIENCE)
        text = "".join(self.plain_lines)
        return text if SANITIZER_REPORT.search(text) else ""

    def assert_ended_well(self):
        """A process that has ended did so with status 0, or was killed by its test, and no sanitizer complained."""
        report = self.sanitizer_report()
        assert not report, f"{self.program} ended with {self.popen.returncode} and this report:\n{report}"
        assert self.popen.returncode in (0, -signal.SIGKILL), \
            f"{self.program} ended with {self.popen.returncode}:\n{self.log_text()}"

    @property
    def alive(self):
        return self.popen.poll() is None


class Stream:
    """A StreamGenerate call read by its own thread."""

    def __init__(self, call):
        self.call = call
        self.messages = []
        self.first_message = None  # time.monotonic() of its arrival
        self.error = None
        self.done = threading.Event()
        self._queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for message in self.call:
                self.first_message = self.first_message or time.monotonic()
                self.messages.append(message)
                self._queue.put(message)
        except grpc.RpcError as error:
            self.error = error
        self.done.set()
        self._queue.put(None)

    def next(self, patience=PATIENCE):
        """The next message, or None at the end."""
        return self._queue.get(timeout=patience)

    def wait(self, patience=PATIENCE):
        assert self.done.wait(patience), "the stream did not end"
        return self

    def code(self):
        self.wait()
        return self.call.code()

    def result(self):
        """The stream put together as a GenerateResponse; raises the call's error."""
        self.wait()
        if self.error:
            raise self.error
        return assemble(self.messages)


def assemble(messages):
    response = inference_pb2.GenerateResponse()
    choices = {}
    for message in messages:
        response.request_id = message.request_id
        if message.model:
            response.model, response.seed = message.model, message.seed
        for delta in message.deltas:
            choice = choices.setdefault((delta.prompt_index, delta.index), inference_pb2.Choice(
                prompt_index=delta.prompt_index, index=delta.index))
            assert delta.token_index == len(choice.token_ids), "an index came twice, or one is missing"
            choice.text += delta.text
            choice.token_ids.extend(delta.token_ids)
            choice.logprobs.extend(delta.logprobs)
            if delta.finish_reason:
                choice.finish_reason = delta.finish_reason
                choice.matched_stop = delta.matched_stop
                if delta.HasField("matched_stop_token_id"):
                    choice.matched_stop_token_id = delta.matched_stop_token_id
        response.reports.extend(message.reports)
    response.choices.extend(choices[key] for key in sorted(choices))
    response.reports.sort(key=lambda report: report.prompt_index)
    return response


def make_request(prompt, request_id="", **sampling):
    """`prompt`: text, a list of ids, [(role, content), ...] or a list of those (several prompts)."""
    request = inference_pb2.GenerateRequest(request_id=request_id)
    for field in ("model", "priority", "cache_salt"):
        if field in sampling:
            setattr(request, field, sampling.pop(field))
    several = isinstance(prompt, list) and prompt and isinstance(prompt[0], (str, list))
    for one in prompt if several else [prompt]:
        message = request.prompts.add()
        if isinstance(one, str):
            message.text = one
        elif one and isinstance(one[0], tuple):
            for role, content in one:
                message.chat.messages.add(role=role, content=content)
        else:
            message.tokens.ids.extend(one)
    for name, value in sampling.items():
        field = getattr(request.sampling, name)
        if isinstance(value, dict):
            field.update(value)
        elif isinstance(value, (list, tuple)):
            field.extend(value)
        else:
            setattr(request.sampling, name, value)
    return request


class Cluster:
    """A router with prefill and decode workers of one model."""

    def __init__(self, model=None, prefill=1, decode=1, worker_flags=(), prefill_flags=(), decode_flags=(),
                 router_flags=(), transport="ucx", engine_probe=False, worker_programs=("", "")):
        """`worker_programs`: the folder below BATON_BIN_DIR of the prefill workers' program, and of the decode workers'."""
        self.model = model or os.path.join(GOLDEN, "qwen2")
        self.worker_flags = ["--model", self.model, "--kv_gib", "0.02", "--transport", transport,
                             "--bandwidth_probe=false", f"--engine_probe={str(engine_probe).lower()}", *worker_flags]
        self.program_folders = dict(zip(("prefill", "decode"), worker_programs))
        self.prefill_flags, self.decode_flags, self.router_flags = prefill_flags, decode_flags, router_flags
        self.started = []  # every process there ever was, killed and replaced ones too
        self.prefill, self.decode, self.router = [], [], None
        try:
            self.prefill += [self.start_worker("prefill") for _ in range(prefill)]
            self.decode += [self.start_worker("decode") for _ in range(decode)]
            workers = ",".join(worker.address for worker in self.prefill + self.decode)
            for worker in self.prefill + self.decode:
                worker.wait_log("ready")
            self.router = Process("baton-router", "--workers", workers, *router_flags)
            self.started.append(self.router)
            self.channel = grpc.insecure_channel(self.router.address)
            self.api = inference_pb2_grpc.InferenceServiceStub(self.channel)
            self.admin = admin_pb2_grpc.AdminServiceStub(self.channel)
            if decode:
                self.wait_workers(prefill, decode)
        except BaseException:
            self.close(check=False)
            raise

    def start_worker(self, role, port=0, extra=()):
        flags = [*self.worker_flags, *(self.prefill_flags if role == "prefill" else self.decode_flags), *extra]
        threads = () if "--engine=cuda" in flags else ("--threads", "1")
        worker = Process(os.path.join(self.program_folders[role], f"baton-{role}"), "--port", str(port), *threads, *flags)
        self.started.append(worker)
        return worker

    def restart(self, worker):
        """Starts a killed worker's program again on its port; returns the new process, in its list's place."""
        role = "prefill" if worker in self.prefill else "decode"
        fresh = self.start_worker(role, worker.port)
        pool = getattr(self, role)
        pool[pool.index(worker)] = fresh
        fresh.wait_log("ready")
        return fresh

    def programs(self):
        return [self.router, *self.prefill, *self.decode]

    def wait_workers(self, prefill, decode):
        def ready():
            models = self.api.ListModels(inference_pb2.ListModelsRequest(), wait_for_ready=True, timeout=PATIENCE).models
            return any(m.prefill_workers == prefill and m.decode_workers == decode for m in models)
        wait_until(ready, f"{prefill} prefill and {decode} decode workers ready")

    def generate(self, prompt, timeout=PATIENCE, **arguments):
        return self.api.Generate(make_request(prompt, **arguments), timeout=timeout)

    def stream(self, prompt, timeout=PATIENCE, metadata=None, **arguments):
        request = inference_pb2.StreamGenerateRequest(request=make_request(prompt, **arguments))
        return Stream(self.api.StreamGenerate(request, timeout=timeout, metadata=metadata))

    def assert_idle(self):
        """I1 and I4 at rest: every block free or cached, no lease, nothing running or waiting, anywhere."""
        self.assert_workers_idle()
        router = self.router.metrics
        wait_until(lambda: router()["baton_requests_running"] == 0 and router()["baton_requests_waiting"] == 0,
                   "the router is idle")

    def assert_workers_idle(self):
        for worker in self.prefill + self.decode:
            if not worker.alive:
                continue
            def idle():
                m = worker.metrics()
                busy = [m[f'baton_kv_blocks{{state="{s}"}}'] for s in ("leased", "owned", "quarantined")]
                return not any(busy) and m["baton_requests_running"] == 0 and m["baton_requests_waiting"] == 0 \
                    and m.get("baton_leases_open", 0) == 0
            wait_until(idle, f"{worker.program} gives everything back; it has "
                             f"{ {k: v for k, v in worker.metrics().items() if 'kv_blocks{' in k or 'requests_' in k or 'leases' in k} }")

    def close(self, check=True):
        """Stops everything, the router first. With `check`, every process must have ended well."""
        failures = []
        for process in sorted(self.started, key=lambda process: process is not self.router):
            process.free_port()
            try:
                process.stop()
                process.assert_ended_well()
            except AssertionError as failure:
                failures.append(str(failure))
        if failures and check:
            raise AssertionError("\n".join(failures))
        for failure in failures:
            print(failure, file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(check=kind is None)


def details(error):
    """google.rpc details of an RpcError by message name."""
    out = {}
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for entry in status_pb2.Status.FromString(value).details:
                for kind in (error_details_pb2.BadRequest, error_details_pb2.RetryInfo):
                    if entry.Is(kind.DESCRIPTOR):
                        message = kind()
                        entry.Unpack(message)
                        out[kind.DESCRIPTOR.name] = message
    return out
