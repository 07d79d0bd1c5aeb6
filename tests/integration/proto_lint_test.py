"""`buf lint` on the protos: STANDARD style, and a comment on every message, field and value. buf comes from PyPI
(buf-bin) into a virtual environment under the build folder; without a network the test is skipped and says so (exit 77).

    proto_lint_test.py BUILD_FOLDER
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PROTO = os.path.join(ROOT, "proto")
PACKAGE = "buf-bin==1.75.0"
BUILD = os.path.join(ROOT, "build")


def find_buf():
    """The program's path, installing it when needed; raises SkipTest when that is not possible."""
    if on_path := shutil.which("buf"):
        return on_path
    venv = os.path.join(BUILD, "buf-venv")
    buf = os.path.join(venv, "bin", "buf")
    if os.path.exists(buf):
        return buf
    if shutil.which("python3", path="/usr/bin") is None:
        raise unittest.SkipTest("needs /usr/bin/python3 with venv to install buf")
    for command in (["/usr/bin/python3", "-m", "venv", venv],
                    [os.path.join(venv, "bin", "python3"), "-m", "pip", "install", "--disable-pip-version-check", "--quiet",
                     "--timeout", "20", "--retries", "1", "--only-binary", ":all:", PACKAGE]):
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=240)
            error = (result.stderr or result.stdout).strip() if result.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as failure:
            error = str(failure)
        if error:
            shutil.rmtree(venv, ignore_errors=True)
            raise unittest.SkipTest(f"cannot install {PACKAGE} from PyPI: {error.splitlines()[-1]}")
    return buf


class ProtoLint(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.buf = find_buf()

    def lint(self, folder):
        return subprocess.run([self.buf, "lint"], cwd=folder, capture_output=True, text=True, timeout=120)

    def test_protos_are_in_standard_style_and_commented(self):
        result = self.lint(PROTO)
        self.assertEqual(result.returncode, 0, f"buf lint:\n{result.stdout}{result.stderr}")

    def test_a_field_without_a_comment_would_be_found(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(PROTO, os.path.join(folder, "proto"))
            path = os.path.join(copy, "baton", "v1", "admin.proto")
            with open(path, "a", encoding="utf-8") as file:
                file.write("\nmessage wrong_style {\n  string CamelField = 1;\n}\n")
            result = self.lint(copy)
            self.assertNotEqual(result.returncode, 0)
            for complaint in ("wrong_style", "CamelField", "comment"):
                self.assertIn(complaint, result.stdout)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BUILD = os.path.abspath(sys.argv.pop(1))
    program = unittest.main(exit=False)
    if program.result.skipped and program.result.wasSuccessful():
        sys.exit(77)  # ctest shows it as skipped
    sys.exit(not program.result.wasSuccessful())
