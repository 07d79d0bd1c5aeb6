"""Deadlines of clients, and HTTP/2 pings: those that keep a quiet connection alive, and floods of them."""

import socket
import struct
import time
import unittest

from harness import DEMO, PATIENCE, Cluster, grpc, wait_for_stage, wait_until

PROMPT = [10 + i * 7 % 900 for i in range(100)]
ENDLESS = dict(max_tokens=100000, ignore_eos=True)

SETTINGS, PING, GOAWAY = 4, 6, 7
ACK = 1


class Deadlines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(DEMO, router_flags=["--max_running", "1", "--disaggregation=always"],
                              worker_flags=["--kv_gib", "0.1", "--prefix_cache=false"])

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def test_RPC_02_expired_requests_leave_the_queue_without_work(self):
        cluster = self.cluster
        holder = cluster.stream(PROMPT, n=16, **ENDLESS)  # the only place
        wait_for_stage(lambda: len(holder.messages) > 1, holder, "tokens")
        before = [w.metrics()["baton_prompt_tokens_total"] for w in cluster.prefill + cluster.decode]
        waiting = [cluster.stream(PROMPT, timeout=0.01 * (1 + i), max_tokens=20) for i in range(20)]
        for stream in waiting:
            self.assertEqual(stream.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
            self.assertEqual(stream.messages, [])
        wait_until(lambda: cluster.router.metrics()["baton_requests_waiting"] == 0, "an empty queue")
        self.assertFalse(holder.done.is_set())
        self.assertEqual([w.metrics()["baton_prompt_tokens_total"] for w in cluster.prefill + cluster.decode], before)
        holder.call.cancel()
        holder.wait()
        # Nothing is left of the burst: the next one is served at once.
        self.assertEqual(cluster.generate(PROMPT, max_tokens=2).reports[0].usage.completion_tokens, 2)
        cluster.assert_idle()

    def test_RPC_02_a_deadline_in_mid_stream_ends_the_work_and_leaves_the_client_what_it_has(self):
        seconds = 0.25
        while True:
            stream = self.cluster.stream(PROMPT, timeout=seconds, n=16, **ENDLESS)
            self.assertEqual(stream.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
            self.cluster.assert_idle()
            if stream.messages:
                return
            seconds *= 2  # this machine needs longer for a first token


class Pings(unittest.TestCase):
    """A client of HTTP/2 frames alone."""

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        self.socket = socket.create_connection(("127.0.0.1", self.cluster.router.port), timeout=PATIENCE)
        self.addCleanup(self.socket.close)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(SETTINGS, 0, b""))

    @staticmethod
    def frame(kind, flags, body):
        return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, 0) + body

    def read(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("closed")
            data += piece
        return data

    def next(self):
        """(type, flags, body) of the next frame."""
        header = self.read(9)
        return header[3], header[4], self.read(int.from_bytes(header[:3], "big"))

    def ping(self):
        """True when it was acknowledged, False at a GOAWAY."""
        self.socket.sendall(self.frame(PING, 0, b"12345678"))
        while True:
            kind, flags, _ = self.next()
            if kind == GOAWAY:
                return False
            if kind == PING and flags & ACK:
                return True

    def test_RPC_04_pings_on_a_quiet_connection_are_welcome(self):
        for _ in range(5):
            self.assertTrue(self.ping())
            time.sleep(1.2)  # what is tested is a rate: slower is welcome too

    def test_RPC_04_a_flood_of_pings_is_cut_off(self):
        try:
            self.assertFalse(all(self.ping() for _ in range(100)))
        except ConnectionError:
            pass  # closed right after its GOAWAY


if __name__ == "__main__":
    unittest.main()
