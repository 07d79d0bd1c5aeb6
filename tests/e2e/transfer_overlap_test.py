"""Transfer overlaps prefill: blocks of a chunk travel while the next one computes. Plays the router's part itself, so
that it sees the workers' own timestamps."""

import unittest

from harness import DEMO, Cluster, prefill_pb2
from internal_calls import reserve, start_prefill

TOKENS, CHUNK, TRIES = 1600, 200, 5


class TransferOverlap(unittest.TestCase):
    def handoff(self, cluster, attempt):
        work = dict(prompt=[10 + (i + attempt) * 7 % 500 for i in range(TOKENS)], max_tokens=3)
        decode = reserve(cluster.decode[0], **work)
        prefill = start_prefill(cluster.prefill[0], **work)
        prefill.send(prefill_pb2.PrefillRequest(lease=prefill_pb2.PrefillLease(offer=decode.offer)))
        done = prefill.until("done")
        decode.until("committed")
        decode.until("done")
        prefill.end()
        decode.end()
        cluster.assert_idle()
        return done

    def overlaps(self, done):
        """What must always hold is asserted; what a machine with other things to do may spoil is returned."""
        self.assertEqual(done.outcome, prefill_pb2.HANDOFF_OUTCOME_COMMITTED, done.reason)
        self.assertEqual(done.blocks, TOKENS // 16)
        chunks = list(done.chunks)
        self.assertGreaterEqual(len(chunks), 4)
        for chunk in chunks:
            self.assertGreaterEqual(chunk.put_started, chunk.computed, "a chunk travels after it was computed")
        overlapped = sum(this.put_started < following.computed  # while the next one computed
                         for this, following in zip(chunks, chunks[1:]))
        for chunk in chunks:
            print(f"  computed {chunk.computed * 1e3:8.2f} ms   put {chunk.put_started * 1e3:8.2f} to "
                  f"{chunk.put_flushed * 1e3:8.2f} ms   {chunk.blocks} blocks")
        whole = chunks[-1].put_flushed - chunks[0].put_started
        self.assertLessEqual(done.transfer_seconds, sum(c.put_flushed - c.put_started for c in chunks) + 1e-6)
        print(f"  {done.transport}: {done.bytes} bytes under way for {done.transfer_seconds * 1e3:.2f} ms within "
              f"{whole * 1e3:.2f} ms, tail {done.tail_seconds * 1e3:.2f} ms")
        return overlapped >= len(chunks) // 2 and done.tail_seconds < whole

    def check(self, *transport_flags):
        with Cluster(DEMO, worker_flags=["--chunk_tokens", str(CHUNK), "--kv_gib", "0.1", "--prefix_cache=false",
                                         *transport_flags]) as cluster:
            self.assertTrue(any(self.overlaps(self.handoff(cluster, attempt)) for attempt in range(TRIES)),
                            "puts of most chunks start while the next one computes, and what is left after the last "
                            "chunk is a part of the whole transfer")

    def test_shared_memory(self):
        self.check()

    def test_tcp(self):
        self.check("--ucx_tls", "tcp,self")


if __name__ == "__main__":
    unittest.main()
