"""What the programs report: metrics as Prometheus scrapes them, and JSON logs. README's table of metrics is held to what
is really exposed."""

import collections
import json
import math
import os
import random
import re
import socket
import subprocess
import time
import unittest
import urllib.request

from harness import DEMO, PATIENCE, ROOT, STAGES, Cluster, admin_pb2, grpc, make_request, wait_for_stage, wait_until
from prometheus_server import Prometheus

LABELS = {"model", "role", "reason", "transport", "state", "outcome", "worker_role", "stage", "version", "architecture",
          "engine", "weights", "kv_dtype", "kind", "direction", "le"}
OURS = ("baton_", "process_")
# Bounds that the documented cases name hold on a machine that is no sanitizer's.
SLOWDOWN = max(1, PATIENCE / 60)
SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")


class Scrape:
    """One answer of /metrics; the endpoint's own series (exposer_*) are left out."""

    def __init__(self, process):
        self.text = urllib.request.urlopen(f"http://127.0.0.1:{process.metrics_port}/metrics", timeout=PATIENCE).read().decode()
        self.types, self.values = {}, {}
        for line in self.text.splitlines():
            if line.startswith(tuple(f"# TYPE {prefix}" for prefix in OURS)):
                _, _, name, kind = line.split()
                self.types[name] = kind
            match = SERIES.match(line)
            if match and match[1].startswith(OURS):
                labels = re.findall(r'(\w+)="([^"]*)"', match[2] or "")
                key = match[1], tuple(sorted(labels))
                assert key not in self.values, f"{key} appears twice"
                self.values[key] = float(match[3])

    def family(self, series_name):
        """Name of the metric that a series belongs to."""
        stem = re.sub(r"_(bucket|sum|count)$", "", series_name)
        return stem if self.types.get(stem) == "histogram" else series_name

    def label_names(self, name):
        names = {label for (series, labels), _ in self.values.items() if self.family(series) == name for label, _ in labels}
        return names - {"model", "role", "le"}

    def __call__(self, name, **labels):
        """Sum over the series of this name with these labels."""
        found = [value for (series, have), value in self.values.items()
                 if series == name and set(labels.items()) <= set(have)]
        assert found, f"no series {name} {labels}"
        return sum(found)


def readme_table():
    """{metric: (type, programs, labels)} of README's section on metrics."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        section = re.search(r"^## Metrics\n(.*?)^## ", file.read(), re.S | re.M)[1]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith(tuple(f"| `{prefix}" for prefix in OURS)) else None
        if not cells:
            continue
        name, kind, letters, labels = cells[0].strip("`"), cells[1], cells[2], set(re.findall(r"`(\w+)`", cells[3]))
        assert name not in rows, f"{name} stands twice in README.md"
        rows[name] = kind, {{"R": "baton-router", "P": "baton-prefill", "D": "baton-decode"}[p] for p in letters.split()}, labels
    return rows


def ended(router, message):
    return [line for line in list(router.lines) if line.get("message") == message]


class Reports(unittest.TestCase):
    """One cluster, one load; every test looks at what was reported before, between and after."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(router_flags=["--local_prefill_tokens=8", "--disaggregation=auto"])
        try:
            cls.programs = {p.program: p for p in cls.cluster.programs()}
            cls.before = cls.scrape()
            cls.prometheus = Prometheus(cls.cluster)
            cls.addClassCleanup(cls.prometheus.close)
            cls.codes = collections.Counter()
            cls.reports = []
            cls.run_load()
            cls.cluster.assert_idle()
            cls.good = cls.scrape()
            cls.run_trouble()
            cls.cluster.assert_idle()
            wait_until(lambda: len(ended(cls.cluster.router, "request ended")) == cls.accepted, "all requests are logged")
            cls.after = cls.scrape()
        except BaseException:
            cls.cluster.close(check=False)
            raise

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    @classmethod
    def scrape(cls):
        return {name: Scrape(process) for name, process in cls.programs.items()}

    @classmethod
    def run_load(cls):
        """Requests that end well: disaggregated and local, one and several choices and prompts, cached and not."""
        def prompt(i, length):
            return [3 + (i * 37 + j * 11) % 200 for j in range(length)]
        requests = [dict(prompt=prompt(i, length), n=1 + i % 3, max_tokens=3 + i, ignore_eos=True, seed=i, temperature=0.8)
                    for i, length in enumerate((3, 7, 20, 33, 48, 64, 90, 100))]
        requests += [dict(prompt=prompt(4, 48), max_tokens=6, ignore_eos=True),             # cached
                     dict(prompt=prompt(20, 40), max_tokens=1, ignore_eos=True),            # no decode worker
                     dict(prompt=[prompt(21, 30), prompt(22, 5)], max_tokens=4, ignore_eos=True)]
        for i, request in enumerate(requests):
            if i % 2:
                response = cls.cluster.generate(request_id=f"secret-id-{i}", cache_salt="secret-salt" if i == 1 else "",
                                                **request)
            else:
                response = cls.cluster.stream(request_id=f"secret-id-{i}", metadata=[("authorization", "secret-owner")],
                                              **request).result()
            cls.reports += response.reports
            cls.codes["ok"] += 1
        cls.accepted = cls.codes["ok"]

    @classmethod
    def run_trouble(cls):
        """Requests that do not."""
        for code, request in (("invalid_argument", dict(prompt=[3], top_p=7)), ("invalid_argument", dict(prompt=[3], n=0)),
                              ("invalid_argument", dict(prompt=[999])), ("failed_precondition", dict(prompt=[3] * 128)),
                              ("not_found", dict(prompt=[3], model="secret-model"))):
            try:
                cls.cluster.generate(**request)
            except grpc.RpcError as error:
                assert error.code().name.lower() == code, error
            cls.codes[code] += 1
        cls.accepted += 2  # those that only tokenizing finds out
        scrapes = cls.prometheus.value('count_over_time(up{program="baton-decode"}[1h])')
        cls.aborted = 0
        # For so long that Prometheus sees blocks in use.
        while cls.aborted < 4 or cls.prometheus.value('count_over_time(up{program="baton-decode"}[1h])') < scrapes + 3:
            i, cls.aborted = cls.aborted, cls.aborted + 1
            stream = cls.cluster.stream([3 + i % 200] * 60, n=16, max_tokens=60, ignore_eos=True, request_id=f"secret-abort-{i}")
            stream.next()
            stream.call.cancel()
            stream.wait()
            cls.accepted += 1
            code = wait_until(lambda: [line["code"] for line in ended(cls.cluster.router, "request ended")
                                       if line["request_id"] == f"secret-abort-{i}"], "the end of an aborted request")
            cls.codes[code[0]] += 1

    def assert_same(self, one, other, what):
        self.assertEqual(one, other, f"{what}: {one} and {other}")

    # ---- what exists

    def test_every_documented_metric_exists_and_every_metric_is_documented(self):
        documented = readme_table()
        for program in self.programs:
            with self.subTest(program=program):
                exposed = {name: (kind, self.after[program].label_names(name)) for name, kind in self.after[program].types.items()}
                expected = {name: (kind, labels) for name, (kind, where, labels) in documented.items() if program in where}
                self.assertEqual(exposed, expected)

    def test_all_series_exist_before_the_first_request(self):
        for program in self.programs:
            self.assertEqual(set(), set(self.after[program].values) - set(self.before[program].values), program)
            self.assertEqual(set(), set(self.before[program].values) - set(self.after[program].values), program)

    def test_promtool_finds_nothing_to_say(self):
        for program, scrape in self.after.items():
            result = subprocess.run(["/usr/bin/promtool", "check", "metrics"], input=scrape.text, text=True,
                                    capture_output=True, check=False)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""), program)

    def test_MET_04_labels_come_from_configuration_only(self):
        """No label value comes from a request, and no unknown name makes a series."""
        for program, scrape in self.after.items():
            names = {label for _, labels in scrape.values for label, _ in labels}
            self.assertLessEqual(names, LABELS, program)
            values = {value for _, labels in scrape.values for label, value in labels if label != "le"}
            self.assertFalse([v for v in values if "secret" in v or "127.0.0.1" in v or v.startswith("req-")], program)
            self.assertNotIn("secret", scrape.text)
            self.assertTrue(all(re.fullmatch(r"[\w.-]+", v) for v in values), values)

    def test_no_value_is_negative_and_no_counter_falls(self):
        for program in self.programs:
            for scrape in (self.before, self.good, self.after):
                for (name, labels), value in scrape[program].values.items():
                    self.assertTrue(value >= 0 or math.isnan(value), f"{program} {name} {labels}")
            for key, value in self.after[program].values.items():
                if self.after[program].types.get(self.after[program].family(key[0])) != "gauge":
                    self.assertGreaterEqual(value, self.before[program].values[key], key)

    # ---- Prometheus

    def test_connections_that_ask_nothing_hold_up_no_scrape(self):
        port = self.cluster.router.metrics_port
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read()  # less than the 30 s that one may ask nothing elsewhere
        finally:
            for connection in idle:
                connection.close()

    def test_prometheus_scrapes_all_three(self):
        def all_are_up():  # a busy machine may be late for one scrape
            targets = self.prometheus.api("targets")["activeTargets"]
            return [(t["health"], t["lastError"]) for t in targets] == [("up", "")] * 3
        wait_until(all_are_up, "three targets are up")
        reason = "cancelled" if self.codes["cancelled"] else "ok"
        wait_until(lambda: self.prometheus.value(f'sum(baton_requests_total{{role="router",reason="{reason}"}})') == self.codes[reason],
                   "Prometheus has the last count")
        names = set(self.prometheus.api("label/__name__/values"))
        for scrape in self.after.values():
            self.assertLessEqual({name for name, _ in scrape.values}, names)
        self.assertLessEqual({n for n in self.prometheus.api("labels") if not n.startswith("__")},
                             LABELS | {"instance", "job", "program", "quantile"})

    def test_prometheus_never_saw_blocks_that_do_not_add_up(self):
        pool = self.cluster.decode[0].wait_log("model loaded")["kv_blocks"]
        for function in ("min_over_time", "max_over_time"):
            expression = f"{function}((sum by (program) (baton_kv_blocks))[10m:500ms])"
            result = wait_until(lambda: (r := self.prometheus.query(expression)) and len(r) == 2 and r, "scrapes of both")
            self.assertEqual({m["program"]: v for m, v in result}, {"baton-prefill": pool, "baton-decode": pool})

    def test_queries_of_a_dashboard_have_answers(self):
        wait_until(lambda: self.prometheus.value('baton_time_to_first_token_seconds_count{role="router"}') ==
                   self.after["baton-router"]("baton_time_to_first_token_seconds_count"), "the last first token is stored")
        for expression in ('histogram_quantile(0.5, sum by (le) (baton_time_to_first_token_seconds_bucket{role="router"}))',
                           'histogram_quantile(0.99, sum by (le) (baton_inter_token_latency_seconds_bucket{role="router"}))',
                           "sum(baton_kv_transfer_bytes_total) / sum(baton_kv_transfer_seconds_sum)"):
            value = self.prometheus.value(expression)
            self.assertIsNotNone(value, expression)
            self.assertGreater(value, 0, expression)

    # ---- counters add up

    def test_requests_by_reason_are_those_made(self):
        router = self.after["baton-router"]
        counted = {dict(labels)["reason"]: value for (name, labels), value in router.values.items()
                   if name == "baton_requests_total" and value > 0}
        self.assertEqual(counted, dict(self.codes))
        self.assertEqual(router("baton_requests_total", model="unknown"), self.codes["not_found"])
        self.assertEqual(router("baton_requests_total", model="qwen2"), sum(self.codes.values()) - self.codes["not_found"])
        logged = collections.Counter(line["request_id"] for line in ended(self.cluster.router, "request ended"))
        self.assertEqual(set(logged.values()), {1}, "every accepted request ends once")

    def test_tokens_are_those_of_the_usage(self):
        router, prefill, decode = (self.good[f"baton-{p}"] for p in ("router", "prefill", "decode"))
        completion = sum(r.usage.completion_tokens for r in self.reports)
        prompt = sum(r.usage.prompt_tokens for r in self.reports)
        cached = sum(r.usage.cached_prompt_tokens for r in self.reports)
        self.assertGreater(cached, 0)
        self.assertEqual(router("baton_generation_tokens_total"), completion)
        self.assertEqual(router("baton_prompt_tokens_total"), prompt)
        self.assertEqual(router("baton_cached_prompt_tokens_total"), cached)
        self.assertEqual(prefill("baton_generation_tokens_total") + decode("baton_generation_tokens_total"), completion)
        run = prefill("baton_prompt_tokens_total") + decode("baton_prompt_tokens_total")
        skipped = prefill("baton_cached_prompt_tokens_total") + decode("baton_cached_prompt_tokens_total")
        self.assertEqual(run + skipped, prompt, "every prompt token is run or found in a cache, on one worker")
        self.assertGreater(prefill("baton_prefix_cache_hits_total"), 0)
        self.assertLessEqual(prefill("baton_prefix_cache_hits_total"), prefill("baton_prefix_cache_queries_total"))

    def test_tokens_of_aborted_requests_count_too(self):
        lines = ended(self.cluster.router, "prompt ended")
        router = self.after["baton-router"]
        self.assertEqual(router("baton_generation_tokens_total"), sum(line["completion_tokens"] for line in lines))
        self.assertEqual(router("baton_prompt_tokens_total"), sum(line["prompt_tokens"] for line in lines if line["prefill_worker"]))
        self.assertGreater(router("baton_generation_tokens_total"), self.good["baton-router"]("baton_generation_tokens_total"))

    def test_bytes_and_blocks_moved_are_those_of_the_reports(self):
        prefill, decode = self.good["baton-prefill"], self.good["baton-decode"]
        moved = [r.route.kv_bytes for r in self.reports if r.route.kv_bytes]
        block = self.cluster.admin.ListWorkers(admin_pb2.ListWorkersRequest()).workers[0].block_bytes
        self.assertGreater(len(moved), 4)
        self.assertEqual(prefill("baton_kv_transfer_bytes_total", transport="ucx"), sum(moved))
        self.assertEqual(prefill("baton_kv_transfer_blocks_total") * block, sum(moved))
        for name in ("baton_kv_transfer_seconds_count", "baton_kv_transfer_tail_seconds_count"):
            self.assertEqual(prefill(name), len(moved))
        self.assertEqual(prefill("baton_handoffs_total", outcome="committed"), len(moved))
        self.assertEqual(decode("baton_handoffs_total", outcome="committed"), len(moved))
        self.assertEqual(prefill("baton_handoffs_total"), len(moved))
        self.assertEqual(prefill("baton_kv_transfer_failures_total"), 0)

    def test_pairing_decisions_are_those_of_the_reports(self):
        router = self.good["baton-router"]
        decided = {dict(labels)["reason"]: value for (name, labels), value in router.values.items()
                   if name == "baton_disaggregation_decisions_total" and value > 0}
        self.assertEqual(decided, collections.Counter(r.route.reason for r in self.reports))
        self.assertLessEqual({"long_prompt", "short_prompt", "single_token"}, set(decided))

    def test_histograms_count_what_they_name(self):
        router = self.after["baton-router"]
        lines = ended(self.cluster.router, "prompt ended")
        with_tokens = [line for line in lines if line["completion_tokens"]]
        self.assertEqual(router("baton_time_to_first_token_seconds_count"), len(with_tokens))
        for name in ("e2e_request_latency", "request_queue_time", "request_prefill_time", "request_decode_time"):
            self.assertEqual(router(f"baton_{name}_seconds_count"), len(self.reports), name)
        self.assertAlmostEqual(router("baton_e2e_request_latency_seconds_sum"),
                               sum(r.timings.total_seconds for r in self.reports), places=4)
        for stage in STAGES:
            self.assertEqual(router("baton_request_stage_seconds_count", stage=stage), len(self.reports), stage)
            self.assertAlmostEqual(router("baton_request_stage_seconds_sum", stage=stage),
                                   sum(getattr(r.timings, f"{stage}_seconds") for r in self.reports), places=4)
        self.assertAlmostEqual(router("baton_request_stage_seconds_sum"), router("baton_e2e_request_latency_seconds_sum"),
                               places=4)
        moved = sum(bool(r.route.kv_bytes) for r in self.reports)
        self.assertEqual(router("baton_request_reserve_time_seconds_count"), moved)
        gaps = self.good["baton-router"]("baton_inter_token_latency_seconds_count")
        tokens = self.good["baton-router"]("baton_generation_tokens_total")
        self.assertEqual(tokens - gaps, self.good_choices(), "a choice has one gap fewer than tokens")
        for program in ("baton-prefill", "baton-decode"):
            worker = self.after[program]
            self.assertEqual(worker("baton_step_seconds_count"), worker("baton_step_tokens_count"))
            self.assertEqual(worker("baton_step_seconds_count"), worker("baton_batch_size_count"))
            self.assertEqual(worker("baton_model_info", architecture="Qwen2ForCausalLM", engine="cpu"), 1)
            self.assertGreater(worker("baton_kv_block_bytes"), 0)
            self.assertGreater(worker("baton_model_load_seconds"), 0)
            self.assertGreater(worker("baton_engine_flops_total"), 0)
            self.assertGreater(worker("baton_engine_bytes_total"), 0)

    @classmethod
    def good_choices(cls):
        """Choices that run_load asked for."""
        return sum(1 + i % 3 for i in range(8)) + 1 + 1 + 2

    def test_gauges_of_a_quiet_cluster(self):
        for program, scrape in self.after.items():
            self.assertEqual(scrape("baton_requests_running") + scrape("baton_requests_waiting"), 0, program)
            self.assertEqual(scrape("baton_ready"), 1, program)
        router = self.after["baton-router"]
        for role in ("prefill", "decode"):
            self.assertEqual(router("baton_workers", model="qwen2", worker_role=role, state="ready"), 1)
            self.assertEqual(router("baton_workers_ready", worker_role=role), 1)
        self.assertEqual(router("baton_workers"), 2)
        self.assertEqual(router("baton_requests_limit", state="running"), 1024)
        for program in ("baton-prefill", "baton-decode"):
            scrape = self.after[program]
            self.assertEqual(scrape("baton_batch_slots", state="used"), 0)
            self.assertEqual(scrape("baton_batch_slots", state="available"), 64)
            self.assertEqual(scrape("baton_kv_usage_ratio"), 0)
            self.assertEqual(scrape("baton_kv_blocks"), self.programs[program].wait_log("model loaded")["kv_blocks"])
        self.assertEqual(self.after["baton-decode"]("baton_leases_open"), 0)

    # ---- logs

    def test_logs_are_one_json_object_a_line(self):
        for process in self.cluster.programs():
            self.assertEqual(process.plain_lines, [])
            for line in list(process.lines):
                self.assertLessEqual({"time", "level", "program", "message"}, set(line), line)
                self.assertIn(line["program"], (process.program, "ucx"))
                self.assertIn(line["level"], ("debug", "info", "warning", "error"))
                self.assertLess(abs(time.time() - line["time"]), 3600)
                # Lines about a request name it.
                if line["message"] in ("prompt ended", "request ended", "attempt failed", "handoff ended without a commit",
                                       "a worker's token cannot be used"):
                    self.assertTrue(line["request_id"], line)

    def test_the_line_of_a_prompt_carries_an_account_that_adds_up(self):
        lines = ended(self.cluster.router, "prompt ended")
        # Two ended before there was a prompt: what tokenizing found out about them.
        self.assertEqual(len(lines), len(self.reports) + self.aborted)
        for line in lines:
            stages = [line[f"{stage}_seconds"] for stage in STAGES]
            self.assertGreaterEqual(min(stages), 0, line)
            self.assertAlmostEqual(sum(stages), line["total_seconds"], places=6)
        for report in self.reports:
            matching = [line for line in lines if abs(line["total_seconds"] - report.timings.total_seconds) < 1e-9]
            self.assertEqual([line["completion_tokens"] for line in matching], [report.usage.completion_tokens])
            self.assertEqual(matching[0]["kv_bytes"], report.route.kv_bytes)


class Ceilings(unittest.TestCase):
    def test_what_an_engine_achieves_stands_beside_what_the_machine_could_do(self):
        with Cluster(prefill=0, engine_probe=True, router_flags=["--disaggregation=never"]) as cluster:
            before = Scrape(cluster.decode[0])
            cluster.generate([3] * 60, n=8, max_tokens=60, ignore_eos=True)
            after = Scrape(cluster.decode[0])
            busy = after("baton_step_seconds_sum") - before("baton_step_seconds_sum")
            for what in ("flops", "bytes"):
                achieved = after(f"baton_engine_{what}_total") - before(f"baton_engine_{what}_total")
                peak = after(f"baton_engine_peak_{what}_per_second")
                self.assertEqual(before(f"baton_engine_peak_{what}_per_second"), peak, "measured once, before work")
                self.assertGreater(achieved, 0)
                # A ceiling is above what is achieved, and no processor of today computes or reads a PB/s.
                self.assertLess(achieved / busy, peak)
                self.assertLess(peak, 1e15)


class Cases(unittest.TestCase):
    def test_MET_01_time_to_first_token_starts_at_the_routers_door(self):
        """One place, ten at once: what waits in the queue waits for its first token, too."""
        with Cluster(DEMO, router_flags=["--max_running=1", "--disaggregation=always"],
                     worker_flags=["--kv_gib", "0.1"]) as cluster:
            router = cluster.router
            work = dict(max_tokens=300, ignore_eos=True)  # long against sending ten of them
            sent = [(time.monotonic(), cluster.stream([30 + i] * 40, request_id=f"r{i}", **work)) for i in range(5)]
            unary = [cluster.api.Generate.future(make_request([90 + i] * 40, **work), timeout=PATIENCE) for i in range(5)]
            aborted = cluster.stream([50] * 40, priority=100, **work)
            wait_for_stage(lambda: router.metrics()["baton_requests_waiting"] >= 2, [stream for _, stream in sent], "a queue")
            aborted.call.cancel()
            reports = [u.result().reports[0] for u in unary]
            clients = []
            for start, stream in sent:
                report = stream.result().reports[0]
                reports.append(report)
                clients.append((stream.first_message - start, report.timings.time_to_first_token_seconds))
            cluster.assert_idle()
            wait_until(lambda: len(ended(router, "request ended")) == 11, "eleven ends")
            scrape = Scrape(router)
            lines = ended(router, "prompt ended")
            first_tokens = sum(line["completion_tokens"] > 0 for line in lines)
            self.assertGreaterEqual(first_tokens, 10)
            self.assertEqual(scrape("baton_time_to_first_token_seconds_count"), first_tokens)
            for report in reports:
                t = report.timings
                before = sum(getattr(t, f"{stage}_seconds") for stage in STAGES[:STAGES.index("first_token") + 1])
                self.assertAlmostEqual(t.time_to_first_token_seconds, before, places=6)
                self.assertLessEqual(t.time_to_first_token_seconds, t.total_seconds)
                self.assertNotEqual(report.route.prefill_worker, report.route.decode_worker)
            self.assertGreater(max(r.timings.queue_seconds for r in reports),
                               2 * min(r.timings.total_seconds - r.timings.queue_seconds for r in reports),
                               "the last one waited for several others")
            for client, server in clients:
                self.assertGreaterEqual(client, server)
            self.assertLess(min(client - server for client, server in clients), 0.05 * SLOWDOWN)
            if first_tokens == 10:
                self.assertAlmostEqual(scrape("baton_time_to_first_token_seconds_sum"),
                                       sum(r.timings.time_to_first_token_seconds for r in reports), places=4)
            self.assertAlmostEqual(scrape("baton_request_queue_time_seconds_sum"), sum(
                line["queue_seconds"] + line["prefill_queue_seconds"] for line in lines if line["code"] == "ok"), places=4)

    def test_MET_03_aborted_requests_leave_no_trace_in_gauges_and_every_trace_in_counters(self):
        with Cluster(DEMO, worker_flags=["--max_batch", "4", "--prefix_cache=false", "--kv_gib", "0.1"]) as cluster:
            router, workers = cluster.router, cluster.prefill + cluster.decode
            pool = [w.metrics()['baton_kv_blocks{state="free"}'] for w in workers]
            # Four sequences run at a time: minutes of work, all of which is there when it is cancelled.
            work = dict(n=16, max_tokens=1500, ignore_eos=True)
            calls = [cluster.stream([30 + i % 200] * (1 + i % 60), **work) for i in range(100)]
            wait_until(lambda: router.metrics()["baton_requests_running"] == 100, "100 requests run")
            for stream in calls:
                stream.call.cancel()
            wait_until(lambda: len(ended(router, "request ended")) == 100, "100 ends")
            cluster.assert_idle()

            for i in range(5):
                stream = cluster.stream([70 + i], **work)
                wait_for_stage(lambda: sum(len(d.text.encode()) for m in list(stream.messages) for d in m.deltas) >= 64,
                               stream, "64 bytes")
                stream.call.cancel()
            wait_until(lambda: len(ended(router, "request ended")) == 105, "105 ends")
            cluster.assert_idle()

            scrape = Scrape(router)
            self.assertEqual(collections.Counter(line["code"] for line in ended(router, "request ended")), {"cancelled": 105})
            self.assertEqual(scrape("baton_requests_total"), 105)
            self.assertEqual(scrape("baton_requests_total", reason="cancelled"), 105)
            lines = ended(router, "prompt ended")
            self.assertEqual(scrape("baton_generation_tokens_total"), sum(line["completion_tokens"] for line in lines))
            self.assertEqual(scrape("baton_prompt_tokens_total"), sum(line["prompt_tokens"] for line in lines if line["prefill_worker"]))
            for worker, blocks in zip(workers, pool):
                values = Scrape(worker)
                self.assertEqual(values("baton_kv_blocks", state="free"), blocks)
                self.assertEqual(values("baton_kv_usage_ratio"), 0)
                self.assertEqual(values("baton_batch_slots", state="available"), 4)
                self.assertTrue(all(v >= 0 for v in values.values.values()))

    def test_MET_04_names_that_clients_make_up_make_no_series(self):
        """A few thousand requests with random models, headers and ids: not one new series."""
        with Cluster() as cluster:
            draw = random.Random(4)
            before = Scrape(cluster.router)

            def word():
                return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(20))
            refused, sent = 0, 3000
            for start in range(0, sent, 500):
                futures = [cluster.api.Generate.future(make_request([3], model=word(), request_id=word()), timeout=PATIENCE,
                                                       metadata=[("x-tenant", word()), ("authorization", word())])
                           for _ in range(500)]
                refused += sum(f.code() == grpc.StatusCode.NOT_FOUND for f in futures)
            for _ in range(50):
                cluster.generate([3], max_tokens=1, request_id=word(), cache_salt=word())
            self.assertEqual(refused, sent)
            after = Scrape(cluster.router)
            self.assertEqual(set(before.values), set(after.values))
            self.assertEqual(after("baton_requests_total", reason="not_found"), sent)
            self.assertEqual(after("baton_requests_total", reason="ok"), 50)
            self.assertLess(len(after.text), 1 << 20)
            durations = []
            for _ in range(20):
                start = time.monotonic()
                Scrape(cluster.router)
                durations.append(time.monotonic() - start)
            self.assertLess(min(durations), 0.1 * SLOWDOWN)


if __name__ == "__main__":
    unittest.main()
