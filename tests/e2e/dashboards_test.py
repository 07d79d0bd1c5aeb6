"""Every query of the dashboards and every alert is put to a real Prometheus that scrapes real programs under load: none may fail,
and none may come back empty, since then somebody looks at an empty panel at night."""

import glob
import json
import math
import os
import re
import threading
import unittest

import yaml

from harness import ROOT, Cluster, wait_until
from prometheus_server import Prometheus

RULES = sorted(glob.glob(os.path.join(ROOT, "deploy", "prometheus", "rules", "*.yaml")))
DASHBOARDS = sorted(glob.glob(os.path.join(ROOT, "deploy", "grafana", "*.json")))
# What Grafana puts in the place of its variables.
VARIABLES = {"$namespace": ".*", "$model": ".*", "$instance": ".*", "$__rate_interval": "10s"}
OPERATOR = re.compile(r"(and|or|unless|==|!=|>=|<=|>|<)(\s+bool)?(\s+on \([^)]*\))?(\s+group_left \([^)]*\))?\s")


def operands(expression):
    """What comparisons and set operators outside all brackets connect: an alert is silent, its operands are not."""
    parts, start, depth, i = [], 0, 0, 0
    while i < len(expression):
        if expression[i] == '"':
            i = expression.index('"', i + 1)
        elif expression[i] in "([{":
            depth += 1
        elif expression[i] in ")]}":
            depth -= 1
        elif depth == 0 and expression[i - 1:i] == " " and (match := OPERATOR.match(expression, i)):
            parts.append(expression[start:i])
            start = i = match.end()
            continue
        i += 1
    parts.append(expression[start:])
    return [part.strip() for part in parts if not re.fullmatch(r"[\d.]+", part.strip())]


def panel_queries():
    """[(dashboard, panel, query)]"""
    found = []
    for path in DASHBOARDS:
        with open(path, encoding="utf-8") as file:
            for panel in json.load(file)["panels"]:
                found += [(os.path.basename(path), panel["title"], target["expr"]) for target in panel.get("targets", [])]
    return found


def rules(kind):
    """[(name, expression)] of all `alert` or `record` rules."""
    found = []
    for path in RULES:
        with open(path, encoding="utf-8") as file:
            found += [(rule[kind], rule["expr"]) for group in yaml.safe_load(file)["groups"] for rule in group["rules"] if kind in rule]
    return found


# Panels that show trouble only; a healthy deployment has none.
SILENT = re.compile(r'state!="ready"|baton_attempt_failures_total')


class Load:
    """Prompts that the decode worker reads itself and prompts that are handed over, cached and not, until stopped."""

    def __init__(self, cluster):
        self.cluster, self.stopped, self.errors = cluster, threading.Event(), []
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(2)]
        for thread in self.threads:
            thread.start()

    def run(self, worker):
        turn = 0
        while not self.stopped.is_set():
            turn += 1
            length = 20 if turn % 2 else 90
            try:
                self.cluster.generate([3 + (worker + turn // 4) % 200] * length, max_tokens=24, ignore_eos=True)
            except Exception as error:  # told by the test
                self.errors.append(error)
                return

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


class Dashboards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(router_flags=["--local_prefill_tokens=32"], engine_probe=True)
        try:
            cls.prometheus = Prometheus(cls.cluster, RULES)
            cls.addClassCleanup(cls.prometheus.close)
            cls.load = Load(cls.cluster)
        except BaseException:
            cls.cluster.close(check=False)
            raise

    @classmethod
    def tearDownClass(cls):
        cls.load.stop()
        cls.cluster.close()
        assert not cls.load.errors, cls.load.errors

    def assert_answers(self, query):
        for variable, value in VARIABLES.items():
            query = query.replace(variable, value)
        self.assertNotIn("$", query, "a variable that Grafana would not know")
        seen = []

        def answered():
            self.assertFalse(self.load.errors)
            seen[:] = self.prometheus.query(query)
            return seen and not any(math.isnan(value) for _, value in seen)
        try:
            wait_until(answered, "an answer")
        except AssertionError:
            self.fail(f"{query}\nanswers {seen or 'nothing'}")

    def test_every_panel_shows_something(self):
        queries = panel_queries()
        self.assertGreater(len(queries), 50)
        for dashboard, panel, query in queries:
            with self.subTest(dashboard=dashboard, panel=panel):
                self.assert_answers(query.removesuffix(" > 0") if SILENT.search(query) else query)

    def test_every_recording_rule_records(self):
        for name, expression in rules("record"):
            with self.subTest(rule=name):
                self.assert_answers(expression)
                self.assert_answers(name)

    def test_every_alert_looks_at_something(self):
        for name, expression in rules("alert"):
            self.assertTrue(operands(expression))
            for operand in operands(expression):
                with self.subTest(alert=name, operand=operand):
                    self.assert_answers(operand)

    def test_prometheus_evaluates_all_rules_without_an_error(self):
        groups = wait_until(lambda: (g := self.prometheus.api("rules")["groups"]) and
                            all(rule["health"] != "unknown" for group in g for rule in group["rules"]) and g, "all rules are evaluated")
        evaluated = [rule for group in groups for rule in group["rules"]]
        self.assertEqual(len(evaluated), len(rules("alert")) + len(rules("record")))
        self.assertEqual([rule["name"] for rule in evaluated if rule["health"] != "ok"], [])

    def test_no_alert_is_pending_on_a_healthy_deployment(self):
        quiet = wait_until(lambda: self.prometheus.query("baton:time_to_first_token_objective_seconds"), "rules are evaluated")
        self.assertTrue(quiet)
        self.assertEqual([m["alertname"] for m, _ in self.prometheus.query('ALERTS{alertstate=~"pending|firing"}')], [])

    def test_variables_find_their_values(self):
        for path in DASHBOARDS:
            with open(path, encoding="utf-8") as file:
                variables = json.load(file)["templating"]["list"]
            for variable in (v for v in variables if v["type"] == "query" and v["name"] != "namespace"):  # Kubernetes' own label
                selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
                for name, value in VARIABLES.items():
                    selector = selector.replace(name, value)
                with self.subTest(dashboard=os.path.basename(path), variable=variable["name"]):
                    self.assertTrue([m for m, _ in self.prometheus.query(selector) if label in m])

    def test_operands_of_an_alert_are_told_apart(self):
        self.assertEqual(operands('a{x=~"b > c"} > on () group_left () b and on (n) sum by (x) (c > 1) < 0.5'),
                         ['a{x=~"b > c"}', "b", "sum by (x) (c > 1)"])


if __name__ == "__main__":
    unittest.main()
