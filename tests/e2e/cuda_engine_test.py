"""--engine=cuda through router, prefill and decode worker, three processes. The workers are the real programs, linked to a
CUDA and an NCCL that run on the host (tests/fakes); nothing here has run on a GPU."""

import json
import os
import subprocess
import unittest
from unittest import mock

import near_ties
from harness import BIN, DEMO, Cluster, Process, inference_pb2, wait_for_stage

with open(os.path.join(DEMO, "questions.json"), encoding="utf-8") as file:
    QUESTIONS = dict(list(json.load(file).items())[:6])

STAND_IN = "stand_in"
# Every step of the stand-in is slow: small pools, few choices, short answers.
FLAGS = ["--engine=cuda"]
BLOCK = 24576  # bytes, of the demo model at 16 bit
SAMPLED = {"max_tokens": 12, "temperature": 0.9, "top_p": 0.95, "top_k": 40, "seed": 11, "ignore_eos": True}
PROMPT = [3 + (k * 7) % 900 for k in range(50)]


def on_cuda(*flags, **arguments):
    return Cluster(model=DEMO, worker_flags=[*FLAGS, *flags], worker_programs=(STAND_IN, STAND_IN), **arguments)


def decode_alone(*flags, **arguments):
    return on_cuda(*flags, prefill=0, transport="local", router_flags=["--disaggregation=never"], **arguments)


def tokens(response):
    return [list(choice.token_ids) for choice in response.choices]


class OnOneDeviceEach(unittest.TestCase):
    """Prefill and decode worker, each with a device of its own."""

    def check_answers(self, transport):
        with on_cuda(transport=transport, router_flags=["--disaggregation=always"]) as cuda:
            for question, answer in QUESTIONS.items():
                with self.subTest(question=question):
                    response = cuda.generate([("user", question)])
                    self.assertEqual(response.choices[0].text, answer)
                    self.assertEqual(response.choices[0].finish_reason, inference_pb2.FINISH_REASON_STOP)
                    route = response.reports[0].route
                    self.assertEqual(route.kv_transport.split("/")[0], transport)
                    self.assertGreater(route.kv_bytes, 0)
            self.check_same_as_cpu(cuda)
            cuda.assert_idle()
            for worker in cuda.prefill + cuda.decode:
                metrics = worker.metrics()
                self.assertEqual(sum(v for k, v in metrics.items() if k.startswith("baton_model_info") and 'engine="cuda"' in k), 1)
                states = [v for k, v in metrics.items() if k.startswith("baton_kv_blocks{")]
                self.assertEqual(sum(states), worker.wait_log("model loaded")["kv_blocks"])

    def check_same_as_cpu(self, cuda):
        """Prompts that the model never saw: its choices are close, and tokens may part at a tie."""
        with Cluster(model=DEMO, prefill=0, router_flags=["--disaggregation=never"]) as cpu:
            compared = 0
            for seed in range(3):
                prompt = [3 + (k * 31 + seed * 101) % 1200 for k in range(20 + 9 * seed)]
                arguments = {"max_tokens": 16, "temperature": 0, "ignore_eos": True, "logprobs": 2}
                compared += near_ties.compare(self, cpu.generate(prompt, **arguments).choices[0],
                                              cuda.generate(prompt, **arguments).choices[0], f"prompt {seed}")
            self.assertGreater(compared, 24)

    def test_over_ucx_it_answers_as_the_cpu_engine_does(self):
        self.check_answers("ucx")

    def test_over_nccl_it_answers_as_the_cpu_engine_does(self):
        self.check_answers("nccl")


class Deterministic(unittest.TestCase):
    """I6 for token ids: however a request is served, and beside whom."""

    def test_disaggregated_equals_local(self):
        flags = ["--deterministic=true", "--chunk_tokens=40"]
        with decode_alone(*flags) as local:
            expected = [tokens(local.generate(PROMPT[:n], n=2, **SAMPLED)) for n in (16, 50)]
        with on_cuda(*flags, router_flags=["--disaggregation=always"]) as pair:
            self.assertEqual([tokens(pair.generate(PROMPT[:n], n=2, **SAMPLED)) for n in (16, 50)], expected)
            streams = [pair.stream([5 + i] * 20, **SAMPLED) for i in range(3)]
            self.assertEqual(tokens(pair.generate(PROMPT, n=2, **SAMPLED)), expected[1], "among neighbours")
            for stream in streams:
                stream.wait()
            pair.assert_idle()

    def test_without_graphs_and_with_them(self):
        outcomes = []
        for graphs in ("true", "false"):
            with decode_alone("--deterministic=true", f"--cuda_graphs={graphs}") as cluster:
                outcomes.append(tokens(cluster.generate(PROMPT[:20], n=2, **SAMPLED)))
        self.assertEqual(*outcomes)


class Blocks(unittest.TestCase):
    def test_a_cancelled_request_gives_its_blocks_back(self):
        with on_cuda(router_flags=["--disaggregation=always"]) as cluster:
            stream = cluster.stream(PROMPT, **dict(SAMPLED, max_tokens=1500))
            decode = cluster.decode[0]
            wait_for_stage(lambda: decode.metrics()['baton_kv_blocks{state="owned"}'] > 0, stream, "decoding")
            stream.call.cancel()
            stream.wait()
            cluster.assert_idle()

    def test_a_pool_too_small_swaps_to_pinned_memory_and_says_the_same(self):
        # Four choices of a 40-token prompt share 2 full blocks and need 3 more each in the end: 14 in all, of 10.
        sampling = dict(SAMPLED, n=4, max_tokens=40)
        deterministic = ["--deterministic=true"]
        with decode_alone(*deterministic) as roomy:
            expected = tokens(roomy.generate(PROMPT[:40], **sampling))
        gib = BLOCK / 2**30
        swap = ["--kv_gib", str(10 * gib + 1e-9), "--preemption=swap", "--swap_gib", str(24 * gib + 1e-9)]
        with decode_alone(*deterministic, *swap) as tight:
            self.assertEqual(tokens(tight.generate(PROMPT[:40], **sampling)), expected)
            metrics = tight.decode[0].metrics()
            self.assertGreater(metrics['baton_preemptions_total{kind="swap"}'], 0)
            self.assertGreater(metrics['baton_swapped_blocks_total{direction="in"}'], 0)
            tight.assert_idle()


class TensorParallel(unittest.TestCase):
    """Its numbers are another sum than one device's: greedy tokens of the two may part at a tie alone, and do not here."""

    def test_two_devices_say_what_one_says(self):
        greedy = {"max_tokens": 8, "temperature": 0, "ignore_eos": True}
        with decode_alone() as cluster:
            expected = tokens(cluster.generate(PROMPT, **greedy))
        with mock.patch.dict(os.environ, BATON_STAND_IN_DEVICES="2"):
            for flags in (["--tensor_parallel=2"], ["--tensor_parallel=2", "--device=1,0"]):
                with decode_alone(*flags) as cluster:
                    self.assertEqual(tokens(cluster.generate(PROMPT, **greedy)), expected)
                    cluster.assert_idle()


class AtStart(unittest.TestCase):
    def failure(self, program, *flags, env=None):
        process = Process(program, "--model", DEMO, "--port=0", *flags, env=env)
        self.assertNotEqual(process.popen.wait(60), 0)
        return process.wait_log("cannot start")["error"]

    def cuda_failure(self, *flags, env=None):
        return self.failure(os.path.join(STAND_IN, "baton-decode"), "--engine=cuda", *flags, env=env)

    def test_the_pool_is_what_weights_and_activations_leave(self):
        with decode_alone("--kv_gib=0", "--gpu_memory_utilization=0.5", "--max_step_tokens=64", engine_probe=True) as cluster:
            loaded = cluster.decode[0].wait_log("model loaded")
            self.assertEqual(loaded["engine"], "cuda")
            budget = 0.5 * 2**30 - loaded["activation_bytes"] - loaded["weights_bytes"]  # of a device of 1 GiB
            self.assertLess(loaded["kv_pool_gib"] * 2**30, budget)
            self.assertGreater(loaded["kv_pool_gib"] * 2**30, 0.9 * budget)  # vectors and the rope's table are not counted
            self.assertEqual(loaded["kv_blocks"], loaded["kv_pool_gib"] * 2**30 / BLOCK)
            self.assertAlmostEqual(loaded["concurrency_at_max_model_len"], loaded["kv_blocks"] * 16 / 2048)
            self.assertGreater(loaded["peak_flops_per_second"], 0)
            self.assertGreater(loaded["peak_bytes_per_second"], 0)

    def test_nothing_left_for_kv_is_said_with_the_numbers(self):
        error = self.cuda_failure("--gpu_memory_utilization=0.01")
        for part in ("--gpu_memory_utilization 0.01", "1.000 GiB", "0.010 GiB", "weights take", "activations", "blocks"):
            self.assertIn(part, error)

    def test_no_device_and_too_few(self):
        self.assertIn("no CUDA device", self.cuda_failure(env={"BATON_STAND_IN_DEVICES": "0"}))
        self.assertIn("CUDA device 3; there are 1", self.cuda_failure("--device=3"))
        self.assertIn("CUDA device 1; there are 1", self.cuda_failure("--tensor_parallel=2"))
        self.assertIn("--device names 1 devices and --tensor_parallel is 2", self.cuda_failure("--tensor_parallel=2", "--device=0"))
        self.assertIn("--device names 0 twice", self.cuda_failure("--tensor_parallel=2", "--device=0,0", env={"BATON_STAND_IN_DEVICES": "2"}))

    def test_heads_that_do_not_divide_are_named(self):
        error = self.cuda_failure("--tensor_parallel=4", env={"BATON_STAND_IN_DEVICES": "4"})
        self.assertIn("tensor parallel size 4: the model has 2 KV heads", error)

    def test_formats_that_the_engine_does_not_take_are_named(self):
        self.assertIn("--weights is int4", self.cuda_failure("--weights=int4"))
        self.assertIn("--kv_dtype is int8", self.cuda_failure("--kv_dtype=int8"))
        self.assertIn("--kv_dtype is f16", self.cuda_failure("--kv_dtype=f16", "--weights=bf16"))

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU")
    def test_the_programs_themselves_need_a_device(self):
        """What is installed: without CUDA in the build, or without a GPU on the machine, it says so and ends."""
        for program in ("baton-prefill", "baton-decode"):
            with self.subTest(program):
                error = self.failure(program, "--engine=cuda")
                self.assertRegex(error, "no CUDA device|this build is without engine cuda")

    def test_the_programs_need_no_library_of_nvidia_to_start(self):
        for program in ("baton-prefill", "baton-decode"):
            needed = subprocess.run(["readelf", "-d", os.path.join(BIN, program)], check=True, capture_output=True, text=True).stdout
            self.assertIn("libgrpc++", needed)
            self.assertNotRegex(needed, r"NEEDED.*lib(cuda|cublas|nccl|nv)")


if __name__ == "__main__":
    unittest.main()
