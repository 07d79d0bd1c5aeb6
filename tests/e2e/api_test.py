"""The public API as a client made only from the public protos sees it."""

import os
import subprocess
import sys
import tempfile
import unittest

from harness import (PATIENCE, STAGES, Cluster, Process, admin_pb2, details, grpc, inference_pb2, make_request, wait_until)

# Health and reflection stubs from Debian's grpc-proto, which Debian 13 does not have.
_out = tempfile.mkdtemp(prefix="baton-grpc-stubs-")
_grpc = "/usr/share/grpc-proto"
HAS_GRPC_PROTO = os.path.isdir(_grpc)
if HAS_GRPC_PROTO:
    subprocess.run(["protoc", "-I", _grpc, f"--python_out={_out}", f"--grpc_python_out={_out}",
                    "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin",
                    "grpc/health/v1/health.proto", "grpc/reflection/v1alpha/reflection.proto"], check=True)
    grpc.__path__.append(os.path.join(_out, "grpc"))
    sys.path.insert(0, _out)
    from grpc.health.v1 import health_pb2, health_pb2_grpc
    from grpc.reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
    SERVING = health_pb2.HealthCheckResponse.SERVING
    NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

SERVICE = "baton.v1.InferenceService"


def health(process, service, patience=PATIENCE):
    with grpc.insecure_channel(process.address) as channel:
        try:
            return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service),
                                                             wait_for_ready=True, timeout=patience).status
        except grpc.RpcError as error:
            return error.code()


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.assert_idle()
        cls.cluster.close()

    def assert_fails(self, code, *fragments, call=None, **request):
        with self.assertRaises(grpc.RpcError) as raised:
            (call or self.cluster.generate)(**request)
        self.assertEqual(raised.exception.code(), code, raised.exception.details())
        for fragment in fragments:
            self.assertIn(fragment, raised.exception.details())
        return raised.exception

    @unittest.skipUnless(HAS_GRPC_PROTO, "grpc-proto is not installed")
    def test_services_are_listed_by_reflection(self):
        stub = reflection_pb2_grpc.ServerReflectionStub(self.cluster.channel)
        reply = next(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")])))
        names = {service.name for service in reply.list_services_response.service}
        self.assertLessEqual({SERVICE, "baton.v1.AdminService", "grpc.health.v1.Health"}, names)

    @unittest.skipUnless(HAS_GRPC_PROTO, "grpc-proto is not installed")
    def test_readiness_follows_the_workers(self):
        self.assertEqual(health(self.cluster.router, ""), SERVING)
        self.assertEqual(health(self.cluster.router, SERVICE), SERVING)
        self.assertEqual(health(self.cluster.prefill[0], "baton.internal.v1.PrefillService"), SERVING)
        self.assertEqual(health(self.cluster.router, "no.such.Service"), grpc.StatusCode.NOT_FOUND)
        alone = Process("baton-router", "--workers", "127.0.0.1:1")
        self.addCleanup(alone.popen.kill)
        self.assertEqual(health(alone, ""), SERVING)
        self.assertEqual(health(alone, SERVICE), NOT_SERVING)
        with grpc.insecure_channel(alone.address) as channel:
            from harness import inference_pb2_grpc
            self.assert_fails(grpc.StatusCode.UNAVAILABLE, "no worker",
                              call=lambda: inference_pb2_grpc.InferenceServiceStub(channel).Generate(
                                  make_request("x"), timeout=PATIENCE))
        self.assertEqual(alone.stop(), 0)

    def test_models(self):
        models = self.cluster.api.ListModels(inference_pb2.ListModelsRequest()).models
        self.assertEqual([(m.name, m.ready, m.prefill_workers, m.decode_workers) for m in models], [("qwen2", True, 1, 1)])
        self.assertEqual(models[0].max_model_len, 128)

    def test_workers(self):
        workers = self.cluster.admin.ListWorkers(admin_pb2.ListWorkersRequest()).workers
        self.assertEqual([w.role for w in workers], [admin_pb2.WORKER_ROLE_PREFILL, admin_pb2.WORKER_ROLE_DECODE])
        for worker in workers:
            self.assertEqual(worker.state, admin_pb2.WORKER_STATE_READY)
            blocks = worker.kv_blocks
            self.assertEqual(blocks.free + blocks.cached + blocks.leased + blocks.owned + blocks.quarantined, 2621)

    def test_blocking_and_streaming_agree_and_report_the_same_account(self):
        request = dict(prompt="hello there", max_tokens=9, temperature=0.8, seed=4, n=2, logprobs=2)
        blocking = self.cluster.generate(**request)
        streamed = self.cluster.stream(**request).result()
        self.assertEqual(list(blocking.choices), list(streamed.choices))
        self.assertEqual(blocking.seed, 4)
        for response in (blocking, streamed):
            report = response.reports[0]
            self.assertEqual(report.usage.completion_tokens, sum(len(c.token_ids) for c in response.choices))
            t = report.timings
            self.assertAlmostEqual(sum(getattr(t, f"{stage}_seconds") for stage in STAGES), t.total_seconds, places=6)

    def test_a_drawn_seed_reproduces_the_answer(self):
        first = self.cluster.generate("abc", max_tokens=12, temperature=1.5, ignore_eos=True)
        again = self.cluster.generate("abc", max_tokens=12, temperature=1.5, ignore_eos=True, seed=first.seed)
        self.assertEqual(first.choices[0].token_ids, again.choices[0].token_ids)
        other = self.cluster.generate("abc", max_tokens=12, temperature=1.5, ignore_eos=True)
        self.assertNotEqual(first.choices[0].token_ids, other.choices[0].token_ids)

    def test_tokenize_and_detokenize(self):
        text = "Hello, wörld! \u00e9"
        ids = self.cluster.api.Tokenize(inference_pb2.TokenizeRequest(prompt=inference_pb2.Prompt(text=text))).ids
        back = self.cluster.api.Detokenize(inference_pb2.DetokenizeRequest(ids=ids)).text
        self.assertEqual(back, text)
        self.assertEqual(list(self.cluster.generate(text, max_tokens=2, temperature=0).choices[0].token_ids),
                         list(self.cluster.generate(list(ids), max_tokens=2, temperature=0).choices[0].token_ids))
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, "ids", "288", call=lambda: self.cluster.api.Detokenize(
            inference_pb2.DetokenizeRequest(ids=[288])))

    def test_every_wrong_field_is_named_with_its_limit(self):
        for field, value, limit in (("temperature", -1, "2"), ("temperature", float("nan"), "2"),
                                    ("temperature", 2.5, "2"), ("top_p", -0.1, "1"), ("top_p", float("inf"), "1"),
                                    ("top_p", 1.5, "1"), ("min_p", 2, "1"), ("repetition_penalty", 0, "100"),
                                    ("presence_penalty", 3, "2"), ("frequency_penalty", -3, "2"), ("max_tokens", 0, "1"),
                                    ("min_tokens", 257, "is 257, max_tokens is 256, the default"),
                                    ("n", 0, "64"), ("n", 65, "64"), ("logprobs", 21, "20"), ("stop", [""], "1"),
                                    ("stop", ["x"] * 17, "16"), ("stop", ["x" * 257], "256"), ("stop_token_ids", [288], "287"),
                                    ("stop_token_ids", [-1], "287"), ("logit_bias", {1: 101.0}, "100"),
                                    ("logit_bias", {999: 1.0}, "287")):
            with self.subTest(field=field, value=value):
                error = self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, f"sampling.{field}", limit,
                                          prompt="x", **{field: value})
                violations = details(error)["BadRequest"].field_violations
                self.assertTrue(any(v.field.startswith(f"sampling.{field}") for v in violations))

    def test_all_violations_come_at_once(self):
        error = self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, prompt="x", top_p=7, n=0, request_id="a b", priority=101)
        fields = {v.field for v in details(error)["BadRequest"].field_violations}
        self.assertEqual(fields, {"sampling.top_p", "sampling.n", "request_id", "priority"})

    def test_prompts_are_checked(self):
        empty = inference_pb2.GenerateRequest()
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, "prompts", call=lambda: self.cluster.api.Generate(empty))
        empty.prompts.add()
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, "prompts[0]", call=lambda: self.cluster.api.Generate(empty))
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, "288", "287", prompt=[3, 288])
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, "-5", prompt=[-5])
        self.assert_fails(grpc.StatusCode.FAILED_PRECONDITION, "128 tokens", "takes 128", prompt=[3] * 128)
        self.assert_fails(grpc.StatusCode.NOT_FOUND, "'gpt'", "qwen2", prompt="x", model="gpt")
        self.assert_fails(grpc.StatusCode.INVALID_ARGUMENT, "4194304", prompt="y" * (5 << 20))

    def test_the_longest_prompt_that_fits_is_served_to_the_models_length(self):
        response = self.cluster.generate([3 + i % 200 for i in range(127)], max_tokens=50, ignore_eos=True, temperature=0)
        self.assertEqual(response.reports[0].usage.completion_tokens, 1)
        self.assertEqual(response.choices[0].finish_reason, inference_pb2.FINISH_REASON_LENGTH)
        response = self.cluster.generate([3] * 100, max_tokens=50, ignore_eos=True, temperature=0)
        self.assertEqual(response.reports[0].usage.completion_tokens, 28)

    def test_a_request_id_runs_once(self):
        with self.cluster.prefill[0].paused(), self.cluster.decode[0].paused():
            first = self.cluster.stream([3] * 60, request_id="twice", n=16, max_tokens=60, ignore_eos=True)
            wait_until(lambda: self.cluster.router.metrics()["baton_requests_running"] == 1, "the first runs")
            second = self.cluster.stream([3] * 60, request_id="twice", n=16, max_tokens=60, ignore_eos=True)
            self.assertEqual(second.code(), grpc.StatusCode.ALREADY_EXISTS)
        self.assertEqual(first.code(), grpc.StatusCode.OK)
        self.cluster.generate("x", request_id="twice", max_tokens=1)

    @unittest.skipUnless(HAS_GRPC_PROTO, "grpc-proto is not installed")
    def test_drain_refuses_new_work_finishes_old_and_exits_cleanly(self):
        with Cluster() as cluster:
            stream = cluster.stream([3] * 60, n=8, max_tokens=60, ignore_eos=True)
            stream.next()
            cluster.admin.DrainWorker(admin_pb2.DrainWorkerRequest(address=cluster.decode[0].address))
            wait_until(lambda: not cluster.decode[0].alive, "the drained worker's exit")
            self.assertEqual(cluster.decode[0].popen.wait(), 0)
            self.assertEqual(stream.code(), grpc.StatusCode.OK)
            self.assertEqual(sum(len(d.token_ids) for m in stream.messages for d in m.deltas), 8 * 60)
            cluster.wait_workers(1, 0)
            self.assertEqual(health(cluster.router, SERVICE), NOT_SERVING)
            self.assert_fails(grpc.StatusCode.UNAVAILABLE, "no pair", call=cluster.generate, prompt="x", max_tokens=3)
            self.assert_fails(grpc.StatusCode.NOT_FOUND, "no worker at", call=lambda: cluster.admin.DrainWorker(
                admin_pb2.DrainWorkerRequest(address="1.2.3.4:5")))

    def test_chats(self):
        reply = self.cluster.api.ListModels(inference_pb2.ListModelsRequest()).models[0]
        chat = [("user", "hi")]
        if reply.has_chat_template:
            self.assertGreater(self.cluster.generate(chat, max_tokens=3).reports[0].usage.prompt_tokens, 1)
        else:
            self.assert_fails(grpc.StatusCode.FAILED_PRECONDITION, "template", prompt=chat)


if __name__ == "__main__":
    unittest.main()
