"""--allow_mixed_numerics: workers of equal KV layout whose engines compute unequal numbers serve a request together. Those of
engine cuda are the real programs on the host stand-in (tests/fakes)."""

import os
import unittest
from unittest import mock

import near_ties
from harness import DEMO, Cluster, admin_pb2, wait_for_stage

STAND_IN = "stand_in"
ALLOW = "--allow_mixed_numerics=true"
CPU = ("", [])
CUDA = (STAND_IN, ["--engine=cuda"])
TWO_DEVICES = (STAND_IN, ["--engine=cuda", "--tensor_parallel=2"])
GREEDY = {"max_tokens": 16, "temperature": 0, "ignore_eos": True, "logprobs": 2}
# The model never saw such: its choices are close.
PROMPTS = [[3 + (k * 31 + seed * 101) % 1200 for k in range(20 + 9 * seed)] for seed in range(3)]


def pair(prefill, decode, kind=Cluster, allow=(ALLOW, ALLOW), decode_workers=1, transport="ucx"):
    """`prefill`, `decode`: where the program is, and flags."""
    flags = [[*worker[1], *([flag] if flag else [])] for worker, flag in zip((prefill, decode), allow)]
    return kind(model=DEMO, worker_programs=(prefill[0], decode[0]), prefill_flags=flags[0], decode_flags=flags[1],
                decode=decode_workers, router_flags=["--disaggregation=always"], transport=transport)


class Unpaired(Cluster):
    """Its prefill worker is ready and no decode worker takes from it."""

    def wait_workers(self, prefill, decode):
        super().wait_workers(0, decode)


class MixedNumerics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Cluster(model=DEMO, prefill=0, router_flags=["--disaggregation=never"]) as cpu:
            cls.expected = [cpu.generate(prompt, **GREEDY).choices[0] for prompt in PROMPTS]

    def check_answers(self, cluster):
        compared = 0
        for prompt, expected in zip(PROMPTS, self.expected):
            response = cluster.generate(prompt, **GREEDY)
            route = response.reports[0].route
            self.assertGreater(route.kv_bytes, 0)
            self.assertEqual(route.attempts, 1)
            self.assertEqual((route.prefill_worker, route.decode_worker),
                             (cluster.prefill[0].address, cluster.decode[0].address))
            compared += near_ties.compare(self, expected, response.choices[0], f"prompt of {len(prompt)}")
        self.assertGreater(compared, 24)
        self.assertEqual(cluster.router.metrics()["baton_mixed_numerics_attempts_total"], len(PROMPTS))
        cluster.assert_idle()

    def test_a_cuda_worker_hands_over_to_a_cpu_worker(self):
        with pair(CUDA, CPU) as cluster:
            self.check_answers(cluster)
            workers = cluster.admin.ListWorkers(admin_pb2.ListWorkersRequest()).workers
            self.assertEqual([worker.allow_mixed_numerics for worker in workers], [True, True])
            self.assertEqual(len({worker.numerics_hash for worker in workers}), 2)
            self.assertEqual(len({worker.layout_hash for worker in workers}), 1)

    def test_a_cpu_worker_hands_over_to_a_cuda_worker(self):
        with pair(CPU, CUDA) as cluster:
            self.check_answers(cluster)

    def check_tensor_parallel(self, prefill, decode):
        with mock.patch.dict(os.environ, BATON_STAND_IN_DEVICES="2"):
            for transport in ("ucx", "nccl"):
                with self.subTest(transport), pair(prefill, decode, transport=transport) as cluster:
                    self.check_answers(cluster)

    def test_two_devices_hand_over_to_one(self):
        self.check_tensor_parallel(TWO_DEVICES, CUDA)

    def test_one_device_hands_over_to_two(self):
        self.check_tensor_parallel(CUDA, TWO_DEVICES)

    def test_two_devices_hand_over_to_a_cpu_worker(self):
        with mock.patch.dict(os.environ, BATON_STAND_IN_DEVICES="2"), pair(TWO_DEVICES, CPU) as cluster:
            self.check_answers(cluster)

    def test_unless_both_allow_it_the_pair_is_refused_by_name_and_the_decode_worker_reads_the_prompt(self):
        for allow in ((None, None), (ALLOW, None), (None, ALLOW)):
            with self.subTest(allow), pair(CUDA, CPU, kind=Unpaired, allow=allow) as cluster:
                refusal = cluster.router.wait_log("prefill worker pairs with no decode worker")
                self.assertEqual((refusal["prefill_worker"], refusal["decode_worker"]),
                                 (cluster.prefill[0].address, cluster.decode[0].address))
                self.assertRegex(refusal["error"], "numerics hash [0-9a-f]{16} of the prefill worker, [0-9a-f]{16} of the "
                                                   "decode worker, and they do not both allow mixed numerics")
                response = cluster.generate(PROMPTS[0], **GREEDY)
                route = response.reports[0].route
                self.assertEqual((route.reason, route.kv_bytes), ("no_prefill_worker", 0))
                self.assertEqual(response.choices[0].token_ids, self.expected[0].token_ids)
                self.assertEqual(cluster.router.metrics()["baton_mixed_numerics_attempts_total"], 0)
                cluster.assert_idle()

    def test_other_layouts_are_refused_whatever_is_allowed(self):
        prefill = (STAND_IN, [*CUDA[1], "--block_size=32"])
        with pair(prefill, CPU, kind=Unpaired) as cluster:
            refusal = cluster.router.wait_log("prefill worker pairs with no decode worker")
            self.assertIn("layout hash", refusal["error"])
            self.assertEqual(cluster.generate(PROMPTS[0], **GREEDY).reports[0].route.reason, "no_prefill_worker")

    def test_a_request_goes_on_when_its_decode_worker_dies(self):
        with pair(CUDA, CPU, decode_workers=2) as cluster:
            sampling = dict(GREEDY, max_tokens=600)
            stream = cluster.stream(PROMPTS[0], **sampling)
            wait_for_stage(lambda: len(stream.messages) > 3, stream, "tokens")
            running = [worker for worker in cluster.decode if worker.metrics()["baton_requests_running"] > 0]
            self.assertEqual(len(running), 1)
            running[0].kill()
            result = stream.result()  # checks that no index came twice or is missing
            self.assertEqual(len(result.choices[0].token_ids), 600)
            self.assertEqual(result.reports[0].route.reason, "resume")
            near_ties.compare(self, self.expected[0], result.choices[0], "resumed")
            cluster.assert_idle()


if __name__ == "__main__":
    unittest.main()
