"""TLS on every hop: router and workers show certificates, and workers take only clients that show one of theirs."""

import os
import subprocess
import tempfile
import unittest

from harness import BIN, GOLDEN, PATIENCE, Process, grpc, inference_pb2, inference_pb2_grpc, make_request, wait_until


def make_certificates(folder, name="IP:127.0.0.1"):
    """A CA and one certificate for `name` signed by it."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, cwd=folder, capture_output=True)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=test ca", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=baton",
            "-keyout", "node.key", "-out", "node.csr")
    with open(os.path.join(folder, "san"), "w", encoding="ascii") as file:
        file.write(f"subjectAltName={name}")
    openssl("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "san", "-out", "node.pem")


class Tls(unittest.TestCase):
    def start(self, *arguments):
        process = Process(*arguments)
        self.addCleanup(process.popen.kill)  # for when the test fails; it stops them itself
        return process

    def test_generates_over_tls_and_refuses_strangers(self):
        with tempfile.TemporaryDirectory() as folder:
            make_certificates(folder)
            ca, certificate, key = (os.path.join(folder, name) for name in ("ca.pem", "node.pem", "node.key"))
            server = ["--tls_cert", certificate, "--tls_key", key]
            worker = ["--model", os.path.join(GOLDEN, "qwen2"), "--kv_gib", "0.02", "--threads", "1",
                      "--bandwidth_probe=false", *server, "--tls_ca", ca]
            workers = [self.start("baton-prefill", *worker), self.start("baton-decode", *worker)]
            router = self.start("baton-router", "--workers", ",".join(w.address for w in workers), *server,
                             "--worker_tls_cert", certificate, "--worker_tls_key", key, "--worker_tls_ca", ca,
                             "--disaggregation=always")
            with open(ca, "rb") as file:
                credentials = grpc.ssl_channel_credentials(file.read())
            api = inference_pb2_grpc.InferenceServiceStub(grpc.secure_channel(router.address, credentials))
            wait_until(lambda: any(m.prefill_workers and m.decode_workers for m in api.ListModels(
                inference_pb2.ListModelsRequest(), wait_for_ready=True, timeout=PATIENCE).models), "the workers over TLS")
            report = api.Generate(make_request([3] * 40, max_tokens=3), timeout=PATIENCE).reports[0]
            self.assertGreater(report.route.kv_bytes, 0)

            models = subprocess.run([os.path.join(BIN, "baton"), "models", "--router", router.address, "--tls_ca", ca, "--json"],
                                    capture_output=True, text=True, timeout=PATIENCE)
            self.assertIn('"ready":true', models.stdout, models.stderr)
            plain = inference_pb2_grpc.InferenceServiceStub(grpc.insecure_channel(router.address))
            with self.assertRaises(grpc.RpcError):
                plain.ListModels(inference_pb2.ListModelsRequest(), timeout=5)
            # A router without a certificate of its own is a stranger to the workers.
            stranger = self.start("baton-router", "--workers", workers[0].address, "--worker_tls_ca", ca)
            stranger.wait_log("worker is unreachable")
            for process in (stranger, router, *workers):
                self.assertEqual(process.stop(), 0, process.log_text())

    def test_a_certificate_is_checked_against_the_name_that_the_worker_was_found_by(self):
        with tempfile.TemporaryDirectory() as folder:
            make_certificates(folder, "DNS:localhost")
            ca, certificate, key = (os.path.join(folder, name) for name in ("ca.pem", "node.pem", "node.key"))
            worker = Process("baton-decode", "--model", os.path.join(GOLDEN, "qwen2"), "--kv_gib", "0.02", "--threads", "1",
                             "--bandwidth_probe=false", "--tls_cert", certificate, "--tls_key", key)
            worker.wait_log("ready")
            router = Process("baton-router", "--workers", f"localhost:{worker.port}", "--worker_tls_ca", ca)
            with grpc.insecure_channel(router.address) as channel:
                api = inference_pb2_grpc.InferenceServiceStub(channel)
                wait_until(lambda: any(m.ready for m in api.ListModels(
                    inference_pb2.ListModelsRequest(), wait_for_ready=True, timeout=PATIENCE).models), "the worker over TLS")
            stranger = Process("baton-router", "--workers", f"127.0.0.1:{worker.port}", "--worker_tls_ca", ca)
            stranger.wait_log("worker is unreachable")

            def health(*arguments):
                return subprocess.run([os.path.join(BIN, "baton"), "health", worker.address, *arguments, "--tls_ca", ca],
                                      capture_output=True, text=True, timeout=PATIENCE, check=False)
            probe = health("baton.internal.v1.DecodeService", "--tls_name", "localhost")
            self.assertEqual((probe.returncode, probe.stdout), (0, "SERVING\n"), probe.stderr)
            self.assertEqual(health().returncode, 1)
            for process in (stranger, router, worker):
                self.assertEqual(process.stop(), 0, process.log_text())


if __name__ == "__main__":
    unittest.main()
