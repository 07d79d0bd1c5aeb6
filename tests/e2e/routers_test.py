"""Several routers over the same workers, routers that die, and names that stand for several workers."""

import os
import subprocess
import tempfile
import threading
import unittest

from harness import (BIN, DEMO, GOLDEN, PATIENCE, Cluster, Process, Stream, grpc, inference_pb2, inference_pb2_grpc,
                     make_request, wait_for_stage, wait_until)

PROMPT = [10 + i * 7 % 900 for i in range(200)]
LONG = dict(n=4, max_tokens=1500, ignore_eos=True, temperature=0.8, seed=3)


class TwoRouters(unittest.TestCase):
    def setUp(self):
        # Prefix hits would change the usage that is compared, not the tokens.
        self.cluster = Cluster(DEMO, worker_flags=["--kv_gib", "0.1", "--prefix_cache=false"],
                               router_flags=["--disaggregation=always"])
        self.second = Process("baton-router", "--workers",
                              ",".join(w.address for w in self.cluster.prefill + self.cluster.decode), "--disaggregation=always")
        self.cluster.started.append(self.second)
        self.api = inference_pb2_grpc.InferenceServiceStub(grpc.insecure_channel(self.second.address))
        wait_until(lambda: any(m.prefill_workers and m.decode_workers for m in self.api.ListModels(
            inference_pb2.ListModelsRequest(), wait_for_ready=True, timeout=PATIENCE).models), "the second router's workers")

    def tearDown(self):
        self.cluster.close()

    def stream_at_the_second(self, **sampling):
        request = inference_pb2.StreamGenerateRequest(request=make_request(PROMPT, **sampling))
        return Stream(self.api.StreamGenerate(request, timeout=10 * PATIENCE))

    def test_both_serve_at_the_same_time(self):
        short = dict(n=2, max_tokens=30, ignore_eos=True, temperature=0.8)
        expected = [self.cluster.generate(PROMPT, seed=i, **short).choices for i in range(8)]
        results = {}

        def ask(router, seed):
            stream = self.cluster.stream(PROMPT, seed=seed, **short) if router == 0 else self.stream_at_the_second(seed=seed, **short)
            results[router, seed] = stream.result().choices
        threads = [threading.Thread(target=ask, args=(router, seed)) for router in range(2) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for router in range(2):
            self.assertEqual([list(results[router, seed]) for seed in range(8)], [list(choices) for choices in expected])
        self.cluster.assert_idle()

    def test_a_killed_routers_work_is_given_back_and_the_others_goes_on(self):
        expected = self.cluster.generate(PROMPT, **LONG).choices
        doomed = [self.stream_at_the_second(**LONG) for _ in range(4)]
        wait_for_stage(lambda: all(len(s.messages) > 2 for s in doomed), doomed, "tokens of the second router")
        kept = self.cluster.stream(PROMPT, **LONG)
        wait_for_stage(lambda: len(kept.messages) > 2, kept, "tokens of the first router")
        self.assertFalse(any(s.done.is_set() for s in doomed), "the router dies with work under way")
        self.second.kill()
        for stream in doomed:
            self.assertEqual(stream.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(kept.result().choices, expected)
        self.cluster.assert_idle()

    def test_a_router_killed_while_prompts_are_handed_over_leaves_no_lease(self):
        with Cluster(DEMO, worker_flags=["--chunk_tokens", "1", "--kv_gib", "0.1", "--prefix_cache=false"],
                     router_flags=["--disaggregation=always"]) as cluster:
            streams = [cluster.stream(PROMPT * 9, n=2, max_tokens=20) for _ in range(4)]
            wait_for_stage(lambda: cluster.decode[0].metrics()["baton_leases_open"] > 0, streams, "a lease")
            cluster.router.kill()
            for stream in streams:
                self.assertEqual(stream.code(), grpc.StatusCode.UNAVAILABLE)
            cluster.assert_workers_idle()


def start_with_hosts(hosts, program, *flags):
    """A program that sees `hosts` (a path) as its /etc/hosts; skips the test where that may not be done."""
    enter = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]
    if subprocess.run([*enter, "true"], check=False, capture_output=True).returncode != 0:
        raise unittest.SkipTest("this machine allows no mounts of one's own")
    return Process("/usr/bin/env", *enter, os.path.join(BIN, program), *flags)


class Names(unittest.TestCase):
    """Two decode workers on one port of two addresses."""

    def start(self, role, host, port=0):
        worker = Process(f"baton-{role}", "--model", os.path.join(GOLDEN, "qwen2"), "--kv_gib", "0.02", "--threads", "1",
                         "--bandwidth_probe=false", "--engine_probe=false", "--host", host, "--port", str(port))
        self.addCleanup(worker.stop)
        worker.wait_log("ready")
        return worker

    def ask(self, router, count):
        """Addresses of the decode workers that served as many requests at a time."""
        api = inference_pb2_grpc.InferenceServiceStub(grpc.insecure_channel(router.address))
        calls = [api.Generate.future(make_request([5 + i] * 20, max_tokens=3), timeout=PATIENCE) for i in range(count)]
        return {call.result().reports[0].route.decode_worker for call in calls}

    def start_decode_pair(self):
        first = self.start("decode", "127.0.0.1")
        return first, self.start("decode", "127.0.0.2", first.port)

    def decode_workers(self, router, count):
        wait_until(lambda: router.metrics()['baton_workers_ready{worker_role="decode"}'] == count, f"{count} decode workers")

    def test_a_list_of_addresses(self):
        first, second = self.start_decode_pair()
        addresses = {f"127.0.0.1:{first.port}", f"127.0.0.2:{second.port}"}
        router = Process("baton-router", "--workers", ",".join(sorted(addresses)))
        self.addCleanup(router.stop)
        self.decode_workers(router, 2)
        wait_until(lambda: self.ask(router, 8) == addresses, "both serve")
        self.assertEqual(first.stop(), 0)
        self.decode_workers(router, 1)
        self.assertEqual(self.ask(router, 8), {f"127.0.0.2:{second.port}"})

    def test_a_name_stands_for_all_its_addresses_and_is_resolved_again(self):
        with tempfile.TemporaryDirectory() as folder:
            hosts = os.path.join(folder, "hosts")

            def point_to(*addresses):
                with open(hosts, "w", encoding="ascii") as file:  # the same file: it is what the router sees
                    file.writelines(f"{address} workers.baton.test\n" for address in ("127.0.0.9", *addresses))
            point_to("127.0.0.1")
            first, second = self.start_decode_pair()
            router = start_with_hosts(hosts, "baton-router", "--resolve_seconds", "0.1", "--workers",
                                      f"workers.baton.test:{first.port}")
            self.addCleanup(router.stop)
            self.decode_workers(router, 1)  # nobody listens at 127.0.0.9
            point_to("127.0.0.1", "127.0.0.2")
            self.decode_workers(router, 2)
            wait_until(lambda: len(self.ask(router, 8)) == 2, "both serve")
            point_to("127.0.0.2")
            self.assertEqual(first.stop(), 0)
            self.decode_workers(router, 1)
            self.assertEqual(self.ask(router, 8), {f"127.0.0.2:{second.port}"})


if __name__ == "__main__":
    unittest.main()
