"""Transfer overlaps prefill: blocks of a chunk travel while the next one computes. Plays the router's part itself, so
that it sees the workers' own timestamps."""

import queue
import unittest

from harness import (DEMO, PATIENCE, Cluster, decode_pb2, decode_pb2_grpc, generation_pb2, grpc, prefill_pb2,
                     prefill_pb2_grpc, worker_pb2, worker_pb2_grpc)

TOKENS, CHUNK = 1600, 200


class Call:
    """A bidirectional call whose requests are sent one by one."""

    def __init__(self, method):
        self._requests = queue.Queue()
        self.responses = method(iter(self._requests.get, None), timeout=2 * PATIENCE)

    def send(self, message):
        self._requests.put(message)

    def until(self, event):
        for response in self.responses:
            if response.WhichOneof("event") == event:
                return getattr(response, event)
        raise AssertionError(f"the call ended before '{event}': {self.responses.details()}")

    def close(self):
        self._requests.put(None)


def incarnation(channel):
    stream = worker_pb2_grpc.WorkerServiceStub(channel).WatchState(worker_pb2.WatchStateRequest(protocol_version=1),
                                                                   timeout=PATIENCE)
    return next(stream).identity.incarnation


class TransferOverlap(unittest.TestCase):
    def handoff(self, *transport_flags):
        with Cluster(model=DEMO, worker_flags=["--chunk_tokens", str(CHUNK), "--kv_gib", "0.1", *transport_flags]) as cluster:
            channels = [grpc.insecure_channel(w.address) for w in (cluster.prefill[0], cluster.decode[0])]
            prefill = Call(prefill_pb2_grpc.PrefillServiceStub(channels[0]).Prefill)
            decode = Call(decode_pb2_grpc.DecodeServiceStub(channels[1]).Decode)

            def work(channel):
                return generation_pb2.Work(
                    request_id="overlap", attempt=1, worker_incarnation=incarnation(channel),
                    prompt=[10 + i * 7 % 500 for i in range(TOKENS)], choices=[generation_pb2.ChoiceStart(index=0)],
                    sampling=generation_pb2.Sampling(max_tokens=3, top_p=1, repetition_penalty=1, ignore_eos=True))

            decode.send(decode_pb2.DecodeRequest(reserve=work(channels[1])))
            offer = decode.until("reserved").offer
            prefill.send(prefill_pb2.PrefillRequest(start=work(channels[0])))
            prefill.send(prefill_pb2.PrefillRequest(lease=prefill_pb2.PrefillLease(offer=offer)))
            done = prefill.until("done")
            decode.until("committed")
            decode.until("done")
            prefill.close()
            decode.close()
            for channel in channels:
                channel.close()
            cluster.assert_idle()
            return done

    def check(self, done):
        self.assertEqual(done.outcome, prefill_pb2.HANDOFF_OUTCOME_COMMITTED, done.reason)
        self.assertEqual(done.blocks, TOKENS // 16)
        chunks = list(done.chunks)
        self.assertGreaterEqual(len(chunks), 4)
        overlapped = 0
        for this, following in zip(chunks, chunks[1:]):
            self.assertGreaterEqual(this.put_started, this.computed, "a chunk travels after it was computed")
            overlapped += this.put_started < following.computed  # while the next one computed
        for chunk in chunks:
            print(f"  computed {chunk.computed * 1e3:8.2f} ms   put {chunk.put_started * 1e3:8.2f} to "
                  f"{chunk.put_flushed * 1e3:8.2f} ms   {chunk.blocks} blocks")
        print(f"  {done.transport}: {done.bytes} bytes, transfer {done.transfer_seconds * 1e3:.2f} ms, tail "
              f"{done.tail_seconds * 1e3:.2f} ms ({done.tail_seconds / done.transfer_seconds:.1%} of it)")
        self.assertGreaterEqual(overlapped, len(chunks) // 2, "puts of most chunks start while the next one computes")
        self.assertLess(done.tail_seconds, done.transfer_seconds, "what is left after the last chunk is a part of the whole")

    def test_shared_memory(self):
        self.check(self.handoff())

    def test_tcp(self):
        self.check(self.handoff("--ucx_tls", "tcp,self"))


if __name__ == "__main__":
    unittest.main()
