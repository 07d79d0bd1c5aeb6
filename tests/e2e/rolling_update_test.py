"""Workers are replaced by ones of other numerics, one after the other, as a rolling update does it."""

import os
import unittest

from harness import (GOLDEN, PATIENCE, Process, Stream, grpc, inference_pb2, inference_pb2_grpc, make_request, wait_until)

PROMPT = list(range(3, 67))


class RollingUpdate(unittest.TestCase):
    def start(self, role, weights):
        worker = Process(f"baton-{role}", "--model", os.path.join(GOLDEN, "qwen2"), "--weights", weights, "--kv_gib", "0.02",
                         "--threads", "1", "--bandwidth_probe=false")
        self.processes.append(worker)
        worker.wait_log("ready")
        return worker

    def setUp(self):
        self.processes = []

    def tearDown(self):
        for process in reversed(self.processes):
            process.stop()
            process.assert_ended_well()

    def route(self):
        """Addresses of the prefill and the decode worker that served a request; empty without one."""
        reports = self.api.Generate(make_request(PROMPT, max_tokens=4, ignore_eos=True), timeout=PATIENCE).reports
        return reports[0].route.prefill_worker, reports[0].route.decode_worker

    def test_K8S_02_versions_are_never_mixed_and_always_served(self):
        prefill, decode = ([self.start(role, weights) for weights in ("f32", "bf16")] for role in ("prefill", "decode"))
        router = Process("baton-router", "--disaggregation=always", "--workers",
                         ",".join(worker.address for worker in prefill + decode))
        self.processes.append(router)
        self.api = inference_pb2_grpc.InferenceServiceStub(grpc.insecure_channel(router.address))
        wait_until(lambda: router.metrics()['baton_workers_ready{worker_role="decode"}'] == 2
                   and router.metrics()['baton_workers_ready{worker_role="prefill"}'] == 2
                   and self.api.ListModels(inference_pb2.ListModelsRequest()).models, "all four workers")
        versions = list(zip((w.address for w in prefill), (w.address for w in decode)))
        old = versions.index(self.route())  # a pair of one version, whichever the router met first
        for _ in range(4):
            self.assertEqual(self.route(), versions[old])

        # The decode worker of the version in use goes first, while a stream runs on it; its prefill worker stays.
        stream = Stream(self.api.StreamGenerate(inference_pb2.StreamGenerateRequest(
            request=make_request(PROMPT, max_tokens=60, ignore_eos=True)), timeout=PATIENCE))
        self.assertIsNotNone(stream.next())
        status = decode[old].stop()
        self.assertEqual(status, 0)
        stream.result()
        for _ in range(4):
            self.assertEqual(self.route(), versions[1 - old])
        self.assertEqual(prefill[old].stop(), 0)
        self.assertEqual(self.route(), versions[1 - old])


if __name__ == "__main__":
    unittest.main()
