"""The layers, read from the includes: who may use whom, where devices and compile switches may appear, what names and
folders there are. Needs Python's standard library only."""

import os
import re
import subprocess
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))

# Folder to the folders it may include beside itself. `proto:` is generated code, of the public or the internal package.
BASE = {"common/base"}
LAYERS = {
    "common/base": set(),
    "kernels": BASE,
    "common/config": BASE,
    "common/telemetry": BASE,
    "common/text": BASE,
    "common/weights": BASE,
    "common/kv": BASE,
    "common/device": BASE,
    "common/sampling": BASE,
    "common/routing": BASE,
    "common/transport": BASE | {"common/device", "common/kv", "kernels", "common/telemetry"},
    "common/model": BASE | {"kernels", "common/weights"},
    "common/handoff": BASE | {"common/kv", "common/transport", "common/telemetry", "common/sampling"},
    "common/engine": BASE | {"kernels", "common/config", "common/telemetry", "common/text", "common/weights", "common/kv",
                             "common/device", "common/sampling", "common/routing", "common/transport", "common/model",
                             "common/handoff"},
    "common/rpc": BASE | {"common/config", "common/telemetry", "common/sampling", "proto:public", "proto:internal"},
}
COMMON = set(LAYERS) | {"proto:public", "proto:internal"}
# Programs use everything in common and never each other. What both workers share has a folder that only they use.
LAYERS["services/worker"] = COMMON
LAYERS["services/prefill"] = COMMON | {"services/worker"}
LAYERS["services/decode"] = COMMON | {"services/worker"}
LAYERS["services/router"] = COMMON
# The command line is a client: the public protos must do.
LAYERS["services/cli"] = COMMON - {"proto:internal"}

# rpc converts between wire types and sampling's plain data, and knows nothing of how sampling is done.
SAMPLING_FOR_RPC = {"common/sampling/params.h", "common/sampling/sampled_token.h"}

GRPC = re.compile(r"(grpc|grpcpp|google|opentelemetry|baton)/")
GRPC_FOLDERS = {"common/rpc", "services/router", "services/worker", "services/prefill", "services/decode", "services/cli"}

CUDA = re.compile(r"(cuda|cublas|nccl|nvtx|curand|driver_types|device_launch|cooperative_groups|mma\.h)")
CUDA_PLACES = ("kernels/cuda/", "common/device/", "common/engine/cuda_", "common/transport/nccl")
UCX = re.compile(r"(ucp|ucs|uct)/")
UCX_PLACES = ("common/transport/ucx/",)

# A switch may only choose what a catalogue lists.
SWITCHES = {"common/engine/catalogue.cc", "common/transport/catalogue.cc"}

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "proto", "common", "kernels", "services", "deploy", "helm", "tests",
             "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE", ".clang-format", ".clang-tidy", ".gitignore",
             ".dockerignore", ".ci", ".github"}
TESTS = {"unit", "kernels", "contract", "integration", "e2e", "fault", "fuzz", "golden", "bench", "gpu", "fakes", "sanitizers",
         "CMakeLists.txt", "README.md", "run.sh"}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)


def repository_files():
    """Files of the project: what git tracks or would track, or, without git, everything outside build folders."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                check=True, capture_output=True).stdout.decode().split("\0")
        files = [name for name in listed if name and os.path.exists(os.path.join(ROOT, name))]
        if files:
            return files
    except (OSError, subprocess.CalledProcessError):
        pass
    files = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in ("build", ".git", ".cache", "__pycache__")]
        files += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return files


FILES = repository_files()
SOURCES = [f for f in FILES if f.startswith(("common/", "kernels/", "services/"))
           and f.endswith((".h", ".cc", ".cu", ".cuh", ".inc"))]


def folder_of(path):
    """The layer of a source file or of an included path; None for the world outside."""
    parts = path.split("/")
    if parts[0] == "kernels":
        return "kernels"
    if parts[0] in ("common", "services") and len(parts) > 2:
        return "/".join(parts[:2])
    if parts[0] == "baton":
        return "proto:internal" if parts[1] == "internal" else "proto:public"
    return None


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def includes(path):
    return [quoted or angled for quoted, angled in INCLUDE.findall(text_of(path))]


class Architecture(unittest.TestCase):
    maxDiff = None

    def assert_none(self, violations, rule):
        self.assertEqual([], sorted(violations), rule)

    def test_there_is_something_to_check(self):
        self.assertGreater(len(SOURCES), 200)
        self.assertGreater(sum(len(includes(f)) for f in SOURCES), 1000)

    def test_every_folder_has_a_layer(self):
        self.assert_none({folder_of(f) for f in SOURCES if folder_of(f) not in LAYERS}, "folders without a layer")

    def test_folders_include_only_the_layers_below(self):
        violations = []
        for source in SOURCES:
            folder = folder_of(source)
            for included in includes(source):
                target = folder_of(included)
                if target and target != folder and target not in LAYERS.get(folder, set()):
                    violations.append(f"{source} includes {included}")
        self.assert_none(violations, "a layer may include only those of its line in LAYERS")

    def test_includes_of_the_project_exist_and_are_written_from_the_root(self):
        known = set(FILES)
        violations = []
        for source in SOURCES:
            for included in includes(source):
                if included.startswith(("common/", "kernels/", "services/")) and included not in known:
                    violations.append(f"{source} includes {included}, which does not exist")
                if included.startswith("."):
                    violations.append(f"{source} includes {included} by a relative path")
        self.assert_none(violations, "includes start at the repository's root")

    def test_wire_types_stop_at_the_edge(self):
        self.assert_none([f"{s} includes {i}" for s in SOURCES for i in includes(s)
                          if GRPC.match(i) and folder_of(s) not in GRPC_FOLDERS],
                         "gRPC and protos appear in rpc and services only")

    def test_rpc_takes_only_sampling_s_plain_data(self):
        self.assert_none([f"{s} includes {i}" for s in SOURCES for i in includes(s)
                          if folder_of(s) == "common/rpc" and folder_of(i) == "common/sampling" and i not in SAMPLING_FOR_RPC],
                         "rpc needs what goes into sampling and what comes out, not how")

    def test_device_and_network_libraries_stay_in_their_places(self):
        self.assert_none([f"{s} includes {i}" for s in SOURCES for i in includes(s)
                          if CUDA.match(i) and not s.startswith(CUDA_PLACES)], f"CUDA belongs to {CUDA_PLACES}")
        self.assert_none([f"{s} includes {i}" for s in SOURCES for i in includes(s)
                          if UCX.match(i) and not s.startswith(UCX_PLACES)], f"UCX belongs to {UCX_PLACES}")
        self.assert_none([s for s in SOURCES if s.endswith((".cu", ".cuh")) and not s.startswith(CUDA_PLACES)],
                         f"CUDA sources belong to {CUDA_PLACES}")

    def test_compile_switches_stand_where_a_catalogue_is_listed(self):
        found = {s for s in SOURCES if re.search(r"^\s*#\s*\w*if.*\bBATON_WITH_", text_of(s), re.M)}
        self.assert_none(found - SWITCHES, "BATON_WITH_* chooses lines of a catalogue, nowhere else")

    def test_top_level(self):
        self.assert_none({f.split("/")[0] for f in FILES} - TOP_LEVEL, "unexpected entries at the top")
        self.assert_none({f.split("/")[1] for f in FILES if f.startswith("tests/")} - TESTS, "unexpected entries in tests/")
        expected = {"CMakeLists.txt", "CMakePresets.json", "proto", "common", "kernels", "services", "deploy", "tests",
                    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE"}
        self.assert_none(expected - {f.split("/")[0] for f in FILES}, "missing entries at the top")

    def test_names_say_what_a_thing_is(self):
        self.assert_none([f for f in FILES if re.search(r"(manager|helper|util)", os.path.basename(f), re.I)],
                         "files named Manager, Helper or Util")
        named = re.compile(r"\b(?:class|struct)\s+(\w*(?:Manager|Helper|Util)s?)\b")
        self.assert_none([f"{s}: {name}" for s in SOURCES for name in named.findall(text_of(s))],
                         "classes named Manager, Helper or Util")

    def test_only_config_reads_the_environment(self):
        self.assert_none([s for s in SOURCES if re.search(r"\b(?:secure_)?getenv\s*\(", text_of(s))],
                         "flags and environment are read once, at start, by the flag library under common/config")

    def test_files_are_of_a_size_to_read(self):
        lengths = {s: text_of(s).count("\n") for s in SOURCES}
        self.assert_none([f"{s} has {n} lines" for s, n in lengths.items() if n > 600], "one idea a file")

    def test_links_of_the_documents_lead_somewhere(self):
        violations = []
        for document in (f for f in FILES if f.endswith(".md")):
            text = re.sub(r"```.*?```", "", text_of(document), flags=re.S)
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
                if "://" not in target and not os.path.exists(os.path.join(ROOT, os.path.dirname(document), target)):
                    violations.append(f"{document} links to {target}")
        self.assert_none(violations, "links between documents")


if __name__ == "__main__":
    unittest.main()
