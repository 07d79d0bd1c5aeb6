"""Cancelling gives the machine back: by disconnect, by Abort, by deadline; in every stage a request can be in."""

import unittest

from harness import DEMO, PATIENCE, Cluster, grpc, inference_pb2, wait_for_stage, wait_until

PROMPT = [10 + i * 7 % 900 for i in range(1500)]  # with one token a chunk: as many steps
# Long enough that no test sees it end by itself: cancelled answers are short, finished ones are an error.
ENDLESS = dict(max_tokens=100000, ignore_eos=True, temperature=0)


class EveryStage(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(DEMO, worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--kv_gib", "0.1"],
                              router_flags=["--disaggregation=always"])

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def stages(self):
        """(name, condition that the request is in that stage)"""
        router, prefill, decode = self.cluster.router, self.cluster.prefill[0], self.cluster.decode[0]
        return [
            ("in prefill", lambda s: prefill.metrics()["baton_requests_running"] > 0),
            ("mid-transfer", lambda s: decode.metrics()["baton_leases_open"] > 0),
            ("in decode", lambda s: sum(len(d.token_ids) for m in s.messages for d in m.deltas) > 3),
        ]

    def run_ways(self, ways):
        cluster = self.cluster
        for stage, reached in self.stages():
            for way, cancel in ways:
                with self.subTest(stage=stage, way=way):
                    before = cluster.router.metrics()
                    stream = cluster.stream(PROMPT, request_id=f"{stage}-{way}".replace(" ", "-"), n=4, **ENDLESS)
                    wait_for_stage(lambda: reached(stream), stream, stage)
                    cancel(stream, f"{stage}-{way}".replace(" ", "-"))
                    stream.wait()
                    cluster.assert_idle()
                    after = cluster.router.metrics()
                    total = sum(after[k] - before[k] for k in after if k.startswith("baton_requests_total"))
                    self.assertEqual(total, 1, "every request is counted once")

    def test_disconnect_and_abort(self):
        self.run_ways([
            ("disconnect", lambda stream, _: stream.call.cancel()),
            ("abort", lambda _, request_id: self.abort(request_id)),
        ])

    def abort(self, request_id):
        try:
            self.cluster.api.Abort(inference_pb2.AbortRequest(request_id=request_id), timeout=PATIENCE)
        except grpc.RpcError as error:  # it may have ended by itself a moment before
            self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)

    def test_aborted_streams_end_with_cancelled(self):
        stream = self.cluster.stream(PROMPT, request_id="mine", n=4, **ENDLESS)
        stream.next()
        self.abort("mine")
        self.assertEqual(stream.code(), grpc.StatusCode.CANCELLED)
        self.assertIn("aborted", stream.error.details())
        self.cluster.assert_idle()

    def test_deadlines(self):
        for seconds in (0.02, 0.05, 0.2):
            with self.subTest(seconds=seconds):
                stream = self.cluster.stream(PROMPT, timeout=seconds, n=16, **ENDLESS)
                self.assertIn(stream.code(), (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.OK))
                self.cluster.assert_idle()

    def test_many_at_once_at_random_moments(self):
        streams = [self.cluster.stream(PROMPT[: 1 + i * 13 % 200], n=1 + i % 3, **ENDLESS) for i in range(60)]
        for i, stream in enumerate(streams):
            if i % 2:
                wait_until(lambda: len(stream.messages) > i % 5 or stream.done.is_set(), "progress")
            stream.call.cancel()
        for stream in streams:
            stream.wait()
        self.cluster.assert_idle()

    def test_an_abort_of_nothing_is_refused(self):
        with self.assertRaises(grpc.RpcError) as raised:
            self.cluster.api.Abort(inference_pb2.AbortRequest(), timeout=PATIENCE)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("request_id is missing", raised.exception.details())

    def test_only_the_owner_may_abort(self):
        stream = self.cluster.stream(PROMPT, request_id="owned", n=4, metadata=[("authorization", "Bearer alice")],
                                     **ENDLESS)
        stream.next()
        for metadata in (None, [("authorization", "Bearer bob")]):
            with self.assertRaises(grpc.RpcError) as raised:
                self.cluster.api.Abort(inference_pb2.AbortRequest(request_id="owned"), metadata=metadata,
                                       timeout=PATIENCE)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        if not stream.done.is_set():
            try:
                self.cluster.api.Abort(inference_pb2.AbortRequest(request_id="owned"),
                                       metadata=[("authorization", "Bearer alice")], timeout=PATIENCE)
                self.assertEqual(stream.code(), grpc.StatusCode.CANCELLED)
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
                self.assertEqual(stream.code(), grpc.StatusCode.OK)
        self.cluster.assert_idle()


class InQueue(unittest.TestCase):
    def test_a_waiting_request_is_cancelled_and_a_full_queue_refuses(self):
        with Cluster(DEMO, router_flags=["--max_running", "1", "--max_waiting", "1"],
                     worker_flags=["--chunk_tokens", "1", "--kv_gib", "0.1"]) as cluster:
            running = cluster.stream(PROMPT[:500], n=16, **ENDLESS)
            waiting = cluster.stream([5, 6], max_tokens=2)
            wait_for_stage(lambda: cluster.router.metrics()["baton_requests_waiting"] == 1, running, "waiting")
            refused = cluster.stream([5, 6], max_tokens=2)
            self.assertEqual(refused.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn("1 requests run and 1 wait", refused.error.details())
            waiting.call.cancel()
            waiting.wait()
            running.call.cancel()
            running.wait()
            cluster.assert_idle()
            self.assertEqual(cluster.generate([5, 6], max_tokens=2).reports[0].usage.completion_tokens, 2)
            # Trying again would not help, so nothing says that it might.
            impossible = cluster.stream([[5, 6]] * 3, max_tokens=2)
            self.assertEqual(impossible.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("has 3 prompts, must be 1 to 2", impossible.error.details())


if __name__ == "__main__":
    unittest.main()
