"""I6: the same request gives the same tokens and the same logprobs, bit for bit, however it is served."""

import random
import threading
import unittest

from harness import Cluster, inference_pb2

WORDS = random.Random(7)
LONG = [WORDS.randrange(3, 250) for _ in range(100)]  # three chunks of 40 tokens at most


def outcome(response):
    """What must not depend on how a request was served."""
    return [(c.prompt_index, c.index, list(c.token_ids), c.text, c.finish_reason, c.matched_stop,
             [(l.token_id, l.logprob, [(t.token_id, t.logprob) for t in l.top]) for l in c.logprobs])
            for c in response.choices]


SAMPLED = dict(max_tokens=12, temperature=0.9, top_p=0.95, top_k=40, seed=11, logprobs=3)


class DisaggregatedEqualsLocal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        flags = ["--chunk_tokens", "40"]
        cls.pair = Cluster(worker_flags=flags, router_flags=["--disaggregation=always"])
        cls.tcp = Cluster(worker_flags=[*flags, "--ucx_tls", "tcp,self"], router_flags=["--disaggregation=always"])
        cls.local = Cluster(prefill=0, worker_flags=[*flags, "--prefix_cache=false"], router_flags=["--disaggregation=never"])

    @classmethod
    def tearDownClass(cls):
        for cluster in (cls.pair, cls.tcp, cls.local):
            cluster.assert_idle()
            cluster.close()

    def assert_same(self, prompt, **sampling):
        expected = outcome(self.local.generate(prompt, **sampling))
        for name, cluster in (("shared memory", self.pair), ("tcp", self.tcp)):
            with self.subTest(name):
                response = cluster.generate(prompt, **sampling)
                self.assertEqual(outcome(response), expected)
                self.assertEqual(outcome(cluster.stream(prompt, **sampling).result()), expected, "streamed")
        return response

    def test_prompts_around_block_borders(self):
        for length in (1, 15, 16, 17, 31, 32, 33):
            with self.subTest(length=length):
                self.assert_same(LONG[:length], **SAMPLED)

    def test_prompt_of_three_chunks_moves_its_blocks(self):
        response = self.assert_same(LONG, **SAMPLED)
        self.assertEqual(response.reports[0].route.kv_transport, "ucx/tcp")

    def test_both_lanes_are_used(self):
        prompt = [9, 8, 7] * 20
        self.assertEqual(self.pair.generate(prompt, max_tokens=2).reports[0].route.kv_transport, "ucx/shm")
        self.assertEqual(self.tcp.generate(prompt, max_tokens=2).reports[0].route.kv_transport, "ucx/tcp")

    def test_greedy(self):
        self.assert_same(LONG[:50], max_tokens=30, temperature=0, logprobs=5)

    def test_prefix_hits_on_both_sides(self):
        prompt = LONG[40:] + LONG[:20]
        cold = outcome(self.pair.generate(prompt, **SAMPLED))
        warm = self.pair.generate(prompt, **SAMPLED)
        self.assertGreaterEqual(warm.reports[0].usage.cached_prompt_tokens, 64)
        self.assertEqual(outcome(warm), cold)
        longer = self.pair.generate(prompt + [5, 6, 7], **SAMPLED)
        self.assertEqual(outcome(longer), outcome(self.local.generate(prompt + [5, 6, 7], **SAMPLED)))
        self.assertGreaterEqual(longer.reports[0].usage.cached_prompt_tokens, 64)

    def test_prefix_hit_on_the_decode_side_alone_moves_fewer_blocks(self):
        prompt = [4 + i % 90 for i in range(64)]
        salted = dict(SAMPLED, cache_salt="decode-side")
        whole = self.pair.generate(prompt, **salted).reports[0].route.kv_bytes
        again = self.pair.generate(prompt + [7] * 20, **salted)
        self.assertLess(again.reports[0].route.kv_bytes, whole)
        self.assertEqual(outcome(again), outcome(self.local.generate(prompt + [7] * 20, **salted)))

    def test_four_choices(self):
        response = self.assert_same(LONG[:37], n=4, **SAMPLED)
        self.assertEqual(len(response.choices), 4)
        self.assertGreater(len({tuple(c.token_ids) for c in response.choices}), 1, "choices have streams of their own")

    def test_one_token_each(self):
        self.assert_same(LONG[:20], n=3, max_tokens=1, temperature=1.0, seed=3, logprobs=1)

    def test_penalties_and_bias(self):
        self.assert_same(LONG[:33], max_tokens=20, temperature=0.7, seed=5, repetition_penalty=1.3, presence_penalty=0.5,
                         frequency_penalty=0.5, logit_bias={10: 2.5, 11: -100.0}, min_tokens=3, logprobs=2)

    def test_stop_text_that_crosses_tokens(self):
        base = self.local.generate(LONG[:33], **SAMPLED).choices[0]
        text = base.text
        for begin in range(2, len(text) - 3):
            stop = text[begin:begin + 3]
            if "\ufffd" not in stop and text.find(stop) == begin:
                break
        else:
            self.skipTest("the model wrote no three plain characters in a row")
        response = self.assert_same(LONG[:33], stop=[stop], **SAMPLED)
        self.assertEqual(response.choices[0].matched_stop, stop)
        self.assertEqual(response.choices[0].finish_reason, inference_pb2.FINISH_REASON_STOP)
        self.assertEqual(response.choices[0].text, text[:begin])

    def test_stop_id_as_the_first_and_as_a_later_token(self):
        ids = list(self.local.generate(LONG[:33], **SAMPLED).choices[0].token_ids)
        for stop in (ids[0], ids[5]):
            response = self.assert_same(LONG[:33], stop_token_ids=[stop], ignore_eos=True, **SAMPLED)
            self.assertEqual(response.choices[0].matched_stop_token_id, stop)

    def test_among_sixteen_neighbours(self):
        expected = outcome(self.local.generate(LONG[:45], **SAMPLED))
        results = {}

        def run(i):
            prompt = LONG[:45] if i == 8 else [(i * 31 + k * 7) % 240 + 3 for k in range(20 + 3 * i)]
            results[i] = self.pair.generate(prompt, **SAMPLED)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(17)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 17)
        self.assertEqual(outcome(results[8]), expected)

    def test_several_prompts_in_one_call(self):
        prompts = [LONG[:20], LONG[:35], LONG[50:51]]
        together = self.pair.generate(prompts, **SAMPLED)
        self.assertEqual([r.prompt_index for r in together.reports], [0, 1, 2])
        for i, prompt in enumerate(prompts):
            alone = outcome(self.local.generate(prompt, **SAMPLED))[0]
            self.assertEqual([row[2:] for row in outcome(together) if row[0] == i], [alone[2:]])


class AfterPreemption(unittest.TestCase):
    """A pool too small for what runs at once: sequences are preempted, recomputed or swapped, and say the same."""

    def test_tokens_are_the_same_and_preemptions_happened(self):
        # Four choices of a 40-token prompt share 2 full blocks and need 5 more each in the end: 22 in all, of 14.
        prompt = [(k * 5) % 240 + 3 for k in range(40)]
        sampling = dict(n=4, max_tokens=70, temperature=0.8, seed=21, ignore_eos=True, logprobs=1)
        with Cluster(prefill=0, router_flags=["--disaggregation=never"]) as roomy:
            expected = outcome(roomy.generate(prompt, **sampling))
        gib = 8192 / 2**30  # of a block
        swap = ["--preemption=swap", "--swap_gib", str(40 * gib + 1e-9)]
        for kind, flags in (("recompute", []), ("swap", swap)):
            with self.subTest(kind=kind), Cluster(decode_flags=["--kv_gib", str(14 * gib + 1e-9), *flags],
                                                  router_flags=["--disaggregation=always"]) as tight:
                self.assertEqual(outcome(tight.stream(prompt, **sampling).result()), expected)
                metrics = tight.decode[0].metrics()
                self.assertGreater(metrics[f'baton_preemptions_total{{kind="{kind}"}}'], 0)
                self.assertEqual(metrics['baton_swap_blocks{state="used"}'], 0)
                self.assertEqual(metrics['baton_swapped_blocks_total{direction="out"}'] > 0, kind == "swap")
                tight.assert_idle()


class UnderAnyScheduling(unittest.TestCase):
    """Batching modes and step targets change when tokens come, never which."""

    def test_tokens_are_the_same(self):
        prompts = [[(i * 31 + k * 7) % 240 + 3 for k in range(10 + 25 * i)] for i in range(4)]
        with Cluster(prefill=0, router_flags=["--disaggregation=never"]) as plain:
            expected = [outcome(plain.generate(prompt, **SAMPLED)) for prompt in prompts]
        for flags in (["--batching=static"], ["--batching=dynamic", "--batch_timeout_ms=5"], ["--max_itl_ms=0.01"]):
            with self.subTest(flags=flags), Cluster(worker_flags=[*flags, "--max_batch=3"],
                                                    router_flags=["--disaggregation=always"]) as cluster:
                calls = [cluster.stream(prompt, **SAMPLED) for prompt in prompts]
                self.assertEqual([outcome(call.result()) for call in calls], expected)
                cluster.assert_idle()


if __name__ == "__main__":
    unittest.main()
