"""Rules, alerts and dashboards hang together: syntax, unit tests of the rules, a runbook section and two cases for every alert,
only metrics that exist. Needs promtool and PyYAML from Debian."""

import glob
import json
import os
import re
import subprocess
import sys
import unittest

import yaml

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROMETHEUS = os.path.join(ROOT, "deploy", "prometheus")
GRAFANA = os.path.join(ROOT, "deploy", "grafana")
RULES = sorted(glob.glob(os.path.join(PROMETHEUS, "rules", "*.yaml")))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def all_rules():
    return [rule for path in RULES for group in yaml.safe_load(read(path))["groups"] for rule in group["rules"]]


def anchor(heading):
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


class Rules(unittest.TestCase):
    maxDiff = None

    def promtool(self, *arguments):
        result = subprocess.run(["/usr/bin/promtool", *arguments], capture_output=True, text=True, check=False, cwd=PROMETHEUS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_promtool_accepts_them(self):
        self.promtool("check", "rules", *RULES)

    def test_cases_of_every_alert_come_out(self):
        self.promtool("test", "rules", "rules_test.yaml")

    def test_every_alert_has_a_case_that_fires_it_and_one_that_does_not(self):
        cases = [case for test in yaml.safe_load(read(os.path.join(PROMETHEUS, "rules_test.yaml")))["tests"]
                 for case in test["alert_rule_test"]]
        alerts = {rule["alert"] for rule in all_rules() if "alert" in rule}
        self.assertEqual({case["alertname"] for case in cases if case["exp_alerts"]}, alerts)
        self.assertEqual({case["alertname"] for case in cases if not case["exp_alerts"]}, alerts)

    def test_every_alert_says_how_bad_it_is_what_it_is_and_what_to_do(self):
        headings = {anchor(heading) for heading in re.findall(r"^#+ (.*)$", read(os.path.join(PROMETHEUS, "README.md")), re.M)}
        for rule in (rule for rule in all_rules() if "alert" in rule):
            with self.subTest(alert=rule["alert"]):
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                self.assertTrue(rule["annotations"]["summary"])
                self.assertEqual(rule["annotations"]["runbook"], f"deploy/prometheus/README.md#{anchor(rule['alert'])}")
                self.assertIn(anchor(rule["alert"]), headings)

    def test_runbook_knows_no_other_alerts_and_names_only_flags_that_exist(self):
        text, readme = read(os.path.join(PROMETHEUS, "README.md")), read(os.path.join(ROOT, "README.md"))
        self.assertEqual(set(re.findall(r"\bBaton[A-Z]\w+", text)), {rule["alert"] for rule in all_rules() if "alert" in rule})
        self.assertEqual({flag for flag in re.findall(r"`--(\w+)", text) if f"`--{flag}`" not in readme and flag != "router"}, set())


class Metrics(unittest.TestCase):
    def test_queries_use_only_documented_metrics_and_recorded_series(self):
        documented = set(re.findall(r"^\| `(baton_\w+)` \|", read(os.path.join(ROOT, "README.md")), re.M))
        recorded = {rule["record"] for rule in all_rules() if "record" in rule}
        expressions = [rule["expr"] for rule in all_rules()]
        for path in glob.glob(os.path.join(GRAFANA, "*.json")):
            expressions += [target["expr"] for panel in json.loads(read(path))["panels"] for target in panel.get("targets", [])]
        used = {name for expression in expressions for name in re.findall(r"(?:\w+:)?\bbaton[_:]\w+(?::\w+)?", expression)}
        unknown = {name for name in used - recorded if re.sub(r"_(bucket|sum|count)$", "", name) not in documented and name not in documented}
        self.assertEqual(unknown, set())
        self.assertEqual(recorded - used, set(), "recorded and never asked for")


class Dashboards(unittest.TestCase):
    def test_they_are_what_their_script_writes(self):
        result = subprocess.run([sys.executable, os.path.join(GRAFANA, "dashboards.py"), "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_panels_have_ids_of_their_own_and_do_not_overlap(self):
        for path in glob.glob(os.path.join(GRAFANA, "*.json")):
            panels = json.loads(read(path))["panels"]
            self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
            cells = [(x, y) for panel in panels for p in [panel["gridPos"]]
                     for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
            self.assertEqual(len(set(cells)), len(cells), path)
            self.assertLess(max(x for x, _ in cells), 24)


if __name__ == "__main__":
    unittest.main()
