"""Internal services called by somebody who does not keep to the protocol: refused, nothing leaks, nobody dies."""

import unittest

from harness import (PATIENCE, Cluster, decode_pb2, generation_pb2, grpc, prefill_pb2, wait_until, worker_pb2,
                     worker_pb2_grpc)
from internal_calls import InternalCall, reserve, start_prefill, work_for


class HostileCalls(unittest.TestCase):
    def setUp(self):
        # Leases, prompts and drains that only what a test does can end.
        self.cluster = Cluster(worker_flags=["--grace_seconds", "3000"], decode_flags=["--lease_seconds", "3000"])

    def tearDown(self):
        self.cluster.close()

    def test_calls_to_a_draining_worker_are_refused_and_it_lives_until_its_work_has_ended(self):
        decode, prefill = self.cluster.decode[0], self.cluster.prefill[0]
        for worker, role, begin, first in (
                (decode, "decode", reserve, decode_pb2.DecodeRequest(reserve=work_for(decode))),
                (prefill, "prefill", start_prefill, prefill_pb2.PrefillRequest(start=work_for(prefill)))):
            with self.subTest(role=role):
                held = begin(worker)  # open work that no drain can finish
                with grpc.insecure_channel(worker.address) as channel:
                    worker_pb2_grpc.WorkerServiceStub(channel).Drain(worker_pb2.DrainRequest(), timeout=PATIENCE)
                wait_until(lambda: InternalCall(worker, role, hold=False).end() == grpc.StatusCode.UNAVAILABLE, "it drains")
                for _ in range(20):
                    self.assertEqual(InternalCall(worker, role, first).end(), grpc.StatusCode.UNAVAILABLE)
                self.assertTrue(worker.alive)
                held.cancel()
                self.assertEqual(worker.popen.wait(PATIENCE), 0)

    def test_a_call_that_says_nothing_ends(self):
        for worker, role in ((self.cluster.decode[0], "decode"), (self.cluster.prefill[0], "prefill")):
            with self.subTest(role=role):
                self.assertEqual(InternalCall(worker, role, hold=False).end(), grpc.StatusCode.INVALID_ARGUMENT)
        self.cluster.assert_idle()

    def test_a_second_start_ends_the_call_and_what_the_first_began(self):
        decode, prefill = self.cluster.decode[0], self.cluster.prefill[0]
        for worker, role, start in (
                (decode, "decode", decode_pb2.DecodeRequest(reserve=work_for(decode))),
                (decode, "decode", decode_pb2.DecodeRequest(local=work_for(decode, choices=64, max_tokens=40))),
                (prefill, "prefill", prefill_pb2.PrefillRequest(start=work_for(prefill)))):
            with self.subTest(role=role, start=start.WhichOneof("command")):
                call = InternalCall(worker, role, start)
                next(call.call)
                call.send(start)
                # A local run may have ended by itself before it could be spoilt.
                self.assertIn(call.end(), (grpc.StatusCode.INVALID_ARGUMENT,
                                           *[grpc.StatusCode.OK] * (start.WhichOneof("command") == "local")))
                self.cluster.assert_idle()

    def test_wrong_commands_in_any_stage_leave_nothing_behind(self):
        decode, prefill = self.cluster.decode[0], self.cluster.prefill[0]
        good = work_for(decode)
        wrong_incarnation, no_choices, foreign_token, many = (generation_pb2.Work() for _ in range(4))
        for work in (wrong_incarnation, no_choices, foreign_token, many):
            work.CopyFrom(good)
        wrong_incarnation.worker_incarnation ^= 1
        no_choices.ClearField("choices")
        foreign_token.prompt.append(1 << 30)
        many.choices.extend(generation_pb2.ChoiceStart(index=i) for i in range(100000))
        stage = decode_pb2.DecodeRequest
        for name, commands in (
                ("empty", [stage()]),
                ("wrong incarnation", [stage(reserve=wrong_incarnation)]),
                ("no choices", [stage(local=no_choices)]),
                ("a token outside of the vocabulary", [stage(reserve=foreign_token)]),
                ("100,000 choices", [stage(reserve=many)]),
                ("renew, fence and stop without a lease",
                 [stage(renew={}), stage(fence={}), stage(stop_choice={"choice": 4000000000}), stage()])):
            with self.subTest(decode=name):
                self.assertIn(InternalCall(decode, "decode", *commands).end(),
                              (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAVAILABLE))
        for offer in (b"", b"x", bytes(range(256)) * 40):
            with self.subTest(offer=len(offer)):
                call = InternalCall(prefill, "prefill", prefill_pb2.PrefillRequest(start=work_for(prefill)),
                                    prefill_pb2.PrefillRequest(lease={"offer": offer}))
                self.assertEqual(call.end(), grpc.StatusCode.INVALID_ARGUMENT)
        for _ in range(200):
            call = InternalCall(decode, "decode", stage(reserve=good))
            call.cancel()
        wait_until(lambda: decode.metrics()["baton_leases_open"] == 0, "no lease is left")
        self.cluster.assert_idle()
        self.assertEqual(self.cluster.generate([5, 6], max_tokens=2).reports[0].usage.completion_tokens, 2)


if __name__ == "__main__":
    unittest.main()
