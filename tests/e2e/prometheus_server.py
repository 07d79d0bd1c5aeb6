"""A real Prometheus for tests."""

import json
import os
import socket
import subprocess
import tempfile
import urllib.parse
import urllib.request

from harness import PATIENCE, wait_until


class Prometheus:
    """Debian's Prometheus on a free port with a folder of its own. Scrapes a cluster's programs and evaluates `rules` (paths)."""

    def __init__(self, cluster, rules=()):
        self.folder = tempfile.TemporaryDirectory(prefix="baton-prometheus-")
        config = os.path.join(self.folder.name, "prometheus.yml")
        targets = "".join(f"  - targets: ['127.0.0.1:{p.metrics_port}']\n    labels: {{program: {p.program}}}\n"
                          for p in cluster.programs())
        with open(config, "w", encoding="utf-8") as file:
            file.write("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
                       f"rule_files: {json.dumps(list(rules))}\n"
                       f"scrape_configs:\n- job_name: baton\n  static_configs:\n{targets}")
        self.log = open(os.path.join(self.folder.name, "log"), "w+", encoding="utf-8")
        self.popen = None
        try:
            wait_until(lambda: self.ready(config), "Prometheus is ready")
            wait_until(lambda: self.value("count(up == 1)") == len(cluster.programs()), "Prometheus has found the programs")
        except BaseException:
            self.close()
            raise

    def start(self, config):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.popen = subprocess.Popen(
            ["/usr/bin/prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder.name}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], stdout=self.log, stderr=self.log)

    def ready(self, config):
        if self.popen is None:
            self.start(config)
        if self.popen.poll() is not None:
            self.log.seek(0)
            log = self.log.read()
            # It cannot choose a port itself, and somebody may take the free one before it does.
            assert "address already in use" in log, f"Prometheus ended:\n{log}"
            self.log.seek(0)
            self.log.truncate()
            self.popen = None
            return False
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5).status == 200
        except OSError:
            return False

    def api(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        return json.load(urllib.request.urlopen(url, timeout=30))["data"]

    def query(self, expression):
        """Results as [(labels, value)]."""
        return [(r["metric"], float(r["value"][1])) for r in self.api("query", query=expression)["result"]]

    def value(self, expression):
        result = self.query(expression)
        return result[0][1] if len(result) == 1 else None

    def close(self):
        if self.popen is not None:
            self.popen.terminate()
            self.popen.wait(PATIENCE)
        self.log.close()
        self.folder.cleanup()
