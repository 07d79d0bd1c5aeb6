"""A prefill worker that could not tell the decode worker that its writes are over lets the router say so."""

import concurrent.futures
import unittest

from harness import (PATIENCE, Cluster, Process, grpc, inference_pb2, inference_pb2_grpc, make_request, prefill_pb2,
                     prefill_pb2_grpc, wait_until, worker_pb2_grpc)


class OwingPrefill(prefill_pb2_grpc.PrefillServiceServicer, worker_pb2_grpc.WorkerServiceServicer):
    """Says of itself what a real prefill worker says, takes every lease, and owes every fence."""

    def __init__(self, worker):
        self.worker = worker_pb2_grpc.WorkerServiceStub(grpc.insecure_channel(worker.address))
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        prefill_pb2_grpc.add_PrefillServiceServicer_to_server(self, self.server)
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def WatchState(self, request, context):
        states = self.worker.WatchState(request)
        context.add_callback(states.cancel)
        try:
            yield from states
        except grpc.RpcError:
            pass

    def GetModelText(self, request, context):
        return self.worker.GetModelText(request)

    def Prefill(self, requests, context):
        attempt = next(requests).start.attempt
        yield prefill_pb2.PrefillResponse(attempt=attempt, started={})
        next(requests)  # the lease
        yield prefill_pb2.PrefillResponse(attempt=attempt, done=prefill_pb2.PrefillDone(
            outcome=prefill_pb2.HANDOFF_OUTCOME_FAILED, reason="the connection is lost", fence_owed=True))


class RelayedFence(unittest.TestCase):
    def test_reaches_the_decode_worker_though_the_attempt_has_failed(self):
        with Cluster(prefill=1, decode=1, decode_flags=["--lease_seconds", "3000"]) as cluster:
            decode = cluster.decode[0]
            owing = OwingPrefill(cluster.prefill[0])
            router = Process("baton-router", "--workers", f"{owing.address},{decode.address}", "--disaggregation=always")
            cluster.started.append(router)
            api = inference_pb2_grpc.InferenceServiceStub(grpc.insecure_channel(router.address))
            wait_until(lambda: any(m.prefill_workers and m.decode_workers for m in api.ListModels(
                inference_pb2.ListModelsRequest(), wait_for_ready=True, timeout=PATIENCE).models), "both workers")
            for i in range(20):
                fenced = decode.metrics()['baton_handoffs_total{outcome="fenced"}']
                report = api.Generate(make_request([5 + i] * 40, max_tokens=3, ignore_eos=True), timeout=PATIENCE).reports[0]
                self.assertEqual(report.usage.completion_tokens, 3)
                self.assertEqual(report.route.attempts, 2)
                wait_until(lambda: decode.metrics()["baton_leases_open"] == 0, "the lease is over")
                self.assertEqual(decode.metrics()['baton_handoffs_total{outcome="fenced"}'], fenced + 1)
            self.assertEqual(decode.metrics()['baton_handoffs_total{outcome="cancelled"}'], 0)
            cluster.assert_idle()
            self.assertEqual(router.stop(), 0)
            owing.server.stop(None).wait(PATIENCE)


if __name__ == "__main__":
    unittest.main()
