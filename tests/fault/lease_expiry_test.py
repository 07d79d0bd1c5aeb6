"""A lease that nobody could renew is the workers' affair: the client's request goes on."""

import unittest

from harness import DEMO, Cluster, wait_for_stage, wait_until

PROMPT = [10 + i * 7 % 900 for i in range(1900)]  # one token a chunk: the lease is open for as many steps


class LeaseExpiry(unittest.TestCase):
    def test_a_request_whose_lease_ran_out_is_tried_again(self):
        with Cluster(DEMO, worker_flags=["--chunk_tokens", "1", "--prefix_cache=false", "--suspect_seconds", "600",
                                         "--kv_gib", "0.1"],
                     decode_flags=["--lease_seconds", "0.3"], router_flags=["--disaggregation=always"]) as cluster:
            sampling = dict(max_tokens=8, ignore_eos=True, temperature=0.8, seed=5)
            expected = cluster.generate(PROMPT, **sampling)
            decode, prefill, router = cluster.decode[0], cluster.prefill[0], cluster.router
            stream = cluster.stream(PROMPT, **sampling)
            wait_for_stage(lambda: decode.metrics()["baton_leases_open"] > 0, stream, "a lease")
            # Whoever could commit or renew is stopped, so the lease can only run out.
            with prefill.paused(), router.paused():
                wait_until(lambda: decode.metrics()['baton_kv_blocks{state="leased"}'] == 0, "the lease is over")
            result = stream.result()
            self.assertEqual(list(result.choices[0].token_ids), list(expected.choices[0].token_ids))
            cluster.assert_idle()


if __name__ == "__main__":
    unittest.main()
