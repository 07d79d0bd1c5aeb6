"""Workers die by SIGKILL or fall silent: streams end in time, survivors get everything back, restarted workers serve."""

import signal
import time
import unittest

from harness import DEMO, PATIENCE, Cluster, assemble, grpc, wait_for_stage, wait_until

PROMPT = [10 + i * 7 % 900 for i in range(1000)]
LONG = dict(n=8, max_tokens=100000, ignore_eos=True, temperature=0)
SHORT = dict(n=2, max_tokens=20, ignore_eos=True, temperature=0.9, seed=5)
# What the design promises; sanitizer builds need longer, so the bound scales with the patience given to the tests.
SECONDS = max(10, PATIENCE / 6)


class WorkerDeath(unittest.TestCase):
    def setUp(self):
        # One token a chunk: a thousand steps are long enough to die in.
        self.cluster = Cluster(DEMO, worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--kv_gib", "0.1"],
                               decode_flags=["--lease_seconds", "2"], router_flags=["--disaggregation=always"])

    def tearDown(self):
        self.cluster.close()

    def die(self, role, sampling, reached):
        """Kills a worker when `reached`; returns the streams that ran, all ended."""
        cluster = self.cluster
        worker = getattr(cluster, role)[0]
        streams = [cluster.stream(PROMPT, **sampling) for _ in range(4)]
        wait_for_stage(lambda: reached(streams), streams, "the stage to die in")
        since = time.monotonic()
        worker.kill()
        for stream in streams:
            stream.wait()
        if role == "decode":  # nobody can go on: all that is left is to say so
            self.assertLess(time.monotonic() - since, SECONDS)
        cluster.assert_idle()
        return worker, streams

    def assert_serves_again(self, worker):
        cluster = self.cluster
        fresh = cluster.restart(worker)
        self.assertNotEqual(fresh.wait_log("listening")["incarnation"], worker.wait_log("listening")["incarnation"])
        cluster.wait_workers(1, 1)
        response = cluster.generate(PROMPT, **SHORT)
        self.assertGreater(response.reports[0].route.kv_bytes, 0, "the restarted worker takes part in handoffs")
        cluster.assert_idle()
        return response

    def check_prefill_worker(self, reached):
        """The decode worker reads the prompts itself; nobody sees more than a pause."""
        worker, streams = self.die("prefill", SHORT, reached)
        expected = self.assert_serves_again(worker)
        for stream in streams:
            result = stream.result()
            self.assertEqual(result.choices, expected.choices)
            self.assertLessEqual(result.reports[0].route.attempts, 2, "the dead worker is not asked again")

    def check_decode_worker(self, reached):
        """No other decode worker is left: the streams end with UNAVAILABLE."""
        worker, streams = self.die("decode", LONG, reached)
        for stream in streams:
            self.assertEqual(stream.code(), grpc.StatusCode.UNAVAILABLE)
        self.assert_serves_again(worker)

    def test_RPC_10_prefill_worker_killed_while_it_reads_prompts(self):
        self.check_prefill_worker(lambda _: self.cluster.prefill[0].metrics()["baton_requests_running"] > 0)

    def test_prefill_worker_killed_mid_transfer(self):
        self.check_prefill_worker(lambda _: self.cluster.decode[0].metrics()["baton_leases_open"] > 0)

    def test_decode_worker_killed_while_it_waits_for_a_transfer(self):
        self.check_decode_worker(lambda _: self.cluster.decode[0].metrics()["baton_leases_open"] > 0)

    def test_decode_worker_killed_while_it_generates(self):
        self.check_decode_worker(lambda streams: all(len(s.messages) > 3 for s in streams))


class SecondPair(unittest.TestCase):
    def test_RPC_10_a_request_goes_on_where_another_pair_is_left(self):
        """The client sees every index once, whatever died."""
        with Cluster(DEMO, prefill=1, decode=2, worker_flags=["--chunk_tokens", "8", "--kv_gib", "0.1"],
                     router_flags=["--disaggregation=always"]) as cluster:
            prompt = PROMPT[:50]
            sampling = dict(n=4, max_tokens=600, ignore_eos=True, temperature=0.7, seed=9)
            expected = cluster.generate(prompt, **sampling)
            stream = cluster.stream(prompt, **sampling)
            wait_for_stage(lambda: len(stream.messages) > 3, stream, "tokens")
            workers = [w for w in cluster.decode if w.metrics()["baton_requests_running"] > 0]
            self.assertEqual(len(workers), 1)
            workers[0].kill()
            result = stream.result()  # checks that no index came twice or is missing
            self.assertEqual([list(c.token_ids) for c in result.choices], [list(c.token_ids) for c in expected.choices])
            self.assertEqual([c.text for c in result.choices], [c.text for c in expected.choices])
            cluster.assert_idle()


    def test_RPC_10_a_request_under_which_two_workers_die_takes_no_third(self):
        with Cluster(DEMO, prefill=0, decode=3, worker_flags=["--kv_gib", "0.1"],
                     router_flags=["--disaggregation=never"]) as cluster:
            stream = cluster.stream(PROMPT[:50], n=4, max_tokens=1900, ignore_eos=True, temperature=0)
            for _ in range(2):
                seen = len(stream.messages)
                wait_for_stage(lambda: len(stream.messages) > seen + 3, stream, "tokens")
                running = [w for w in cluster.decode if w.alive and w.metrics()["baton_requests_running"] > 0]
                self.assertEqual(len(running), 1)
                running[0].kill()
            self.assertEqual(stream.code(), grpc.StatusCode.INTERNAL)
            self.assertIn("two workers were lost", stream.error.details())
            assemble(stream.messages)  # checks that no index came twice or is missing
            self.assertEqual(sum(w.alive for w in cluster.decode), 1)
            cluster.assert_idle()


class SilentPrefillWorker(unittest.TestCase):
    def test_blocks_stay_quarantined_until_the_writer_is_gone(self):
        """A stopped process may wake and write: its blocks must not be reused before it is proven gone."""
        with Cluster(DEMO, worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--kv_gib", "0.1",
                                         "--heartbeat_seconds", "0.2", "--suspect_seconds", "2"],
                     decode_flags=["--lease_seconds", "1"], router_flags=["--disaggregation=always"]) as cluster:
            decode, prefill = cluster.decode[0], cluster.prefill[0]
            cluster.generate(PROMPT[:20], max_tokens=2)  # the connection between the two stands from here on
            before = prefill.metrics()["baton_prompt_tokens_total"]
            stream = cluster.stream(PROMPT + PROMPT[:900], max_tokens=20, ignore_eos=True)
            wait_for_stage(lambda: decode.metrics()["baton_leases_open"] > 0, stream, "a lease")
            # Some blocks are on their way, many are not computed yet.
            wait_for_stage(lambda: prefill.metrics()["baton_prompt_tokens_total"] - before > 100, stream,
                           "the transfer's beginning")
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
