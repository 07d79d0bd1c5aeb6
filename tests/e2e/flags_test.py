"""What all four programs do with flags that cannot be meant: every flag of theirs that takes a whole number."""

import os
import re
import subprocess
import unittest

from harness import BIN, PATIENCE


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


class Addresses(unittest.TestCase):
    def test_a_worker_list_with_a_port_that_there_is_not_is_refused_with_the_entry(self):
        for entry in ("a:99999", "a", "a:0", ":8101"):
            done = run("baton-router", "--workers", f"127.0.0.1:8101,{entry}")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--workers: '{entry}'", done.stderr)


if __name__ == "__main__":
    unittest.main()
