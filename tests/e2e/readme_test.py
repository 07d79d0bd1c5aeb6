"""README.md held to what the programs do: its tables of flags and its client. (Its table of metrics: metrics_test.)"""

import os
import re
import subprocess
import tempfile
import unittest

from harness import BIN, PATIENCE, ROOT, Cluster

with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as readme:
    README = readme.read()


def documented_flags():
    """{program: {flag: (default, values)}} of the section on flags."""
    section = re.search(r"^## Flags\n(.*?)^## ", README, re.S | re.M)[1]
    programs, flags = [], {p: {} for p in ("baton-router", "baton-prefill", "baton-decode")}
    for line in section.splitlines():
        if line.endswith(" besides:"):
            programs = re.findall(r"`(baton-\w+)`", line)
        elif line.startswith("All three programs"):
            programs = list(flags)
        elif line.startswith("| `--"):
            name, default, values = [cell.strip() for cell in line.strip("|").split("|")][:3]
            for program in programs:
                assert name not in flags[program], f"{name} of {program} stands twice"
                flags[program][name.strip("`")] = default, values
    return flags


def real_flags(program):
    text = subprocess.run([os.path.join(BIN, program), "--help"], check=True, capture_output=True, text=True).stdout
    flags = {}
    for name, kind in re.findall(r"^  (--\w+) (.*) \(Env:\w+\)$", text, re.M):
        default = re.search(r"=([^=]*?)(?: \.\.\.)?(?: REQUIRED)?$", kind)
        default = "required" if "REQUIRED" in kind else default[1] if default else ""
        limits = re.search(r"in \[(\S+) - (\S+)\]", kind)
        choices = re.search(r"\{(.*)\}", kind)
        values = f"{limits[1]} to {limits[2]}" if limits else choices[1].replace(",", ", ") if choices else ""
        flags[name] = default, values
    return flags


class Readme(unittest.TestCase):
    maxDiff = None

    def test_flags_are_those_of_the_programs(self):
        for program, flags in documented_flags().items():
            with self.subTest(program=program):
                self.assertGreater(len(flags), 20)
                self.assertEqual(real_flags(program), flags)

    def test_the_python_client_works_as_printed(self):
        client = re.search(r"^```python\n(.*?)^```", README, re.S | re.M)[1]
        script = re.search(r"^```sh\n(mkdir -p build/stubs.*?)^```", README, re.S | re.M)[1]
        with Cluster(router_flags=["--disaggregation=always"]) as cluster, tempfile.TemporaryDirectory() as folder:
            self.assertIn("127.0.0.1:8100", client)
            with open(os.path.join(folder, "client.py"), "w", encoding="utf-8") as file:
                file.write(client.replace("127.0.0.1:8100", cluster.router.address))
            script = script.replace("build/stubs", f"{folder}/stubs").replace(" client.py", f" {folder}/client.py")
            result = subprocess.run(["bash", "-euc", script], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
                                    check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, r"\n\d+ tokens, first after \d+\.\d{3} s, \d+ bytes of KV over ucx/\w+\n$")
            cluster.assert_idle()

    def test_it_lists_every_command(self):
        text = subprocess.run([os.path.join(BIN, "baton"), "--help"], check=True, capture_output=True, text=True).stdout
        commands = re.findall(r"^  (\w+)  ", text[text.index("Subcommands:"):], re.M)
        self.assertEqual(sorted(commands), sorted(re.findall(r"^\| `baton (\w+)` \|", README, re.M)))


if __name__ == "__main__":
    unittest.main()
