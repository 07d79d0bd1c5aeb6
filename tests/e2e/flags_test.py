"""What all four programs do with flags that cannot be meant: every flag of theirs that takes a whole number."""

import os
import re
import subprocess
import tempfile
import unittest

from harness import BIN, GOLDEN, PATIENCE


def run(program, *arguments):
    return subprocess.run([os.path.join(BIN, program), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


def commands():
    """Every program and subcommand, as a list of words."""
    found = [["baton-router"], ["baton-prefill"], ["baton-decode"]]
    open_ = [["baton"]]
    while open_:
        command = open_.pop()
        text = run(*command, "--help").stdout
        subcommands = re.findall(r"^  ([\w-]+)  ", text[text.index("Subcommands:"):], re.M) if "Subcommands:" in text else []
        open_ += [[*command, name] for name in subcommands]
        if not subcommands:
            found.append(command)
    return found


class WholeNumbers(unittest.TestCase):
    def test_what_does_not_fit_is_refused_with_the_range_by_every_flag(self):
        flags = [(command, flag) for command in commands()
                 for flag in re.findall(r"^  (--\w+) U?INT\b(?!:\{)", run(*command, "--help").stdout, re.M)]
        self.assertGreater(len(flags), 60)
        for text in ("18446744073709551616", "-9223372036854775809", "010"):
            for command, flag in flags:
                with self.subTest(command=command, flag=flag, text=text):
                    done = run(*command, flag, text)
                    self.assertEqual(done.returncode, 2)
                    self.assertRegex(done.stderr, rf"{flag}: '{text}' is no whole number from -?\d+ to \d+ ")

    def test_a_seed_beyond_64_bits_is_refused(self):
        self.assertIn("'18446744073709551616' is no whole number from 0 to 18446744073709551615",
                      run("baton", "generate", "--seed", "18446744073709551616", "hello").stderr)


class Contradictions(unittest.TestCase):
    def refused(self, program, *flags):
        done = run(program, *flags)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_a_flag_of_the_other_engine_is_refused_also_with_its_default(self):
        worker = ("baton-decode", "--model", os.path.join(GOLDEN, "qwen2"))
        for flag in ("--device=0", "--tensor_parallel=1", "--cuda_graphs=true", "--deterministic=false", "--gpu_memory_utilization=0.9"):
            self.assertIn(f"{flag.partition('=')[0]} is set; only engine cuda takes it", self.refused(*worker, flag))

    def test_a_model_name_that_would_break_tables_and_metrics_is_refused(self):
        for name in ("a\nb", "x" * 257, b"\xff\xfe"):
            self.assertRegex(self.refused("baton-decode", "--model", GOLDEN, "--model_name", name),
                             r"--model_name has \d+ bytes, must be 1 to 256 of UTF-8 without control characters")

    def test_a_length_that_no_request_fits_is_refused(self):
        self.assertIn("--max_model_len is 1, must hold at least 2 tokens",
                      self.refused("baton-decode", "--model", GOLDEN, "--max_model_len", "1"))

    def test_tls_that_would_be_plain_text_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as pem:
            pem.write("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
            pem.flush()
            for program in (("baton-router", "--workers", "a:1"), ("baton-prefill", "--model", GOLDEN), ("baton-decode", "--model", GOLDEN)):
                self.assertIn("--tls_ca is set and --tls_cert is not", self.refused(*program, "--tls_ca", pem.name))
            self.assertIn("--worker_tls_cert is set and --worker_tls_ca is not",
                          self.refused("baton-router", "--workers", "a:1", "--worker_tls_cert", pem.name, "--worker_tls_key", pem.name))


class Addresses(unittest.TestCase):
    def test_a_worker_list_with_a_port_that_there_is_not_is_refused_with_the_entry(self):
        for entry in ("a:99999", "a", "a:0", ":8101"):
            done = run("baton-router", "--workers", f"127.0.0.1:8101,{entry}")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--workers: '{entry}'", done.stderr)


if __name__ == "__main__":
    unittest.main()
