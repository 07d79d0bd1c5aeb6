"""Every bench of `baton bench`, tiny, on a random model: what it states must hold, its files must be whole. Nothing here
looks at a time."""

import contextlib
import json
import os
import pty
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

import harness


def bench(name, *flags, status=0, svg=None):
    """The report of a run that must end with `status`, and its pictures as an XML tree."""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, "report.json"), svg or os.path.join(folder, "report.svg")]
        once = () if name == "load" or "--repetitions" in flags else ("--repetitions", "1")
        process = subprocess.run([os.path.join(harness.BIN, "baton"), "bench", name, "--quick", *once, "--json", files[0],
                                  "--svg", files[1], *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 timeout=4 * harness.PATIENCE,
                                 env={k: v for k, v in os.environ.items() if k != "BATON_ROUTER"})
        assert process.returncode == status, f"{name} ended with {process.returncode}:\n{process.stdout}{process.stderr}"
        if status != 0:
            return process.stderr, None
        with open(files[0], encoding="utf-8") as file:
            report = json.load(file)
        return report, xml.etree.ElementTree.parse(files[1]).getroot()


class BenchTest(unittest.TestCase):
    def check(self, name, *flags):
        report, svg = bench(name, *flags)
        self.assertEqual(report["bench"], name)
        self.assertIn("machine", report["settings"])
        self.assertTrue(report["checks"] or name == "engine", "a bench states what must hold")
        for check in report["checks"]:
            self.assertTrue(check["holds"], check["statement"])
        self.assertTrue(all(table["rows"] for table in report["tables"]))
        self.assertTrue(report["tables"])
        self.assertEqual(svg.tag, "{http://www.w3.org/2000/svg}svg")
        drawn = [e for kind in ("path", "rect") for e in svg.iter("{http://www.w3.org/2000/svg}" + kind)]
        self.assertGreater(len(drawn), 2, "lines or bars beside the page's ground")
        return report

    def test_in_process(self):
        for name in ("engine", "kv-cache", "paging", "prefix", "chunked"):
            with self.subTest(name):
                self.check(name, "--shape", "tiny")

    def test_batching_shows_the_example_exactly(self):
        report = self.check("batching", "--shape", "tiny")
        rows = {row["mode"]: row for row in report["tables"][0]["rows"]}
        static, continuous = rows["static"], rows["continuous"]
        def figures(row):
            return (row["steps"], round(row["slots used, %"], 2), round(row["mean wait, steps"], 9), round(row["mean latency, steps"], 9),
                    row["slots wasted"], round(row["tokens a step"], 2))
        self.assertEqual(figures(static), (12, 63.89, 2.0, 6.6, 13, 1.92))
        self.assertEqual(figures(continuous), (8, 95.83, 0.4, 5.0, 1, 2.88))

    def test_paging_shows_the_example_exactly(self):
        rows = self.check("paging", "--shape", "tiny")["tables"][0]["rows"]
        self.assertEqual([(row["memory"], row["slots held"], row["tokens"], round(row["wasted, %"])) for row in rows],
                         [("reserved for 4,096", 4096, 200, 95), ("13 blocks of 16", 208, 200, 4)])

    def test_own_processes(self):
        for name in ("streaming", "handoff"):
            with self.subTest(name):
                self.check(name, "--shape", "tiny")

    def test_disagg_says_who_wins_and_where_they_cross(self):
        report = self.check("disagg", "--shape", "tiny", "--requests", "4", "--repetitions", "2")
        for what in ("TTFT P99", "ITL P99"):
            note, = (n for n in report["notes"] if n.startswith(what))
            self.assertRegex(note, r"split is better at \d of 2 rates; they (cross near|do not cross from) [\d.]+")
        self.assertEqual([(row["workers"], row["requests"]) for row in report["tables"][0]["rows"]],
                         [("colocated", 4), ("split", 4)] * 2)

    def test_a_terminal_sees_how_far_it_is(self):
        terminal, stderr = pty.openpty()
        process = subprocess.Popen([os.path.join(harness.BIN, "baton"), "bench", "prefix", "--shape", "tiny", "--repetitions", "1000"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
        os.close(stderr)
        self.addCleanup(os.close, terminal)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        shown = ""
        with contextlib.suppress(OSError):  # its end
            while not re.search(r"prefix +\[.*\b\d+%.*cached", shown):
                shown += os.read(terminal, 4096).decode()
        self.assertIsNone(process.poll(), shown)

    def test_engines_model_is_the_one_named(self):
        report = self.check("kv-cache", "--model", harness.DEMO)
        self.assertEqual(report["settings"]["model"], harness.DEMO)

    def test_errors_are_one_line(self):
        err, _ = bench("kv-cache", "--model", "/nowhere", status=1)
        self.assertEqual(err.count("\n"), 1)
        self.assertIn("/nowhere", err)
        err, _ = bench("load", "--router", "127.0.0.1:1", "--timeout", "5", status=1)
        self.assertEqual(err.count("UNAVAILABLE"), 1, err)
        err, _ = bench("paging", status=1, svg="/nowhere/pictures.svg")
        self.assertIn("/nowhere/pictures.svg", err)
        self.assertNotIn("%", err, "files are tried before anything is measured")
        err, _ = bench("nothing", status=2)
        self.assertIn("'nothing'", err)
        self.assertIn("kv-cache", err, "it names what there is")

    def test_engine_takes_several_formats(self):
        report = self.check("engine", "--shape", "tiny", "--weights", "bf16,f16,int8,int4")
        ceilings = report["tables"][2]["rows"]
        self.assertEqual([row["weights"] for row in ceilings], ["bf16", "f16", "int8", "int4"])
        self.assertTrue(all(row["FMA, GFLOP/s"] > 0 and row["int8, Gop/s"] > 0 and row["reading them, GB/s"] > 0 for row in ceilings))
        self.assertEqual(report["settings"]["KV"], "f16")
        err, _ = bench("prefix", "--shape", "tiny", "--weights", "bf16,int8", status=1)
        self.assertIn("2 formats", err)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core")
    def test_engine_tells_what_a_taken_core_costs(self):
        report = self.check("engine", "--shape", "tiny", "--only_stored", "--steal", "--kv_dtype", "int8")
        self.assertEqual(report["settings"]["KV"], "int8")
        for table in report["tables"][:2]:
            for row in table["rows"]:
                self.assertGreater(row["ms, a core taken"], 0)
                self.assertGreater(row["times slower"], 0)
        process = subprocess.run(["taskset", "-c", str(min(os.sched_getaffinity(0))), os.path.join(harness.BIN, "baton"), "bench",
                                  "engine", "--quick", "--shape", "tiny", "--steal"], capture_output=True, text=True,
                                 timeout=harness.PATIENCE, check=False)
        self.assertEqual(process.returncode, 1)
        self.assertIn("this process may use 1", process.stderr)


class RunningDeploymentTest(unittest.TestCase):
    def test_load_and_streaming_use_the_router_that_is_named(self):
        with harness.Cluster() as cluster, tempfile.NamedTemporaryFile("w") as trace:
            router = ("--router", cluster.router.address)
            load, _ = bench("load", *router)
            self.assertTrue(load["ok"], load)
            self.assertEqual(load["settings"]["router"], cluster.router.address)
            trace.write("0 10 3\n0.01 20 4\n0.02 5 2\n")
            trace.flush()
            replay, _ = bench("load", *router, "--trace", trace.name)
            self.assertEqual(replay["tables"][0]["rows"][0]["requests"], 3)
            self.assertTrue(bench("streaming", *router)[0]["ok"])
            cluster.assert_idle()


if __name__ == "__main__":
    unittest.main(verbosity=2)
