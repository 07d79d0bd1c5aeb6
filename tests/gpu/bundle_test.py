"""The bundle for a machine with a GPU: it builds for one architecture, needs no library but glibc's, is small, and says clearly
that there is no device where there is none."""

import glob
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUNDLE = os.path.join(ROOT, "build", "gpu", "bundle")
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
NO_DEVICE = 77


def output_of(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for command in (["cmake", "--preset", "gpu"], ["cmake", "--build", "--preset", "gpu", "-j", str(os.cpu_count())]):
            done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                raise AssertionError(done.stdout[-4000:])
        cls.programs = sorted(glob.glob(os.path.join(BUNDLE, "gpu_*")))

    def test_has_all_programs(self):
        self.assertEqual(["gpu_bench", "gpu_kernels_test", "gpu_models_test", "gpu_nccl_handoff_test", "gpu_report",
                          "gpu_runner_test", "gpu_staged_handoff_test"], [os.path.basename(p) for p in self.programs])

    def test_needs_no_library_but_glibc(self):
        newest = ()
        for program in self.programs:
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", program)))
            self.assertEqual(set(), needed - GLIBC, program)
            versions = re.findall(r"GLIBC_(\d+)\.(\d+)", output_of("readelf", "-V", program))
            newest = max(newest, *(tuple(map(int, v)) for v in versions))
        print(f"\nglibc {'.'.join(map(str, newest))} or newer")
        self.assertLessEqual(newest, (2, 36), "Debian 12's")

    def test_is_under_50_mib(self):
        size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(BUNDLE) for name in names)
        print(f"\n{size / 2**20:.1f} MiB")
        self.assertLess(size, 50 << 20)

    def test_says_that_there_is_no_device(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is one")
        with tempfile.TemporaryDirectory() as out:
            run = subprocess.run([os.path.join(BUNDLE, "run.sh"), "--out", out], text=True, capture_output=True, timeout=60)
            self.assertIn("no CUDA device", run.stdout)
            self.assertEqual(NO_DEVICE, run.returncode, run.stdout + run.stderr)
        for program in self.programs:
            if program.endswith("_test"):
                run = subprocess.run([program], text=True, capture_output=True, timeout=120)
                self.assertEqual(0, run.returncode, run.stdout[-2000:])
                self.assertIn("no CUDA device", run.stdout)
                self.assertIn("[  SKIPPED ]", run.stdout)


if __name__ == "__main__":
    unittest.main()
