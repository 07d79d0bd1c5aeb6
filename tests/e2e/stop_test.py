"""Processes that are told to stop while work is under way: they end cleanly and answer everybody."""

import contextlib
import os
import signal
import unittest

from harness import (DEMO, GOLDEN, PATIENCE, Cluster, Process, decode_pb2, decode_pb2_grpc, grpc, prefill_pb2, prefill_pb2_grpc,
                     wait_for_stage, wait_until)
from internal_calls import reserve, start_prefill

PROMPT = [10 + i * 7 % 900 for i in range(1900)]  # one token a chunk: a thousand steps and more
LONG = dict(max_tokens=100000, ignore_eos=True, temperature=0)


class Stop(unittest.TestCase):
    def assert_stops(self, choose, reached, prompt):
        """The process given by `choose` stops with status 0 in the middle of work that it has no time to finish."""
        with Cluster(DEMO, worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--kv_gib", "0.1",
                                         "--grace_seconds", "0"],
                     router_flags=["--disaggregation=always", "--grace_seconds", "0"]) as cluster:
            process = choose(cluster)
            streams = [cluster.stream(prompt, n=8, **LONG) for _ in range(4)]
            wait_for_stage(lambda: reached(cluster), streams, "the stage to stop in")
            self.assertEqual(process.stop(), 0)
            for stream in streams:
                self.assertIn(stream.code(), (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK),
                              stream.error and stream.error.details())

    def test_prefill_worker_in_the_middle_of_prompts(self):
        self.assert_stops(lambda c: c.prefill[0], lambda c: c.prefill[0].metrics()["baton_requests_running"] > 0, PROMPT)

    def test_decode_worker_with_open_leases(self):
        self.assert_stops(lambda c: c.decode[0], lambda c: c.decode[0].metrics()["baton_leases_open"] > 0, PROMPT)

    def test_decode_worker_in_the_middle_of_answers(self):
        self.assert_stops(lambda c: c.decode[0], lambda c: c.decode[0].metrics()["baton_requests_running"] > 0,
                          PROMPT[:20])

    def test_router_with_requests_in_every_stage(self):
        self.assert_stops(lambda c: c.router, lambda c: c.decode[0].metrics()["baton_requests_running"] > 0,
                          PROMPT[:20])


class Loading(unittest.TestCase):
    """A worker that ends while its pool is being allocated: UCX's segment has a name until all its pages were written."""

    def start(self, kv_gib):
        return Process("baton-decode", "--model", os.path.join(GOLDEN, "qwen2"), "--kv_gib", str(kv_gib), "--threads", "1",
                       "--bandwidth_probe=false", "--engine_probe=false")

    def end_while_allocating(self, number):
        """The exit status after a signal, and the name that the segment had."""
        def named_segment():
            for descriptor in os.listdir(descriptors):
                with contextlib.suppress(OSError):
                    path = os.readlink(os.path.join(descriptors, descriptor))
                    # The pool's, not one of UCX's own queues.
                    if path.startswith("/dev/shm/ucx_shm_posix_") and os.path.exists(path) and os.stat(path).st_size > 2**22:
                        return path
            return None
        worker = self.start(0.5)
        self.addCleanup(worker.popen.kill)
        descriptors = f"/proc/{worker.popen.pid}/fd"
        segment = wait_until(named_segment, "the pool is being allocated", every=0)
        worker.popen.send_signal(number)
        return worker.popen.wait(PATIENCE), segment

    def test_told_to_stop_it_leaves_no_segment(self):
        status, segment = self.end_while_allocating(signal.SIGTERM)
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertFalse(os.path.exists(segment))

    def test_what_a_killed_one_left_is_removed_by_the_next(self):
        _, segment = self.end_while_allocating(signal.SIGKILL)
        following = self.start(0.02)
        following.wait_log("ready")
        self.assertFalse(os.path.exists(segment))
        self.assertEqual(following.stop(), 0)


class Refused(unittest.TestCase):
    def assert_refused_while_draining(self, worker, open_work, stub, method, request):
        """`open_work`: begins a call on the worker that nothing but the test ends."""
        with grpc.insecure_channel(worker.address) as channel:
            # Connected before the worker drains, so that the call reaches it.
            grpc.channel_ready_future(channel).result(PATIENCE)
            held = open_work(worker)
            try:
                worker.popen.send_signal(signal.SIGTERM)
                worker.wait_log("draining")
                with self.assertRaises(grpc.RpcError) as raised:
                    list(getattr(stub(channel), method)(iter([request]), timeout=PATIENCE))
                self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertIn("draining", raised.exception.details())
                self.assertTrue(worker.alive, "it waits for its open work")
            finally:
                held.cancel()
            self.assertEqual(worker.popen.wait(PATIENCE), 0)

    def test_calls_to_draining_workers(self):
        with Cluster(worker_flags=["--grace_seconds", "6000"], decode_flags=["--lease_seconds", "3000"]) as cluster:
            with self.subTest(role="prefill"):
                self.assert_refused_while_draining(cluster.prefill[0], start_prefill, prefill_pb2_grpc.PrefillServiceStub,
                                                   "Prefill", prefill_pb2.PrefillRequest())
            with self.subTest(role="decode"):
                self.assert_refused_while_draining(cluster.decode[0], reserve, decode_pb2_grpc.DecodeServiceStub,
                                                   "Decode", decode_pb2.DecodeRequest())


if __name__ == "__main__":
    unittest.main()
