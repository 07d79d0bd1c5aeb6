"""Workers die by SIGKILL or fall silent: streams end in time, survivors get everything back, restarted workers serve."""

import signal
import time
import unittest

from harness import DEMO, Cluster, grpc, wait_until

PROMPT = [10 + i * 7 % 900 for i in range(1000)]
LONG = dict(max_tokens=100000, ignore_eos=True, temperature=0)
# What the design promises; sanitizer builds need longer, so the bound scales with the patience given to the tests.
SECONDS = 10


class WorkerDeath(unittest.TestCase):
    def setUp(self):
        # One token a chunk: a thousand steps are long enough to die in.
        self.cluster = Cluster(DEMO, worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--kv_gib", "0.1"],
                               decode_flags=["--lease_seconds", "2"], router_flags=["--disaggregation=always"])

    def tearDown(self):
        self.cluster.close()

    def assert_ends_unavailable(self, streams, since):
        for stream in streams:
            code = stream.wait(SECONDS + 50).call.code()
            self.assertLess(time.monotonic() - since, SECONDS)
            self.assertIn(code, (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK), stream.error and stream.error.details())

    def kill_and_check(self, role, reached):
        cluster = self.cluster
        worker = getattr(cluster, role)[0]
        old = worker.wait_log("listening")["incarnation"]
        streams = [cluster.stream(PROMPT, n=8, **LONG) for _ in range(4)]
        wait_until(lambda: reached(streams) or all(s.done.is_set() for s in streams), "the stage to die in")
        since = time.monotonic()
        worker.kill()
        self.assert_ends_unavailable(streams, since)
        cluster.assert_idle()

        fresh = cluster.restart(worker)
        self.assertNotEqual(fresh.wait_log("listening")["incarnation"], old)
        cluster.wait_workers(1, 1)
        response = cluster.generate(PROMPT, max_tokens=4, temperature=0, ignore_eos=True)
        self.assertEqual(response.reports[0].usage.completion_tokens, 4)
        self.assertGreater(response.reports[0].route.kv_bytes, 0, "the restarted worker takes part in handoffs")
        cluster.assert_idle()

    def test_prefill_worker_killed_while_it_reads_prompts(self):
        self.kill_and_check("prefill", lambda _: self.cluster.prefill[0].metrics()["baton_requests_running"] > 0)

    def test_prefill_worker_killed_mid_transfer(self):
        self.kill_and_check("prefill", lambda _: self.cluster.decode[0].metrics()["baton_leases_open"] > 0)

    def test_decode_worker_killed_while_it_waits_for_a_transfer(self):
        self.kill_and_check("decode", lambda _: self.cluster.decode[0].metrics()["baton_leases_open"] > 0)

    def test_decode_worker_killed_while_it_generates(self):
        self.kill_and_check("decode", lambda streams: all(len(s.messages) > 3 for s in streams))


class SecondPair(unittest.TestCase):
    def test_a_request_goes_on_where_another_pair_is_left(self):
        """The client sees every index once, whatever died."""
        with Cluster(prefill=1, decode=2, worker_flags=["--chunk_tokens", "8"],
                     router_flags=["--disaggregation=always"]) as cluster:
            sampling = dict(n=4, max_tokens=60, ignore_eos=True, temperature=0.7, seed=9)
            expected = cluster.generate(list(range(3, 53)), **sampling)
            stream = cluster.stream(list(range(3, 53)), **sampling)
            wait_until(lambda: len(stream.messages) > 3, "tokens")
            workers = [w for w in cluster.decode if w.metrics()["baton_requests_running"] > 0]
            for worker in workers:
                worker.kill()
            result = stream.result()  # checks that no index came twice or is missing
            self.assertEqual([list(c.token_ids) for c in result.choices], [list(c.token_ids) for c in expected.choices])
            self.assertEqual([c.text for c in result.choices], [c.text for c in expected.choices])
            cluster.assert_idle()


class SilentPrefillWorker(unittest.TestCase):
    def test_blocks_stay_quarantined_until_the_writer_is_gone(self):
        """A stopped process may wake and write: its blocks must not be reused before it is proven gone."""
        with Cluster(DEMO, worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--kv_gib", "0.1",
                                         "--heartbeat_seconds", "0.1", "--suspect_seconds", "0.5"],
                     decode_flags=["--lease_seconds", "1"], router_flags=["--disaggregation=always"]) as cluster:
            stream = cluster.stream(PROMPT, max_tokens=20, ignore_eos=True)
            decode, prefill = cluster.decode[0], cluster.prefill[0]
            wait_until(lambda: decode.metrics()["baton_leases_open"] > 0 or stream.done.is_set(), "a lease")
            prefill.popen.send_signal(signal.SIGSTOP)
            self.assertGreater(decode.metrics()['baton_kv_blocks{state="leased"}'], 0, "stopped in the middle")
            stream.call.cancel()
            stream.wait()
            wait_until(lambda: decode.metrics()['baton_kv_blocks{state="quarantined"}'] > 0, "quarantine")
            prefill.popen.send_signal(signal.SIGKILL)
            prefill.popen.wait()
            cluster.assert_idle()


if __name__ == "__main__":
    unittest.main()
