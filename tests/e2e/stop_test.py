"""Processes that are told to stop while work is under way: they end cleanly and answer everybody."""

import signal
import unittest

from harness import (PATIENCE, Cluster, decode_pb2, decode_pb2_grpc, grpc, prefill_pb2, prefill_pb2_grpc, wait_until)

PROMPT = list(range(3, 103))
LONG = dict(max_tokens=100000, ignore_eos=True, temperature=0)


class Stop(unittest.TestCase):
    def assert_stops(self, choose, reached):
        """The process given by `choose` stops with status 0 in the middle of work that it has no time to finish."""
        with Cluster(worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--grace_seconds", "0"],
                     router_flags=["--disaggregation=always", "--grace_seconds", "0"]) as cluster:
            process = choose(cluster)
            streams = [cluster.stream(PROMPT, n=8, **LONG) for _ in range(4)]
            wait_until(lambda: reached(cluster) or all(s.done.is_set() for s in streams), "work in the right stage")
            self.assertEqual(process.stop(), 0)
            for stream in streams:
                self.assertIn(stream.code(), (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK),
                              stream.error and stream.error.details())

    def test_prefill_worker_in_the_middle_of_prompts(self):
        self.assert_stops(lambda c: c.prefill[0], lambda c: c.prefill[0].metrics()["baton_requests_running"] > 0)

    def test_decode_worker_with_open_leases(self):
        self.assert_stops(lambda c: c.decode[0], lambda c: c.decode[0].metrics()["baton_leases_open"] > 0)

    def test_decode_worker_in_the_middle_of_answers(self):
        self.assert_stops(lambda c: c.decode[0], lambda c: c.decode[0].metrics()["baton_requests_running"] > 0)

    def test_router_with_requests_in_every_stage(self):
        self.assert_stops(lambda c: c.router, lambda c: c.decode[0].metrics()["baton_requests_running"] > 0)


class Refused(unittest.TestCase):
    def assert_refused_while_draining(self, role, stub, method, request):
        with Cluster(worker_flags=["--chunk_tokens", "1", "--prefix_cache=false"], decode_flags=["--lease_seconds", "600"],
                     router_flags=["--disaggregation=always"]) as cluster:
            prefill, decode = cluster.prefill[0], cluster.decode[0]
            draining, other = (prefill, decode) if role == "prefill" else (decode, prefill)
            with grpc.insecure_channel(draining.address) as channel:
                # Connected before the worker drains, so that the call reaches it.
                grpc.channel_ready_future(channel).result(PATIENCE)
                stream = cluster.stream(PROMPT, n=8, **LONG)
                wait_until(lambda: decode.metrics()["baton_leases_open"] > 0, "a lease")
                other.popen.send_signal(signal.SIGSTOP)  # so that work stays open
                try:
                    draining.popen.send_signal(signal.SIGTERM)
                    draining.wait_log("draining")
                    with self.assertRaises(grpc.RpcError) as raised:
                        list(getattr(stub(channel), method)(iter([request]), timeout=PATIENCE))
                finally:
                    other.popen.send_signal(signal.SIGCONT)
                self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertIn("draining", raised.exception.details())
                stream.wait()

    def test_calls_to_a_draining_prefill_worker(self):
        self.assert_refused_while_draining("prefill", prefill_pb2_grpc.PrefillServiceStub, "Prefill",
                                           prefill_pb2.PrefillRequest())

    def test_calls_to_a_draining_decode_worker(self):
        self.assert_refused_while_draining("decode", decode_pb2_grpc.DecodeServiceStub, "Decode",
                                           decode_pb2.DecodeRequest())


if __name__ == "__main__":
    unittest.main()
