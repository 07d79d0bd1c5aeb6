"""Calls of the workers' internal services, in the router's place: work starts, stays open and ends when a test says so."""

import threading

from harness import (PATIENCE, decode_pb2, decode_pb2_grpc, generation_pb2, grpc, prefill_pb2, prefill_pb2_grpc)


class InternalCall:
    """A Decode or Prefill call whose messages are given one by one; `hold` keeps its sending side open."""

    def __init__(self, worker, role, *commands, hold=True, channel=None):
        self._changed = threading.Condition()
        self._commands = list(commands)
        self._hold = hold
        self._channel = channel or grpc.insecure_channel(worker.address)
        if role == "decode":
            self.call = decode_pb2_grpc.DecodeServiceStub(self._channel).Decode(self._send(), timeout=10 * PATIENCE)
        else:
            self.call = prefill_pb2_grpc.PrefillServiceStub(self._channel).Prefill(self._send(), timeout=10 * PATIENCE)

    def _send(self):
        sent = 0
        while True:
            with self._changed:
                while sent == len(self._commands):
                    if not self._hold:
                        return
                    self._changed.wait()
                command = self._commands[sent]
            sent += 1
            yield command

    def send(self, command):
        with self._changed:
            self._commands.append(command)
            self._changed.notify()

    def until(self, event):
        """The next `event`; what comes before it is dropped."""
        for response in self.call:
            if response.WhichOneof("event") == event:
                return getattr(response, event)
        raise AssertionError(f"the call ended before '{event}': {self.call.details()}")

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
        with self._changed:
            self._hold = False
            self._changed.notify()

    def cancel(self):
        self.call.cancel()
        self.stop_sending()


def work_for(worker, prompt=tuple(range(3, 83)), choices=1, max_tokens=20):
    """Greedy work for this process of the worker."""
    work = generation_pb2.Work(request_id="internal", attempt=7, prompt=prompt,
                               worker_incarnation=int(worker.wait_log("listening")["incarnation"], 16))
    for index in range(choices):
        work.choices.add(index=index)
    work.sampling.max_tokens, work.sampling.ignore_eos = max_tokens, True
    work.sampling.top_p = work.sampling.repetition_penalty = 1
    return work


def reserve(worker, **work):
    """A decode call that has its lease, which nobody will ever commit."""
    call = InternalCall(worker, "decode", decode_pb2.DecodeRequest(reserve=work_for(worker, **work)))
    call.offer = call.until("reserved").offer
    return call


def start_prefill(worker, **work):
    """A prefill call that has begun and waits for its lease for ever."""
    call = InternalCall(worker, "prefill", prefill_pb2.PrefillRequest(start=work_for(worker, **work)))
    next(call.call)
    return call
