"""The program `baton` against a real cluster."""

import json
import os
import pty
import signal
import subprocess
import unittest

import harness


def start(*arguments, router, stdin=subprocess.PIPE):
    environment = dict(os.environ, BATON_ROUTER=router)
    return subprocess.Popen([os.path.join(harness.BIN, "baton"), *arguments], stdin=stdin,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = harness.Cluster(router_flags=("--disaggregation", "always"))

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def baton(self, *arguments, stdin="", status=0):
        """Standard output and standard error of a call that must end with `status`."""
        process = start(*arguments, router=self.cluster.router.address)
        out, err = process.communicate(stdin, timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, status, err)
        return out, err

    def test_models_tells_readiness_in_one_line(self):
        out, _ = self.baton("models", "--json")
        self.assertEqual(out.count("\n"), 1)
        self.assertIn('"ready":true', out)
        self.assertTrue(json.loads(out)["models"][0]["has_chat_template"])

    def test_health_answers_with_its_exit_status(self):
        decode = self.cluster.decode[0].address
        self.assertEqual(self.baton("health", decode)[0], "SERVING\n")
        self.assertEqual(self.baton("health", decode, "baton.internal.v1.DecodeService")[0], "SERVING\n")
        self.assertIn("NOT_FOUND", self.baton("health", decode, "baton.v1.InferenceService", status=1)[1])
        self.assertIn("UNAVAILABLE", self.baton("health", "127.0.0.1:1", status=1)[1])
        alone = harness.Process("baton-router", "--workers", "127.0.0.1:1")
        out, _ = self.baton("health", alone.address, "baton.v1.InferenceService", status=1)
        self.assertEqual(out, "NOT_SERVING\n")
        self.assertEqual(alone.stop(), 0)

    def test_generate_prints_the_text_of_the_api(self):
        expected = self.cluster.generate("hello world", temperature=0, max_tokens=12).choices[0].text
        out, _ = self.baton("generate", "--temperature", "0", "--max_tokens", "12", "hello", "world")
        self.assertEqual(out, expected + "\n")
        out, _ = self.baton("generate", "--temperature", "0", "--max_tokens", "12", "--no_stream", "-", stdin="hello world\n")
        self.assertEqual(out, expected + "\n")

    def test_stats_tell_the_route_and_what_moved(self):
        prompt = "what moved between the workers " * 2
        _, err = self.baton("generate", "--max_tokens", "6", "--ignore_eos", "--stats", prompt)
        self.assertIn(f"{self.cluster.prefill[0].address} -> {self.cluster.decode[0].address} (policy)", err)
        self.assertRegex(err, r"KV moved +[\d.]+ KiB over ucx/")
        self.assertRegex(err, r"ITL +mean .* p50 .* p99 ")

    def test_json_lines_carry_deltas_and_a_report(self):
        out, _ = self.baton("generate", "--json", "--n", "2", "--seed", "7", "--temperature", "1", "--max_tokens", "5",
                            "--ignore_eos", "hello")
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(lines[0]["type"], "start")
        self.assertEqual(lines[0]["seed"], 7)
        expected = self.cluster.generate("hello", n=2, seed=7, temperature=1, max_tokens=5, ignore_eos=True)
        for choice in expected.choices:
            ids = [i for l in lines if l["type"] == "delta" and l["index"] == choice.index for i in l["token_ids"]]
            self.assertEqual(ids, list(choice.token_ids))
        self.assertEqual(lines[-1]["type"], "report")
        self.assertEqual(lines[-1]["usage"]["completion_tokens"], 10)

    def test_choices_are_shown_apart(self):
        out, _ = self.baton("generate", "--n", "2", "--max_tokens", "3", "hello")
        self.assertLess(out.index("=== choice 0 ==="), out.index("=== choice 1 ==="))

    def test_errors_are_one_line_with_the_violations(self):
        out, err = self.baton("generate", "--top_p", "7", "--temperature", "-2", "hello", status=1)
        self.assertEqual(out, "")
        self.assertEqual(err.count("\n"), 1)
        self.assertTrue(err.startswith("baton: INVALID_ARGUMENT: "))
        self.assertIn("sampling.top_p: is 7", err)
        _, err = self.baton("generate", "--model", "other", "hello", status=1)
        self.assertIn("NOT_FOUND", err)
        _, err = self.baton("generate", "--max_tokens", "many", "hello", status=2)
        self.assertIn("--max_tokens", err)
        _, err = self.baton("generat", "hello", status=2)
        self.assertIn("'generat'", err)

    def test_logit_bias_decides_what_is_said(self):
        flags = ("--temperature", "0", "--max_tokens", "4", "--ignore_eos")
        out, _ = self.baton("generate", "--json", *flags, "--logit_bias", "7=-100", "--logit_bias", "9=100", "hello")
        ids = [i for line in out.splitlines() for i in json.loads(line).get("token_ids", ())]
        self.assertEqual(ids, [9] * 4)
        said = self.cluster.generate([("user", "hello")], max_tokens=4, ignore_eos=True, logit_bias={9: 100}, temperature=0)
        out, _ = self.baton("chat", *flags, "--logit_bias", "9=100", stdin="hello\n")
        self.assertEqual(out, said.choices[0].text + "\n")

    def test_a_logit_bias_that_cannot_be_is_refused_with_what_may_be(self):
        for bias, said in (("5", "must be ID=VALUE"), ("=1", "'' is no whole number from 0 to 2147483647"),
                           ("-1=1", "'-1' is no whole number"), ("5=", "'' is no number from -100 to 100"),
                           ("5=100.5", "'100.5' is no number from -100 to 100"), ("5=nan", "'nan' is no number")):
            _, err = self.baton("generate", "--logit_bias", bias, "hello", status=2)
            self.assertIn(f"--logit_bias: '{bias}'", err)
            self.assertIn(said, err)
        _, err = self.baton("chat", "--logit_bias", "5=1", "--logit_bias", "5=2", status=2)
        self.assertIn("token 5 has 1", err)
        _, err = self.baton("generate", "--logit_bias", "999999=1", "hello", status=1)
        self.assertRegex(err, r"sampling.logit_bias: has token 999999, the vocabulary has 0 to \d+")

    def test_chat_over_a_pipe_remembers_and_resets(self):
        # Every turn is decided by the whole conversation, so equal answers mean equal conversations.
        lines = "first\nsecond\n/reset\nfirst\n/quit\nnever asked\n"
        out, _ = self.baton("chat", "--temperature", "0", "--max_tokens", "4", "--ignore_eos", "--seed", "1", stdin=lines)
        first = self.cluster.generate([("user", "first")], temperature=0, max_tokens=4, ignore_eos=True).choices[0].text
        second = self.cluster.generate([[("user", "first"), ("assistant", first), ("user", "second")]], temperature=0,
                                       max_tokens=4, ignore_eos=True).choices[0].text
        self.assertEqual(out, f"{first}\n{second}\n{first}\n")

    def test_interrupt_cancels_the_call(self):
        with self.cluster.decode[0].paused():  # so that the answer cannot come before the interrupt
            process = start("generate", "--max_tokens", "50", "--ignore_eos", "interrupt me",
                            router=self.cluster.router.address)
            harness.wait_until(lambda: self.cluster.router.metrics()["baton_requests_running"] == 1, "the call runs")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 130)
        self.cluster.assert_idle()

    def test_interrupt_in_a_chat_at_a_terminal_stops_the_answer_alone(self):
        terminal, stdin = pty.openpty()
        process = start("chat", "--temperature", "0", "--max_tokens", "8", "--ignore_eos",
                        router=self.cluster.router.address, stdin=stdin)
        os.close(stdin)
        with self.cluster.decode[0].paused():
            os.write(terminal, b"this answer is stopped\n")
            running = lambda: self.cluster.router.metrics()["baton_requests_running"]
            harness.wait_until(lambda: running() == 1, "the call runs")
            process.send_signal(signal.SIGINT)
            harness.wait_until(lambda: running() == 0, "the call is cancelled")
        os.write(terminal, b"/reset\nhello\n/quit\n")
        out, err = process.communicate(timeout=harness.PATIENCE)
        os.close(terminal)
        self.assertEqual((process.returncode, err), (0, ""))
        expected = self.cluster.generate([("user", "hello")], temperature=0, max_tokens=8, ignore_eos=True)
        self.assertTrue(out.endswith(expected.choices[0].text + "\n> "), out)
        self.cluster.assert_idle()

    def test_interrupt_ends_a_chat_over_a_pipe_and_its_call(self):
        process = start("chat", "--max_tokens", "50", "--ignore_eos", router=self.cluster.router.address)
        with self.cluster.decode[0].paused():
            process.stdin.write("interrupt me\n")
            process.stdin.flush()
            harness.wait_until(lambda: self.cluster.router.metrics()["baton_requests_running"] == 1, "the call runs")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(harness.PATIENCE), -signal.SIGINT)  # which shells show as 130
        out, err = process.communicate()
        self.assertEqual(err, "")
        self.assertNotIn(">", out)
        self.cluster.assert_idle()

    def test_interrupt_ends_a_chat_that_waits_for_a_line_over_a_pipe(self):
        process = start("chat", "--max_tokens", "1", "--ignore_eos", router=self.cluster.router.address)
        process.stdin.write("hello\n")
        process.stdin.flush()
        self.assertTrue(process.stdout.readline())  # answered: the next line is waited for
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(harness.PATIENCE), -signal.SIGINT)
        self.assertEqual(process.communicate(), ("", ""))

    def test_text_that_is_not_utf_8_is_refused_with_its_place_before_any_call(self):
        cases = [(("generate", b"ab\xffcd"), b"", "prompts[0].text", "0xff at offset 2"),
                 (("generate", "--stop", b"\xc3", "hello"), b"", "sampling.stop[0]", "0xc3 at offset 0"),
                 (("generate", "--chat", "-"), b"good \x80", "prompts[0].chat.messages[0].content", "0x80 at offset 5"),
                 (("tokenize", "-"), b"\xed\xa0\x80", "prompt.text", "0xed at offset 0"),
                 (("chat",), b"\xf0\x9f\n", "prompts[0].chat.messages[0].content", "0xf0 at offset 0"),
                 (("drain", b"\xff"), b"", "address", "0xff at offset 0")]
        for arguments, stdin, field, place in cases:
            with self.subTest(arguments=arguments):
                # Nobody listens there, so a call would end otherwise.
                done = subprocess.run([os.path.join(harness.BIN, "baton"), *arguments, "--router", "127.0.0.1:1"], input=stdin,
                                      capture_output=True, timeout=harness.PATIENCE, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr.decode()),
                                 (1, b"", f"baton: INVALID_ARGUMENT: {field} is not UTF-8: byte {place}\n"))

    def test_an_address_without_a_port_that_there_is_goes_nowhere(self):
        for address in ("127.0.0.1:99999", "127.0.0.1", "127.0.0.1:0"):
            _, err = self.baton("models", "--router", address, status=1)
            self.assertIn(f"INVALID_ARGUMENT: '{address}'", err)
        out, _ = self.baton("models", "--router", "dns:///" + self.cluster.router.address, "--json")
        self.assertIn('"ready":true', out)

    def test_tokenize_shows_ids_and_pieces(self):
        out, _ = self.baton("tokenize", "--json", "hello there")
        tokens = json.loads(out)
        self.assertEqual("".join(tokens["tokens"]), "hello there")
        out, _ = self.baton("tokenize", "-", stdin="hello there")
        self.assertEqual([int(line.split()[1]) for line in out.splitlines()[1:]], tokens["ids"])

    def test_top_shows_every_worker(self):
        out, _ = self.baton("top", "--once")
        for worker in self.cluster.prefill + self.cluster.decode:
            self.assertIn(worker.address, out)
        out, _ = self.baton("top", "--once", "--json")
        for worker in json.loads(out)["workers"]:
            self.assertEqual(worker["state"], "ready")
            self.assertGreater(sum(worker["kv_blocks"].values()), 0)

    def test_top_tells_what_the_metrics_do(self):
        """Live, under load: what two looks show is what Prometheus would be told."""
        for i in range(4):
            self.cluster.generate([3 + i] * 60, n=2, max_tokens=20, ignore_eos=True)
        self.cluster.assert_idle()
        router, prefill = self.cluster.router.metrics(), self.cluster.prefill[0].metrics()
        def settled():
            top = json.loads(self.baton("top", "--once", "--json")[0])
            worker = next(w for w in top["workers"] if w["role"] == "prefill")
            return worker["kv_bytes"] == prefill['baton_kv_transfer_bytes_total{transport="ucx"}'] and (top, worker)
        top, worker = harness.wait_until(settled, "the worker's last state has reached the router")
        (model,) = top["models"]
        self.assertEqual(model["requests_ok"], router['baton_requests_total{reason="ok"}'])
        self.assertEqual(model["generated_tokens"], router["baton_generation_tokens_total"])
        self.assertEqual(model["time_to_first_token_seconds"]["count"], router["baton_time_to_first_token_seconds_count"])
        self.assertEqual(model["inter_token_latency_seconds"]["count"], router["baton_inter_token_latency_seconds_count"])
        self.assertGreater(model["inter_token_latency_seconds"]["p99"], 0)
        self.assertEqual(top["router_max_running"], router['baton_requests_limit{state="running"}'])
        self.assertEqual(worker["handoffs_committed"], prefill['baton_handoffs_total{outcome="committed"}'])
        self.assertEqual(worker["flops"], prefill["baton_engine_flops_total"])


class DrainTest(unittest.TestCase):
    def test_drained_worker_exits(self):
        with harness.Cluster() as cluster:
            router, worker = cluster.router.address, cluster.prefill[0]
            unknown = start("drain", "127.0.0.1:1", router=router)
            _, err = unknown.communicate(timeout=harness.PATIENCE)
            self.assertEqual(unknown.returncode, 1)
            self.assertIn("NOT_FOUND", err)
            process = start("drain", worker.address, router=router)
            out, err = process.communicate(timeout=harness.PATIENCE)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn(worker.address, out)
            self.assertEqual(worker.popen.wait(harness.PATIENCE), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
