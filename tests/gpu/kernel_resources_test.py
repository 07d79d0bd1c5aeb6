"""What each CUDA kernel needs of a multiprocessor, as ptxas reported when it was compiled: a table, and no spilled register."""

import collections
import glob
import os
import re
import subprocess
import sys
import unittest

REPORTS = sys.argv.pop(1)

Use = collections.namedtuple("Use", "registers shared stores loads")


def demangled(names):
    out = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True).stdout.splitlines()
    short = (re.sub(r"\(anonymous namespace\)::|baton::cuda::|\(.*|^void ", "", re.sub(r"\(anonymous namespace\)::", "", name))
             for name in out)
    return dict(zip(names, short))


def read_reports():
    """{kernel: {architecture: Use}}"""
    kernels = collections.defaultdict(dict)
    for path in sorted(glob.glob(os.path.join(REPORTS, "*.txt"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for entry in re.split(r"Compiling entry function ", text)[1:]:
            name, architecture = re.match(r"'(\S+)' for '(\S+)'", entry).groups()
            stores, loads = map(int, re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", entry).groups())
            registers = int(re.search(r"Used (\d+) registers", entry).group(1))
            shared = re.search(r"(\d+) bytes smem", entry)
            kernels[name][architecture] = Use(registers, int(shared.group(1)) if shared else 0, stores, loads)
    names = demangled(list(kernels))
    return {names[name]: uses for name, uses in kernels.items()}


class KernelResources(unittest.TestCase):
    def test_kernels_spill_no_register(self):
        kernels = read_reports()
        architectures = sorted({a for uses in kernels.values() for a in uses}, key=lambda a: int(a[3:]))
        print("\nregisters (+ bytes spilled) a thread, static shared memory a block")
        print(f"{'kernel':40}" + "".join(f"{a:>16}" for a in architectures))
        for name, uses in sorted(kernels.items()):
            cells = ((f"{u.registers}" + (f"+{u.stores + u.loads}" if u.stores + u.loads else "") + f", {u.shared} B")
                     if u else "" for u in map(uses.get, architectures))
            print(f"{name:40}" + "".join(f"{cell:>16}" for cell in cells))
        attention = {name: uses for name, uses in kernels.items() if re.match(r"(Decode|Merge|Prefill)Kernel", name)}
        self.assertGreaterEqual(len(attention), 16, "the reports are incomplete")
        self.assertEqual([], [(name, a) for name, uses in kernels.items() for a, u in uses.items() if u.stores or u.loads])


if __name__ == "__main__":
    unittest.main()
