"""run.sh itself, with the programs linked against the host stand-in at tiny sizes: what it runs, writes and returns, and what becomes
of steps that fail, hang or die."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
PROGRAMS = os.path.abspath(sys.argv.pop(1))
# What the stand-in needs seconds for; its own tests run it.
SCRIPTED = ("gpu_kernels_test", "gpu_runner_test")


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = os.path.join(self.folder, "results")
        self.bin = os.path.join(self.folder, "bundle")
        os.mkdir(self.bin)
        shutil.copy(os.path.join(HERE, "run.sh"), self.bin)
        for name in os.listdir(PROGRAMS):
            os.symlink(os.path.join(PROGRAMS, name), os.path.join(self.bin, name))
        for name in SCRIPTED:
            self.script(name, "exit 0")

    def script(self, name, text):
        path = os.path.join(self.bin, name)
        if os.path.lexists(path):
            os.remove(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def run_it(self, *arguments, **environment):
        environment = {**os.environ, "BATON_GPU_SIZES": "--batches 1,2 --lengths 20 --context 30 --rounds 1 --seconds 0 "
                       "--ceiling_bytes 65536 --ceiling_product 32", **environment}
        self.done = subprocess.run([os.path.join(self.bin, "run.sh"), "--out", self.out, "--models", "tiny", *arguments],
                                   text=True, capture_output=True, env=environment, timeout=300, check=False)
        return self.done

    def report(self):
        with open(os.path.join(self.out, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def results(self):
        return {step["name"]: step["result"] for step in self.report()["step"]}

    def test_all_steps_run_and_their_figures_are_written(self):
        self.assertEqual(0, self.run_it().returncode, self.done.stdout + self.done.stderr)
        results = self.results()
        for step in ("ceilings", "kernels", "runner", "engine-tiny", "staged-handoff", "nccl-handoff", "bench-tiny"):
            self.assertEqual("passed", results[step], step)
        report = self.report()
        self.assertEqual("host stand-in", report["device"]["name"])
        self.assertGreater(report["ceilings"]["memory_bytes_per_second"], 0)
        self.assertGreater(report["ceilings"]["bf16_flops_per_second"], 0)
        self.assertEqual([(True, 1), (True, 2), (False, 1), (False, 2)], [(d["graphs"], d["batch"]) for d in report["decode"]])
        for record in report["decode"] + report["prefill"]:
            self.assertGreater(record["seconds"], 0)
            self.assertGreater(record["tokens_per_second"], 0)
        for record in report["decode"]:
            self.assertAlmostEqual(record["seconds"] / record["floor_seconds"], record["of_floor"], 6)
        self.assertEqual({"gather to the device", "scatter from the device", "gather to the host", "scatter from the host",
                          "checksums"}, {r["what"] for r in report["blocks"]})
        self.assertEqual(["not measured"] * 4, [t["result"] for t in report["targets"]])
        for text in ("decode: a step", "prefill: a prompt in one step", "KV blocks", "targets", "not measured"):
            self.assertIn(text, self.done.stdout)

    def test_a_failed_step_is_shown_and_the_others_run(self):
        self.script("gpu_kernels_test", "echo element 3 of 7; exit 1")
        self.script("gpu_nccl_handoff_test", "echo '[  SKIPPED ] 1 test'")
        self.assertEqual(1, self.run_it().returncode)
        self.assertIn("element 3 of 7", self.done.stdout)
        self.assertEqual("failed with 1", self.results()["kernels"])
        self.assertEqual("passed, some skipped", self.results()["nccl-handoff"])
        self.assertEqual("passed", self.results()["bench-tiny"])

    def test_a_step_that_hangs_is_ended_and_the_others_keep_their_results(self):
        self.script("gpu_models_test", "sleep 1000")
        self.run_it(BATON_GPU_BUDGET="40")
        self.assertEqual(1, self.done.returncode)
        results = self.results()
        self.assertEqual("timed out", results["engine-tiny"])
        self.assertEqual("passed", results["kernels"])
        self.assertEqual("no time left", results["bench-tiny"])
        self.assertIn("memory_bytes_per_second", self.report()["ceilings"])

    def test_without_a_device_it_says_so(self):
        self.script("gpu_bench", "echo 'gpu_bench: no CUDA device: no driver' >&2; exit 77")
        self.assertEqual(77, self.run_it().returncode)
        self.assertEqual("no CUDA device: no driver\n", self.done.stdout)

    def test_without_a_device_the_records_of_an_earlier_run_stay(self):
        os.mkdir(self.out)
        records = os.path.join(self.out, "records.jsonl")
        with open(records, "w", encoding="utf-8") as file:
            file.write("{}\n")
        self.script("gpu_bench", "exit 77")
        self.assertEqual(77, self.run_it().returncode)
        with open(records, encoding="utf-8") as file:
            self.assertEqual("{}\n", file.read())

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "there is a device")
    def test_a_checkout_without_a_device_is_not_built(self):
        self.bin = os.path.join(self.folder, "checkout", "tests", "gpu")
        os.makedirs(self.bin)
        shutil.copy(os.path.join(HERE, "run.sh"), self.bin)
        self.script("nvidia-smi", "echo No devices were found; exit 6")
        path = self.bin + ":" + os.environ["PATH"]
        self.assertEqual(77, self.run_it(PATH=path).returncode, self.done.stderr)
        self.assertIn("no CUDA device", self.done.stdout)
        self.assertNotIn("building", self.done.stdout)
        self.assertFalse(os.path.exists(self.out))
        self.assertEqual(2, self.run_it("--arch", "sm_90", PATH=path).returncode)  # tries to, and there is nothing to build
        self.assertIn("building for sm_90", self.done.stdout)

    def test_wrong_arguments_are_refused(self):
        self.assertEqual(2, self.run_it("--fast").returncode)
        self.assertIn("--fast", self.done.stderr)

    def test_targets_are_judged_and_a_missed_one_fails_nothing(self):
        records = [{"measure": "bandwidth", "read_bytes_per_second": 4e12, "copy_bytes_per_second": 3e12},
                   {"measure": "product", "flops_per_second": 8e14},
                   {"measure": "decode", "model": "qwen2.5-7b", "batch": 1, "graphs": True, "seconds": 5e-3, "bytes": 16e9},
                   {"measure": "decode", "model": "qwen2.5-7b", "batch": 32, "graphs": True, "seconds": 8e-3, "bytes": 20e9},
                   {"measure": "prefill", "model": "qwen2.5-7b", "length": 8192, "seconds": 0.25, "flops": 1.2e14},
                   {"measure": "decode", "model": "qwen2.5-0.5b", "batch": 1, "graphs": False, "seconds": 2e-3, "bytes": 1e9}]
        path = os.path.join(self.folder, "records")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(r) + "\n" for r in records) + '{"measure": "decode", "mod')
        out = os.path.join(self.folder, "report.json")
        subprocess.run([os.path.join(self.bin, "gpu_report"), path, out], check=True, capture_output=True)
        with open(out, encoding="utf-8") as file:
            targets = json.load(file)["targets"]
        self.assertEqual(["met", "missed", "met", "not measured"], [t["result"] for t in targets])
        self.assertEqual([1.25, 1.6, 0.6], [round(t["value"], 6) for t in targets[:3]])


if __name__ == "__main__":
    unittest.main()
