"""A lease that nobody could renew is the workers' affair: the client's request goes on."""

import signal
import unittest

from harness import Cluster, wait_until

PROMPT = list(range(3, 103))


class LeaseExpiry(unittest.TestCase):
    def test_a_request_whose_lease_ran_out_is_tried_again(self):
        with Cluster(worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--suspect_seconds", "600"],
                     decode_flags=["--lease_seconds", "0.3"], router_flags=["--disaggregation=always"]) as cluster:
            sampling = dict(max_tokens=8, ignore_eos=True, temperature=0.8, seed=5)
            expected = cluster.generate(PROMPT, **sampling)
            decode, prefill, router = cluster.decode[0], cluster.prefill[0], cluster.router
            stream = cluster.stream(PROMPT, **sampling)
            wait_until(lambda: decode.metrics()["baton_leases_open"] > 0 or stream.done.is_set(), "a lease")
            # Whoever could commit or renew is stopped, so the lease can only run out.
            for process in (prefill, router):
                process.popen.send_signal(signal.SIGSTOP)
            wait_until(lambda: decode.metrics()['baton_kv_blocks{state="leased"}'] == 0, "the lease is over")
            for process in (prefill, router):
                process.popen.send_signal(signal.SIGCONT)
            result = stream.result()
            self.assertEqual(list(result.choices[0].token_ids), list(expected.choices[0].token_ids))
            cluster.assert_idle()


if __name__ == "__main__":
    unittest.main()
