"""Traces: W3C context in, through and out; spans over OTLP/gRPC to a collector; a collector that hangs or is not there."""

import concurrent.futures
import os
import pathlib
import socket
import tempfile
import threading
import unittest

from harness import STAGES, Cluster, grpc, wait_until
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from tls_test import make_certificates

SERVER = 2  # SPAN_KIND_SERVER


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, credentials=None):
        self.spans = []  # (service, span)
        self.calls = 0
        self.resume = threading.Event()
        self.resume.set()
        self.lock = threading.Lock()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        self.port = (self.server.add_secure_port("127.0.0.1:0", credentials) if credentials
                     else self.server.add_insecure_port("127.0.0.1:0"))
        self.server.start()

    def Export(self, request, context):
        with self.lock:
            self.calls += 1
        self.resume.wait()
        with self.lock:
            for resource in request.resource_spans:
                names = {a.key: a.value.string_value for a in resource.resource.attributes}
                assert names["service.version"] and names["service.instance.id"], names
                self.spans += [(names["service.name"], span) for scope in resource.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def of(self, trace_id):
        with self.lock:
            return [(service, span) for service, span in self.spans if span.trace_id.hex() == trace_id]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.resume.set()
        self.server.stop(0)


class Tree:
    """The spans of one trace."""

    def __init__(self, spans):
        self.services = {span.span_id: service for service, span in spans}
        self.spans = [span for _, span in spans]
        assert len(self.services) == len(self.spans), "span ids are unique"

    def children(self, parent, name=None):
        found = [s for s in self.spans if s.parent_span_id == parent.span_id and name in (None, s.name)]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def child(self, parent, name):
        found = self.children(parent, name)
        assert len(found) == 1, f"{len(found)} spans {name} under {parent.name}: {sorted(s.name for s in self.children(parent))}"
        return found[0]


def attributes(span):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


def seconds(span):
    return (span.end_time_unix_nano - span.start_time_unix_nano) * 1e-9


def traced(collector, **arguments):
    endpoint = f"--otlp_endpoint=127.0.0.1:{collector if isinstance(collector, int) else collector.port}"
    flags = arguments.pop("router_flags", [])
    return Cluster(worker_flags=[endpoint, "--chunk_tokens", "32"], router_flags=[endpoint, "--local_prefill_tokens=8", *flags],
                   **arguments)


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Tracing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.collector = Collector()
        cls.cluster = traced(cls.collector)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()
        cls.collector.__exit__()

    def run_traced(self, prompt, flags="01", state="vendor=opaque", request_id="", **sampling):
        """Runs a request as a client with a span of its own; (trace id, that span's id, report)."""
        trace_id, span_id = os.urandom(16).hex(), os.urandom(8).hex()
        metadata = [("traceparent", f"00-{trace_id}-{span_id}-{flags}"), ("tracestate", state)]
        report = self.cluster.stream(prompt, metadata=metadata, request_id=request_id, ignore_eos=True,
                                     **sampling).result().reports[0]
        return trace_id, span_id, report

    def tree(self, trace_id, last):
        """Waits for the spans named in `last`, which end after all others of their processes."""
        wait_until(lambda: {name for _, s in self.collector.of(trace_id) for name in [s.name]} >= last, f"spans {last}")
        return Tree(self.collector.of(trace_id))

    def test_a_handed_over_request_is_one_tree_from_the_client_s_span_to_the_workers(self):
        trace_id, span_id, report = self.run_traced([3 + i % 50 for i in range(90)], max_tokens=12, seed=5, temperature=0.5)
        tree = self.tree(trace_id, {"text_completion qwen2", "prefill", "decode"})
        request = next(s for s in tree.spans if s.name == "text_completion qwen2")
        self.assertEqual((request.parent_span_id.hex(), request.kind), (span_id, SERVER))
        self.assertEqual({s.trace_state for s in tree.spans}, {"vendor=opaque"})
        self.assertEqual({s.flags for s in tree.spans}, {1})
        known = {s.span_id for s in tree.spans} | {bytes.fromhex(span_id)}
        self.assertEqual([s.name for s in tree.spans if s.parent_span_id not in known], [], "no orphans")

        have = attributes(request)
        self.assertEqual((have["gen_ai.operation.name"], have["gen_ai.request.model"], have["rpc.grpc.status_code"]),
                         ("text_completion", "qwen2", 0))
        self.assertEqual((have["gen_ai.request.max_tokens"], have["gen_ai.request.seed"]), (12, 5))
        prompt = tree.child(request, "prompt")
        have = attributes(prompt)
        self.assertEqual((have["gen_ai.usage.input_tokens"], have["gen_ai.usage.output_tokens"]), (90, 12))
        self.assertEqual(have["baton.kv.bytes"], report.route.kv_bytes)
        self.assertGreater(have["baton.kv.bytes"], 0)

        # The account, stage by stage, one after the other.
        at = prompt.start_time_unix_nano
        for stage in STAGES:
            expected = getattr(report.timings, f"{stage}_seconds")
            found = [s for s in tree.children(prompt, stage) if tree.services[s.span_id] == "baton-router"]
            self.assertEqual(len(found), expected > 0, stage)
            if found:
                self.assertAlmostEqual(seconds(found[0]), expected, places=7, msg=stage)
                self.assertLess(abs(found[0].start_time_unix_nano - at), 1e4, stage)
                at = found[0].end_time_unix_nano
        self.assertLess(abs(prompt.end_time_unix_nano - at), 1e4)
        self.assertAlmostEqual(seconds(prompt), report.timings.total_seconds, places=7)
        self.assertAlmostEqual(seconds(tree.child(prompt, "reserve")), report.timings.reserve_seconds, places=7)

        workers = [s for s in tree.children(prompt) if tree.services[s.span_id] != "baton-router"]
        self.assertEqual(sorted((tree.services[s.span_id], s.name, s.kind) for s in workers),
                         [("baton-decode", "decode", SERVER), ("baton-prefill", "prefill", SERVER)])
        prefill = next(s for s in workers if s.name == "prefill")
        decode = next(s for s in workers if s.name == "decode")
        self.assertEqual([attributes(s)["baton.chunk.tokens"] for s in tree.children(prefill, "prefill_chunk")], [32, 32, 26])
        self.assertAlmostEqual(sum(seconds(s) for s in tree.children(prefill, "prefill_chunk")),
                               report.timings.prefill_seconds, delta=0.05)
        transfer = tree.child(prefill, "transfer")
        self.assertEqual(attributes(transfer)["baton.kv.bytes"], report.route.kv_bytes)
        # The computation between two puts is not part of the time that is told.
        self.assertGreaterEqual(seconds(transfer), report.timings.transfer_seconds)
        under_way, until = 0, 0
        for put in sorted(tree.children(transfer, "put"), key=lambda s: s.start_time_unix_nano):
            under_way += max(0, put.end_time_unix_nano - max(put.start_time_unix_nano, until))
            until = max(until, put.end_time_unix_nano)
        self.assertAlmostEqual(under_way * 1e-9, report.timings.transfer_seconds, places=6)
        self.assertEqual(sum(attributes(s)["baton.kv.blocks"] for s in tree.children(transfer, "put")),
                         attributes(transfer)["baton.kv.blocks"])
        self.assertEqual(attributes(tree.child(prefill, "commit"))["baton.handoff.outcome"], "committed")
        self.assertEqual([s.name for s in tree.children(decode)], ["reserve", "lease", "decode_queue", "generate"])
        self.assertEqual(attributes(tree.child(decode, "generate"))["gen_ai.usage.output_tokens"], 11)

        # One machine, one wall clock: what is inside of something lies inside of it, but for the clocks' comparison.
        for parent in tree.spans:
            for child in tree.children(parent):
                self.assertLessEqual(child.start_time_unix_nano, child.end_time_unix_nano)
                if tree.services[child.span_id] == tree.services[parent.span_id]:
                    self.assertGreater(child.start_time_unix_nano, parent.start_time_unix_nano - 1e6, child.name)
                    self.assertLess(child.end_time_unix_nano, parent.end_time_unix_nano + 1e6, child.name)

    def test_a_prompt_that_the_decode_worker_reads_has_its_chunks_there(self):
        trace_id, _, _ = self.run_traced([7, 8, 9], max_tokens=4)
        tree = self.tree(trace_id, {"text_completion qwen2", "decode"})
        decode = next(s for s in tree.spans if s.name == "decode" and s.kind == SERVER)
        self.assertEqual([s.name for s in tree.children(decode)], ["prefill_queue", "prefill_chunk", "generate"])
        self.assertFalse([s for s in tree.spans if tree.services[s.span_id] == "baton-prefill"])

    def test_the_sampled_flag_of_the_client_is_kept(self):
        unsampled, _, _ = self.run_traced([3] * 40, flags="00", max_tokens=3)
        sampled, _, _ = self.run_traced([4] * 40, flags="01", max_tokens=3)
        self.tree(sampled, {"text_completion qwen2", "prefill", "decode"})
        self.assertEqual(self.collector.of(unsampled), [])

    def test_a_request_without_a_context_begins_a_trace(self):
        for metadata in (None, [("traceparent", "00-nonsense")]):
            request_id = f"begins-{metadata is None}"
            self.cluster.stream([5] * 40, max_tokens=3, metadata=metadata, request_id=request_id).result()
            line = wait_until(lambda: [l for l in list(self.cluster.router.lines) if l.get("request_id") == request_id
                                       and l["message"] == "request ended"], "the line of the end")[0]
            tree = self.tree(line["trace_id"], {"text_completion qwen2", "prefill", "decode"})
            request = next(s for s in tree.spans if s.name == "text_completion qwen2")
            self.assertEqual(request.parent_span_id, b"")

    def test_failed_requests_say_so(self):
        trace_id, span_id = os.urandom(16).hex(), os.urandom(8).hex()
        stream = self.cluster.stream([3] * 40, n=16, max_tokens=80, ignore_eos=True,
                                     metadata=[("traceparent", f"00-{trace_id}-{span_id}-01")])
        stream.next()
        stream.call.cancel()
        stream.wait()
        tree = self.tree(trace_id, {"text_completion qwen2", "prefill"})
        request = next(s for s in tree.spans if s.name == "text_completion qwen2")
        self.assertEqual((request.status.code, attributes(request)["error.type"]), (2, "cancelled"))
        self.cluster.assert_idle()

    def test_log_lines_carry_the_trace(self):
        trace_id, _, _ = self.run_traced([3] * 40, flags="00", max_tokens=3, request_id="logged")
        lines = wait_until(lambda: [l for l in list(self.cluster.router.lines) if l.get("request_id") == "logged"
                                    and l["message"] in ("prompt ended", "request ended")][1:] and
                           [l for l in list(self.cluster.router.lines) if l.get("request_id") == "logged"], "two lines")
        self.assertEqual({l["trace_id"] for l in lines}, {trace_id})

    def test_metrics_count_what_was_sent(self):
        self.run_traced([3] * 40, max_tokens=3)
        def settled():
            programs = [self.cluster.router, *self.cluster.prefill, *self.cluster.decode]
            sent = sum(p.metrics()['baton_trace_spans_total{outcome="exported"}'] for p in programs)
            return sent == len(self.collector.spans) and sent > 0
        wait_until(settled, "as many spans counted as arrived")
        for outcome in ("queue_full", "failed"):
            self.assertEqual(self.cluster.router.metrics()[f'baton_trace_spans_total{{outcome="{outcome}"}}'], 0)


class Tls(unittest.TestCase):
    """A collector that shows a certificate and takes only clients that show one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        make_certificates(folder.name)
        self.ca, self.certificate, self.key = (os.path.join(folder.name, name) for name in ("ca.pem", "node.pem", "node.key"))
        ca, certificate, key = (pathlib.Path(path).read_bytes() for path in (self.ca, self.certificate, self.key))
        self.collector = Collector(grpc.ssl_server_credentials([(key, certificate)], ca, require_client_auth=True))
        self.addCleanup(self.collector.__exit__)
        self.endpoint = f"--otlp_endpoint=https://127.0.0.1:{self.collector.port}"

    def test_spans_of_every_program_arrive(self):
        flags = [self.endpoint, "--otlp_tls_ca", self.ca, "--otlp_tls_cert", self.certificate, "--otlp_tls_key", self.key]
        with Cluster(worker_flags=flags, router_flags=[*flags, "--local_prefill_tokens=8"]) as cluster:
            cluster.generate([3] * 40, max_tokens=2)
            wait_until(lambda: {service for service, _ in list(self.collector.spans)} ==
                       {"baton-router", "baton-prefill", "baton-decode"}, "spans over TLS")

    def test_nothing_is_sent_to_a_collector_that_cannot_be_trusted_and_nobody_waits_for_it(self):
        client = ["--otlp_tls_cert", self.certificate, "--otlp_tls_key", self.key]
        for why, flags in (("signed by nobody the system knows", client), ("no certificate to show", ["--otlp_tls_ca", self.ca])):
            with self.subTest(why), Cluster(router_flags=[self.endpoint, *flags]) as cluster:
                cluster.generate([3] * 40, max_tokens=2)
                wait_until(lambda: cluster.router.metrics()['baton_trace_spans_total{outcome="failed"}'] > 0, "spans fail")
                cluster.router.wait_log("spans cannot be sent")
        self.assertEqual(self.collector.spans, [])


class Trouble(unittest.TestCase):
    def test_sampling_by_ratio(self):
        with Collector() as collector, traced(collector, router_flags=["--trace_sample_ratio=0"]) as cluster:
            for i in range(5):
                cluster.generate([3 + i] * 40, max_tokens=2)
            trace_id, span_id = os.urandom(16).hex(), os.urandom(8).hex()
            cluster.stream([9] * 40, max_tokens=2, metadata=[("traceparent", f"00-{trace_id}-{span_id}-01")]).result()
            wait_until(lambda: {s for s, _ in collector.of(trace_id)} == {"baton-router", "baton-prefill", "baton-decode"},
                       "the client's own trace")
            self.assertEqual(len(collector.of(trace_id)), len(collector.spans), "only the client's own trace")

    def test_a_collector_that_hangs_or_is_not_there_delays_nobody(self):
        with Collector() as collector:
            collector.resume.clear()
            for port in (collector.port, closed_port()):
                with traced(port) as cluster:
                    for i in range(20):
                        cluster.generate([3 + i] * 40, max_tokens=2)
                    if port == collector.port:
                        wait_until(lambda: collector.calls > 0, "the collector is asked")
                    else:
                        wait_until(lambda: cluster.router.metrics()['baton_trace_spans_total{outcome="failed"}'] > 0,
                                   "spans that could not be sent are counted")
                    cluster.assert_idle()
                # Closing has ended every process, although the collector never answered.

    def test_without_a_collector_workers_belong_to_the_client_s_span(self):
        """The router sends none: what workers send hangs below the client's span, not below one that nobody knows."""
        with Collector() as collector:
            endpoint = f"--otlp_endpoint=127.0.0.1:{collector.port}"
            with Cluster(worker_flags=[endpoint]) as cluster:
                trace_id, span_id = os.urandom(16).hex(), os.urandom(8).hex()
                cluster.stream([9] * 60, max_tokens=2, metadata=[("traceparent", f"00-{trace_id}-{span_id}-01")]).result()
                wait_until(lambda: {s.name for _, s in collector.of(trace_id)} >= {"prefill", "decode"}, "workers' spans")
                for _, span in collector.of(trace_id):
                    if span.kind == SERVER:
                        self.assertEqual(span.parent_span_id.hex(), span_id)


if __name__ == "__main__":
    unittest.main()
