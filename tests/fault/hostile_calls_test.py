"""Internal services called by somebody who does not keep to the protocol: refused, nothing leaks, nobody dies."""

import threading
import unittest

from harness import (Cluster, decode_pb2, decode_pb2_grpc, generation_pb2, grpc, prefill_pb2, prefill_pb2_grpc,
                     wait_until, worker_pb2, worker_pb2_grpc)

PATIENCE = 60


class Call:
    """A Decode or Prefill call whose messages are given one by one; `hold` keeps its sending side open."""

    def __init__(self, worker, role, *commands, hold=True):
        self.changed = threading.Condition()
        self.commands = list(commands)
        self.hold = hold
        self.channel = grpc.insecure_channel(worker.address)
        if role == "decode":
            self.call = decode_pb2_grpc.DecodeServiceStub(self.channel).Decode(self._send(), timeout=PATIENCE)
        else:
            self.call = prefill_pb2_grpc.PrefillServiceStub(self.channel).Prefill(self._send(), timeout=PATIENCE)

    def _send(self):
        sent = 0
        while True:
            with self.changed:
                while sent == len(self.commands):
                    if not self.hold:
                        return
                    self.changed.wait()
                command = self.commands[sent]
            sent += 1
            yield command

    def send(self, command):
        with self.changed:
            self.commands.append(command)
            self.changed.notify()

    def end(self):
        """Status code of the call after reading all it says."""
        try:
            for _ in self.call:
                pass
        except grpc.RpcError:
            pass
        self.stop_sending()
        return self.call.code()

    def stop_sending(self):
        with self.changed:
            self.hold = False
            self.changed.notify()

    def cancel(self):
        self.call.cancel()
        self.stop_sending()


def work_for(worker, choices=1, max_tokens=20):
    work = generation_pb2.Work(request_id="hostile", attempt=7, prompt=list(range(3, 83)),
                               worker_incarnation=int(worker.wait_log("listening")["incarnation"], 16))
    for index in range(choices):
        work.choices.add(index=index)
    work.sampling.max_tokens, work.sampling.ignore_eos = max_tokens, True
    work.sampling.top_p = work.sampling.repetition_penalty = 1
    return work


class HostileCalls(unittest.TestCase):
    def setUp(self):
        # Leases and prompts that only what a test does can end.
        self.cluster = Cluster(decode_flags=["--lease_seconds", "3000"])

    def tearDown(self):
        self.cluster.close()

    def test_calls_to_a_draining_worker_are_refused_and_it_lives_until_its_work_has_ended(self):
        decode, prefill = self.cluster.decode[0], self.cluster.prefill[0]
        for worker, role, first in (
                (decode, "decode", decode_pb2.DecodeRequest(reserve=work_for(decode))),
                (prefill, "prefill", prefill_pb2.PrefillRequest(start=work_for(prefill)))):
            with self.subTest(role=role):
                held = Call(worker, role, first)
                next(held.call)  # reserved or started: open work that no drain can finish
                with grpc.insecure_channel(worker.address) as channel:
                    worker_pb2_grpc.WorkerServiceStub(channel).Drain(worker_pb2.DrainRequest(), timeout=PATIENCE)
                wait_until(lambda: Call(worker, role, hold=False).end() == grpc.StatusCode.UNAVAILABLE, "it drains")
                for _ in range(20):
                    self.assertEqual(Call(worker, role, first).end(), grpc.StatusCode.UNAVAILABLE)
                self.assertTrue(worker.alive)
                held.cancel()
                self.assertEqual(worker.popen.wait(PATIENCE), 0)

    def test_a_call_that_says_nothing_ends(self):
        for worker, role in ((self.cluster.decode[0], "decode"), (self.cluster.prefill[0], "prefill")):
            with self.subTest(role=role):
                self.assertEqual(Call(worker, role, hold=False).end(), grpc.StatusCode.INVALID_ARGUMENT)
        self.cluster.assert_idle()

    def test_a_second_start_ends_the_call_and_what_the_first_began(self):
        decode, prefill = self.cluster.decode[0], self.cluster.prefill[0]
        for worker, role, start in (
                (decode, "decode", decode_pb2.DecodeRequest(reserve=work_for(decode))),
                (decode, "decode", decode_pb2.DecodeRequest(local=work_for(decode, choices=64, max_tokens=40))),
                (prefill, "prefill", prefill_pb2.PrefillRequest(start=work_for(prefill)))):
            with self.subTest(role=role, start=start.WhichOneof("command")):
                call = Call(worker, role, start)
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
                self.assertIn(Call(decode, "decode", *commands).end(),
                              (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAVAILABLE))
        for offer in (b"", b"x", bytes(range(256)) * 40):
            with self.subTest(offer=len(offer)):
                call = Call(prefill, "prefill", prefill_pb2.PrefillRequest(start=work_for(prefill)),
                            prefill_pb2.PrefillRequest(lease={"offer": offer}))
                self.assertEqual(call.end(), grpc.StatusCode.INVALID_ARGUMENT)
        for _ in range(200):
            call = Call(decode, "decode", stage(reserve=good))
            call.cancel()
        wait_until(lambda: decode.metrics()["baton_leases_open"] == 0, "no lease is left")
        self.cluster.assert_idle()
        self.assertEqual(self.cluster.generate([5, 6], max_tokens=2).reports[0].usage.completion_tokens, 2)


if __name__ == "__main__":
    unittest.main()
