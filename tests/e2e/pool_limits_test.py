"""What does not fit: prompts larger than a lease or a pool, clients that do not read. And what a worker takes of a machine."""

import json
import math
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

from harness import (BIN, DEMO, GOLDEN, PATIENCE, Cluster, Process, grpc, inference_pb2, make_request, wait_until, worker_pb2,
                     worker_pb2_grpc)

GREEDY = dict(temperature=0, ignore_eos=True)


def block_bytes(cluster):
    with grpc.insecure_channel(cluster.decode[0].address) as channel:
        watch = worker_pb2_grpc.WorkerServiceStub(channel).WatchState
        states = watch(worker_pb2.WatchStateRequest(protocol_version=1), timeout=PATIENCE)
        return next(states).identity.block_bytes


def pool_flags(blocks, size):
    return ["--kv_gib", repr((blocks + 0.5) * size / 2**30)]


def write_wide_model(folder, intermediate):
    """The golden qwen2 with wider feed-forward matrices, all zero."""
    source = os.path.join(GOLDEN, "qwen2")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(source, name), folder)
    with open(os.path.join(source, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    width = config["intermediate_size"]
    config["intermediate_size"] = intermediate
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    with open(os.path.join(source, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    end = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            tensor["shape"] = [intermediate if size == width else size for size in tensor["shape"]]
            begin, end = end, end + 4 * math.prod(tensor["shape"])
            tensor["data_offsets"] = [begin, end]
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def sanitized(program):
    """A sanitizer keeps memory of its own."""
    with open(os.path.join(BIN, program), "rb") as file:
        text = file.read()
    return b"__asan_init" in text or b"__tsan_init" in text


class PeakMemory(unittest.TestCase):
    @unittest.skipIf(sanitized("baton-decode"), "sanitized")
    def test_a_worker_takes_its_weights_its_pool_and_a_tenth_of_both_at_most(self):
        """From its start on: while weights are packed, too, whose file has them once more."""
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            subprocess.run([os.path.join(BIN, "baton"), "make-model", "--shape", "smollm2-135m", "--out", model], check=True,
                           capture_output=True, timeout=PATIENCE * 3)
            with Cluster(model, prefill=0, worker_flags=["--kv_gib", "0.6", "--weights", "int8", "--threads", "2"],
                         router_flags=["--disaggregation=never"]) as cluster:
                cluster.generate([3 + i % 250 for i in range(400)], max_tokens=4, **GREEDY)
                worker = cluster.decode[0]
                loaded = worker.wait_log("model loaded")
                with open(f"/proc/{worker.popen.pid}/status", encoding="ascii") as file:
                    kib = dict(re.findall(r"^(\w+):\s+(\d+) kB$", file.read(), re.M))
                pool = loaded["kv_pool_gib"] * 2**30
                # Of the pool only what was used is resident; it counts whole.
                peak = (int(kib["VmHWM"]) - int(kib["RssShmem"])) * 1024 + pool
                self.assertGreater(peak, loaded["weights_bytes"] + pool)
                self.assertLess(peak, 1.1 * (loaded["weights_bytes"] + pool))


class SmallPools(unittest.TestCase):
    """A decode pool of 7 blocks, of which 3 may be leased."""

    @classmethod
    def setUpClass(cls):
        with Cluster() as ample:
            size = block_bytes(ample)
            cls.prompt = list(range(3, 83))  # 5 blocks
            cls.expected = [list(c.token_ids) for c in ample.generate(cls.prompt, max_tokens=6, **GREEDY).choices]
        cls.cluster = Cluster(decode_flags=pool_flags(7, size), router_flags=["--disaggregation=always"])

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def test_LIM_03_a_prompt_larger_than_the_leased_share_is_read_by_the_decode_worker(self):
        response = self.cluster.generate(self.prompt, max_tokens=6, **GREEDY)
        self.assertEqual([list(c.token_ids) for c in response.choices], self.expected)
        self.assertEqual(response.reports[0].route.reason, "lease_too_large")
        self.cluster.assert_idle()

    def test_LIM_03_more_choices_than_may_be_leased_are_served(self):
        response = self.cluster.generate([5, 6, 7], n=8, max_tokens=3, **GREEDY)
        self.assertEqual({len(c.token_ids) for c in response.choices}, {3})
        self.assertEqual(len({tuple(c.token_ids) for c in response.choices}), 1)
        self.cluster.assert_idle()

    def test_LIM_03_what_no_pool_holds_is_refused_with_both_numbers_before_any_work(self):
        before = self.cluster.prefill[0].metrics()["baton_prompt_tokens_total"]
        for prompt, max_tokens in ((list(range(3, 123)), 2), (list(range(3, 53)), 70)):
            with self.subTest(prompt=len(prompt), max_tokens=max_tokens):
                with self.assertRaises(grpc.RpcError) as raised:
                    self.cluster.generate(prompt, max_tokens=max_tokens, **GREEDY)
                self.assertEqual(raised.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
                self.assertIn("need 8 KV blocks", raised.exception.details())
                self.assertIn("the largest pool has 7", raised.exception.details())
        self.assertEqual(self.cluster.prefill[0].metrics()["baton_prompt_tokens_total"], before)
        self.cluster.assert_idle()

    def test_LIM_03_exactly_the_pool_is_served(self):
        response = self.cluster.generate(list(range(3, 53)), max_tokens=63, **GREEDY)  # 50 + 62 = 7 blocks
        self.assertEqual(len(response.choices[0].token_ids), 63)
        self.cluster.assert_idle()


class SmallPrefillPool(unittest.TestCase):
    def test_LIM_03_a_prompt_larger_than_the_prefill_pool_is_read_by_the_decode_worker(self):
        with Cluster() as ample:
            size = block_bytes(ample)
            prompt = list(range(3, 103))
            expected = list(ample.generate(prompt, max_tokens=6, **GREEDY).choices[0].token_ids)
        with Cluster(prefill_flags=pool_flags(5, size), router_flags=["--disaggregation=always"]) as cluster:
            response = cluster.generate(prompt, max_tokens=6, **GREEDY)
            self.assertEqual(list(response.choices[0].token_ids), expected)
            cluster.assert_idle()


class MemoryBeyondTheMachine(unittest.TestCase):
    def refusal(self, *flags, model=DEMO):
        worker = Process("baton-decode", "--model", model, "--engine_probe=false", "--threads", "1", *flags)
        error = worker.wait_log("cannot start")["error"]
        self.assertNotEqual(worker.popen.wait(PATIENCE), 0)
        return error

    def test_a_pool_larger_than_memory_is_refused_with_both_numbers_before_it_is_taken(self):
        self.assertRegex(self.refusal("--kv_gib", "60000"), r"KV pool of 60000\.000 GiB; [\d.]+ GiB of memory are available")

    def test_activations_count_and_are_refused_before_they_are_taken(self):
        """The pool alone would fit, beside the activations of so large a step it does not."""
        available, activations = [float(n) for n in re.search(
            r"([\d.]+) GiB of memory are available beside ([\d.]+) GiB of activations",
            self.refusal("--kv_gib", "60000", "--max_step_tokens", "200000")).groups()]
        self.assertGreater(activations, 1)
        error = self.refusal("--kv_gib", str(available + activations / 2), "--max_step_tokens", "200000")
        self.assertRegex(error, r"beside [\d.]+ GiB of activations$")

    def test_activations_alone_larger_than_memory_are_refused_with_the_flags_that_ask_for_them(self):
        with tempfile.TemporaryDirectory() as folder:
            write_wide_model(folder, intermediate=65536)  # a million rows of it: a terabyte
            error = self.refusal("--kv_gib", "0.01", "--max_step_tokens", "1048576", "--max_batch", "4096", model=folder)
        self.assertRegex(error, r"step of 1048576 tokens and 4096 sequences \(--max_step_tokens, --max_batch\) takes [\d.]+ GiB")

    def test_what_activations_take_is_logged(self):
        worker = Process("baton-decode", "--model", DEMO, "--kv_gib", "0.01", "--engine_probe=false", "--threads", "1")
        self.assertGreater(worker.wait_log("model loaded")["activation_bytes"], 512 * 1024)
        worker.wait_log("ready")
        self.assertEqual(worker.stop(), 0)


class SlowReaders(unittest.TestCase):
    def test_RPC_05_a_client_that_does_not_read_is_ended_and_others_are_not_held_up(self):
        with Cluster(router_flags=["--max_unread_kib", "64"]) as cluster:
            options = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
            with grpc.insecure_channel(cluster.router.address, options=options) as channel:
                request = inference_pb2.StreamGenerateRequest(request=make_request(
                    [[5 + i] for i in range(16)], n=16, max_tokens=120, ignore_eos=True, logprobs=20))
                call = channel.unary_stream(
                    "/baton.v1.InferenceService/StreamGenerate",
                    request_serializer=inference_pb2.StreamGenerateRequest.SerializeToString,
                    response_deserializer=inference_pb2.StreamGenerateResponse.FromString)(request, timeout=10 * PATIENCE)
                name = 'baton_requests_total{reason="resource_exhausted"}'
                wait_until(lambda: cluster.router.metrics()[name] == 1, "the unread request is ended")
                cluster.assert_idle()
                self.assertEqual(cluster.generate([5, 6], max_tokens=2).reports[0].usage.completion_tokens, 2)
                with self.assertRaises(grpc.RpcError) as raised:
                    for _ in call:
                        pass
                self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                self.assertIn("reads too slowly", raised.exception.details())


if __name__ == "__main__":
    unittest.main()
