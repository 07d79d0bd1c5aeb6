#!/usr/bin/env python3
"""Baton beside llama.cpp on the same GGUF files, in one run: alternating rounds, medians, ratios (Baton / llama.cpp).

    tests/bench/compare_llamacpp.py                                   # Qwen2.5-0.5B's shape, random weights, every format
    tests/bench/compare_llamacpp.py --shape smollm2-135m --dtypes q8_0,q4_0 --rounds 7
    tests/bench/compare_llamacpp.py --gguf model.gguf --served --llamacpp ~/llama.cpp/build/bin
    tests/bench/compare_llamacpp.py --dtypes bf16 --served --no_engine --rounds 3 --llamacpp ~/llama.cpp/build/bin

llama.cpp is used through the shared libraries of the Python package llama-cpp-python. `--served` sends 16 streams of 256 + 64
tokens through Baton's router and one worker; the other side is llama-server of --llamacpp, else llama.cpp's own continuous batch
driven in process, without any server: its best case. A server has answered one short prompt before it is measured; an answer that fails
or lasts beyond --timeout ends the run by name. Both sides compute logits of the same tokens and sample nothing; KV is f16.
"""

import argparse
import http.client
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
STREAMS, PROMPT, ANSWER = 16, 256, 64
STEPS = 16  # decode steps of a measurement
WARM_UP = (32, 4)  # prompt and answer of the request before a served round


def tokens(count, salt=0):
    """Ids that are ordinary in every vocabulary."""
    return [(37 * i + 11 * salt + i * i % 23) % 250 for i in range(count)]


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


class Baton:
    def __init__(self, folder, threads, timeout):
        self.folder, self.threads, self.timeout = folder, threads, timeout

    def program(self, name):
        return os.path.join(self.folder, name)

    def make_model(self, shape, dtype, out):
        subprocess.run([self.program("baton"), "make-model", "--shape", shape, "--dtype", dtype, "--format", "gguf", "--out", out],
                       check=True)

    def bench(self, name, *flags):
        with tempfile.NamedTemporaryFile("r") as file:
            ended = subprocess.run([self.program("baton"), "bench", name, "--json", file.name, *flags], capture_output=True, text=True)
            if ended.returncode != 0:
                raise SystemExit(f"baton bench {name}: {last_line(ended.stderr) or last_line(ended.stdout)}")
            return json.load(file)

    def engine(self, gguf):
        flags = ("--model", gguf, "--threads", str(self.threads), "--only_stored", "--repetitions", "1")
        shallow = self.bench("engine", *flags, "--lengths", "512", "--depths", "0", "--batches", f"1,8,{STREAMS}")
        deep = self.bench("engine", *flags, "--lengths", "16", "--depths", "1024", "--batches", "1")
        decode = {row["sequences"]: row["tokens/s"] for row in shallow["tables"][1]["rows"]}
        return {"prefill 512": shallow["tables"][0]["rows"][0]["tokens/s"], "decode, depth 0": decode[1],
                "decode, depth 1,024": deep["tables"][1]["rows"][0]["tokens/s"], "8 sequences": decode[8],
                "16 sequences": decode[STREAMS]}

    def served(self, gguf):
        """Tokens a second and latencies of all streams together, through router and one worker."""
        worker = LoggedProcess([self.program("baton-decode"), "--model", gguf, "--port", "0", "--metrics_port", "0", "--kv_gib", "0.25",
                                "--kv_dtype", "f16", "--threads", str(self.threads), "--transport", "local"])
        router = None
        try:
            router = LoggedProcess([self.program("baton-router"), "--port", "0", "--metrics_port", "0", "--disaggregation", "never",
                                    "--workers", f"127.0.0.1:{worker.port('ready')}"])
            address = f"127.0.0.1:{router.port('listening')}"
            router.wait_ready(self.program("baton"), address)
            with tempfile.NamedTemporaryFile("w") as trace:
                for requests, seed in (f"0 {WARM_UP[0]} {WARM_UP[1]}\n", "1"), (f"0 {PROMPT} {ANSWER}\n" * STREAMS, "2"):
                    trace.seek(0)
                    trace.truncate()
                    trace.write(requests)
                    trace.flush()
                    report = self.bench("load", "--router", address, "--trace", trace.name, "--seed", seed, "--timeout", str(self.timeout))
            latency = {row["what"]: row for row in report["tables"][1]["rows"]}
            return {"tokens/s": report["tables"][0]["rows"][0]["tokens/s"], "TTFT P50, ms": latency["TTFT"]["P50, ms"],
                    "ITL P99, ms": latency["ITL"]["P99, ms"], "ITL max, ms": latency["ITL"]["max, ms"]}
        finally:
            for process in (router, worker):
                if process:
                    process.stop()


class LoggedProcess:
    """A program of Baton; its JSON log lines tell its ports."""

    def __init__(self, command):
        self.name = os.path.basename(command[0])
        self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def port(self, message):
        last = ""
        for line in self.popen.stderr:
            last = line
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            if fields.get("message") == message:
                threading.Thread(target=self.popen.stderr.read, daemon=True).start()
                return fields["port"]
        raise SystemExit(f"{self.name} has ended: {last.strip()}")

    def wait_ready(self, program, address):
        for _ in range(600):
            answer = subprocess.run([program, "models", "--json", "--router", address], capture_output=True, text=True)
            if '"ready":true' in answer.stdout:
                return
            time.sleep(0.1)
        raise SystemExit(f"no ready model at {address}")

    def stop(self):
        self.popen.terminate()
        self.popen.wait()


def import_bindings():
    """llama-cpp-python's low-level module alone: the package itself wants more packages than this needs."""
    if "llama_cpp" in sys.modules:
        return sys.modules["llama_cpp.llama_cpp"]
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None:
        raise SystemExit("llama-cpp-python is not installed for this Python")
    package = types.ModuleType("llama_cpp")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["llama_cpp"] = package
    import llama_cpp.llama_cpp as bindings
    return bindings


class LlamaCpp:
    def __init__(self, gguf, threads):
        self.api = api = import_bindings()
        self.quiet = api.llama_log_callback(lambda level, text, data: None)
        api.llama_log_set(self.quiet, None)
        api.llama_backend_init()
        self.model = api.llama_model_load_from_file(gguf.encode(), api.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp does not load {gguf}")
        params = api.llama_context_default_params()
        params.n_ctx = max(2048, STREAMS * (PROMPT + ANSWER))
        params.n_batch, params.n_ubatch, params.n_seq_max = 2048, 512, STREAMS
        params.n_threads = params.n_threads_batch = threads
        if hasattr(params, "kv_unified"):
            params.kv_unified = True
        self.context = api.llama_init_from_model(self.model, params)
        self.batch = api.llama_batch_init(2048, 0, 1)

    def close(self):
        self.api.llama_batch_free(self.batch)
        self.api.llama_free(self.context)
        self.api.llama_model_free(self.model)

    def clear(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def decode(self, rows):
        """rows: (token, position, sequence, wants logits). Returns seconds."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, logits) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, logits
            batch.seq_id[i][0] = sequence
        start = time.perf_counter()
        status = self.api.llama_decode(self.context, batch)
        self.api.llama_synchronize(self.context)
        if status != 0:
            raise SystemExit(f"llama_decode gives {status}")
        return time.perf_counter() - start

    def prompt(self, ids, sequence=0):
        return self.decode([(token, i, sequence, i + 1 == len(ids)) for i, token in enumerate(ids)])

    def steps(self, sequences, depth, count):
        return sum(self.decode([(tokens(1, step)[0], depth + step, s, True) for s in range(sequences)]) for step in range(count))

    def engine(self, _):
        result = {}
        self.clear()
        result["prefill 512"] = 512 / self.prompt(tokens(512))
        for name, sequences, depth in (("decode, depth 0", 1, 0), ("decode, depth 1,024", 1, 1024), ("8 sequences", 8, 0),
                                       ("16 sequences", STREAMS, 0)):
            self.clear()
            if depth:
                self.prompt(tokens(depth))
            self.steps(sequences, depth, 2)
            result[name] = sequences * STEPS / self.steps(sequences, depth + 2, STEPS)
        return result

    def served(self, _):
        """All streams at once by continuous batching as llama-server does it: running streams first, prompts fill the batch."""
        self.clear()
        prompts = [tokens(PROMPT, s) for s in range(STREAMS)]
        read, made, first, last, gaps = [0] * STREAMS, [0] * STREAMS, [], {}, []
        start = time.perf_counter()
        while min(made) < ANSWER:
            rows = [(7, PROMPT + made[s] - 1, s, True) for s in range(STREAMS) if read[s] == PROMPT and made[s] < ANSWER]
            sampled = [row[2] for row in rows]
            for s in range(STREAMS):
                count = min(PROMPT - read[s], 2048 - len(rows))
                rows += [(prompts[s][i], i, s, i + 1 == PROMPT) for i in range(read[s], read[s] + count)]
                read[s] += count
                if count and read[s] == PROMPT:
                    sampled.append(s)
            self.decode(rows)
            now = time.perf_counter() - start
            for s in sampled:
                if made[s] == 0:
                    first.append(now)
                else:
                    gaps.append(now - last[s])
                last[s] = now
                made[s] += 1
        return latencies(STREAMS * ANSWER / (time.perf_counter() - start), first, gaps)


def latencies(rate, first, gaps):
    gaps = sorted(gaps)
    return {"tokens/s": rate, "TTFT P50, ms": 1e3 * statistics.median(first), "ITL P99, ms": 1e3 * gaps[int(0.99 * (len(gaps) - 1))],
            "ITL max, ms": 1e3 * gaps[-1]}


class LlamaServer:
    """llama-server with its default settings, but for as many slots as there are streams, and its batch if one is given."""

    def __init__(self, folder, threads, timeout, batch):
        self.program, self.threads, self.timeout = os.path.join(folder, "llama-server"), threads, timeout
        self.batch = ["-b", str(batch), "-ub", str(batch)] if batch else []

    def served(self, gguf):
        port = 18080 + os.getpid() % 1000
        process = subprocess.Popen([self.program, "-m", gguf, "--port", str(port), "-np", str(STREAMS), "-c", str(STREAMS * (PROMPT + ANSWER + 64)),
                                    "-t", str(self.threads), "--no-webui", *self.batch], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                if process.poll() is not None:
                    raise SystemExit("llama-server has ended")
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                    connection.request("GET", "/health")
                    if connection.getresponse().status == 200:
                        break
                except OSError:
                    pass
                time.sleep(0.2)
            self.round(port, 1000, 1, *WARM_UP)
            return self.round(port, 2000, STREAMS, PROMPT, ANSWER)
        finally:
            process.terminate()
            process.wait()

    def round(self, port, salt, streams, prompt, answer):
        times = [[] for _ in range(streams)]
        start = time.perf_counter()

        def stream(s):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=self.timeout)
            body = {"prompt": tokens(prompt, salt + s), "n_predict": answer, "stream": True, "ignore_eos": True, "temperature": 0,
                    "cache_prompt": False}
            connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
            for line in connection.getresponse():
                if line.startswith(b"data: ") and not json.loads(line[6:]).get("stop"):
                    times[s].append(time.perf_counter() - start)

        def guarded(s):
            try:
                stream(s)
            except (OSError, http.client.HTTPException) as error:
                failures.append(str(error) or type(error).__name__)

        failures = []
        threads = [threading.Thread(target=guarded, args=(s,)) for s in range(streams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures or not all(times):
            raise SystemExit(f"llama-server: {len(failures)} of {streams} answers failed after {time.perf_counter() - start:.0f} s: "
                             f"{failures[0] if failures else 'an empty answer'} (--timeout is {self.timeout})")
        gaps = [b - a for of in times for a, b in zip(of, of[1:])]
        return latencies(streams * answer / max(of[-1] for of in times), [of[0] for of in times], gaps)


def compare(title, sides, measure, rounds):
    """Alternates between the sides, every round the other way round; medians and their ratio."""
    results = {name: [] for name, _ in sides}
    for number in range(rounds):
        for name, side in sides if number % 2 == 0 else reversed(sides):
            sys.stderr.write(f"\r\033[K{title}: round {number + 1} of {rounds}, {name}")
            sys.stderr.flush()
            results[name].append(measure(side))
    sys.stderr.write("\r\033[K")
    names = [name for name, _ in sides]
    print(f"\n{title}, medians of {rounds} alternating rounds")
    print(f"  {'':22}{names[0]:>12}{names[1]:>18}{'ratio':>8}{'  lowest and highest ratio of a round'}")
    rows = {}
    for key in results[names[0]][0]:
        ours, theirs = ([r[key] for r in results[name]] for name in names)
        ratios = [a / b for a, b in zip(ours, theirs)]
        rows[key] = {"baton": statistics.median(ours), "llamacpp": statistics.median(theirs),
                     "ratio": statistics.median(ours) / statistics.median(theirs)}
        print(f"  {key:22}{rows[key]['baton']:12.1f}{rows[key]['llamacpp']:18.1f}{rows[key]['ratio']:8.2f}"
              f"  {min(ratios):.2f} .. {max(ratios):.2f}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "cpu", "bin"), help="folder of Baton's programs")
    parser.add_argument("--shape", default="qwen2.5-0.5b", help="shape of the random models")
    parser.add_argument("--dtypes", default="bf16,f16,q8_0,q4_0", help="formats to compare")
    parser.add_argument("--gguf", help="compare on this file instead")
    parser.add_argument("--models", help="folder to keep random models in, for another run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeout", type=int, default=600, help="seconds after which a served answer counts as failed")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--served", action="store_true", help="through router and worker, too")
    parser.add_argument("--no_engine", action="store_true", help="leave the engines' comparison out")
    parser.add_argument("--llamacpp", help="folder with llama-server")
    parser.add_argument("--server_batch", type=int, help="llama-server's batch; its default gives longer gaps, a small one a later first token")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown processor")
    print(f"machine: {cpu}, {options.threads} threads")

    baton = Baton(options.bin, options.threads, options.timeout)
    figures = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.models or temporary
        for dtype in [None] if options.gguf else options.dtypes.split(","):
            gguf = options.gguf or os.path.join(folder, f"{options.shape}-{dtype}", "model.gguf")
            name = os.path.basename(gguf) if options.gguf else f"{options.shape} {dtype}"
            if not os.path.exists(gguf):
                baton.make_model(options.shape, dtype, os.path.dirname(gguf))
            figures[name] = {}
            if not options.no_engine:
                llama = LlamaCpp(gguf, options.threads)
                figures[name]["engine"] = compare(f"{name}, tokens a second", [("Baton", baton), ("llama.cpp", llama)],
                                                  lambda side, gguf=gguf: side.engine(gguf), options.rounds)
                llama.close()
            if options.served:
                server = options.llamacpp is not None
                other = (LlamaServer(options.llamacpp, options.threads, options.timeout, options.server_batch) if server
                         else LlamaCpp(gguf, options.threads))
                figures[name]["served"] = compare(f"{name}, served: {STREAMS} streams of {PROMPT} + {ANSWER}",
                                                  [("Baton", baton), ("llama-server" if server else "batch, no server", other)],
                                                  lambda side, gguf=gguf: side.served(gguf), options.rounds)
                if not server:
                    other.close()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": cpu, "threads": options.threads, "rounds": options.rounds, "figures": figures}, file, indent=2)


if __name__ == "__main__":
    main()
