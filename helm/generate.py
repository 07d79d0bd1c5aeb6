#!/usr/bin/env python3
"""Writes what of the chart is made from other files: its README (from the comments of values.yaml), and the copies of rules and
dashboards that a chart must hold itself. Run it after a change of those; a test compares.

    generate.py [--check]      --check: changes nothing, lists what is out of date, exit status 1
"""

import glob
import os
import re
import sys

HERE = os.path.realpath(os.path.dirname(__file__))
CHART = os.path.join(HERE, "baton")
DEPLOY = os.path.join(HERE, "..", "deploy")
MARK = "<!-- values: made by helm/generate.py -->\n"


def values(text):
    """(path, default, comment) of every leaf of values.yaml, and of every map or list that has a comment."""
    rows, path, comment = [], [], []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("# -- "):
            comment = [stripped[5:]]
        elif stripped.startswith("#"):
            if comment:
                comment.append(line.lstrip()[1:].removeprefix(" ").rstrip())
        elif match := re.match(r"( *)([A-Za-z]\w*):(?: (.*))?$", line):
            depth = len(match[1]) // 2
            path = path[:depth] + [match[2]]
            default = match[3]
            if default is None:  # a block follows
                if comment:
                    block = []
                    for following in lines[number + 1:]:
                        if following.strip() and not following.startswith(match[1] + " "):
                            break
                        block.append(following)
                    if block and block[0].strip().startswith("- "):
                        default = "see values.yaml" if len(block) > 2 else block[0].strip()
                    else:
                        default = ""
                    rows.append((".".join(path), default, comment))
            elif not (len(path) > 1 and path[0] == "models"):
                rows.append((".".join(path), default, comment))
            comment = []
        else:
            comment = []
    return rows


def table(text):
    out, extra = ["| value | default | meaning |", "| --- | --- | --- |"], []
    for path, default, comment in values(text):
        lines = [line for line in comment if not line.startswith("  ")]
        meaning = " ".join(line for line in lines if line)
        code = f"`{default}`" if default else ""
        out.append(f"| `{path}` | {code} | {meaning} |")
        details = [line[2:] for line in comment if line.startswith("  ")]
        if details:
            extra += ["", f"An entry of `{path}`:", "", *details]
    return "\n".join(out + extra) + "\n"


def outputs():
    """{path: content} of everything this script writes."""
    out = {}
    readme = os.path.join(CHART, "README.md")
    with open(readme, encoding="utf-8") as file:
        head = file.read().partition(MARK)[0]
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
        out[readme] = head + MARK + table(file.read())
    for pattern, folder in (("prometheus/rules/*.yaml", "rules"), ("grafana/*.json", "dashboards")):
        for source in sorted(glob.glob(os.path.join(DEPLOY, pattern))):
            with open(source, encoding="utf-8") as file:
                out[os.path.join(CHART, "files", folder, os.path.basename(source))] = file.read()
    return out


def stale():
    """Paths that are not as outputs() has them, and copies whose original is gone."""
    wanted = outputs()
    found = []
    for path, content in wanted.items():
        try:
            with open(path, encoding="utf-8") as file:
                current = file.read()
        except FileNotFoundError:
            current = None
        if current != content:
            found.append(path)
    return found + [path for path in glob.glob(os.path.join(CHART, "files", "*", "*")) if path not in wanted]


def main():
    out_of_date = stale()
    for path in out_of_date:
        print(os.path.relpath(path))
    if "--check" in sys.argv[1:]:
        sys.exit(1 if out_of_date else 0)
    wanted = outputs()
    for path in out_of_date:
        if path not in wanted:
            os.remove(path)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(wanted[path])


if __name__ == "__main__":
    main()
