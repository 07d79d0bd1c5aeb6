#!/usr/bin/env python3
"""Writes quants.gguf (one tensor per format) and quants.f32: the same tensors as f32, in order of names, dequantised by
the `gguf` package (PyPI). Random bytes make every bit count; only the f16 scales are kept small and finite."""
import pathlib
import numpy as np
import gguf
from gguf import GGMLQuantizationType as T

# format: byte offsets of f16 scales within a block
FORMATS = {T.F16: None, T.BF16: None, T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q4_K: [0, 2], T.Q5_K: [0, 2],
           T.Q6_K: [208]}
here = pathlib.Path(__file__).parent
rng = np.random.default_rng(20240607)
writer = gguf.GGUFWriter(here / "quants.gguf", "llama")
expected = {}
for kind, scales in FORMATS.items():
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    rows, cols = (2, 256) if elements > 1 else (2, 16)
    blocks = rng.integers(0, 256, (rows, cols // elements, size), dtype=np.uint8)
    if scales is None:
        values = rng.standard_normal((rows, cols, 1)).astype(np.float32)
        values[0, 0], values[0, 1], values[0, 2] = -0.0, 2.0 ** -20, 300.0
        raw = values.astype(np.float16).view(np.uint8) if kind == T.F16 else (
            (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8))
        blocks = raw.reshape(rows, cols, size)
    else:
        for offset in scales:
            scale = (rng.standard_normal((rows, cols // elements, 1)) * 0.01).astype(np.float16)
            blocks[:, :, offset:offset + 2] = scale.view(np.uint8)
    data = np.ascontiguousarray(blocks.reshape(rows, -1))
    name = f"tensor.{kind.name.lower()}"
    writer.add_tensor(name, data, raw_dtype=kind)
    expected[name] = gguf.dequantize(data, kind).astype("<f4")
    assert np.isfinite(expected[name]).all() and expected[name].shape == (rows, cols)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
(here / "quants.f32").write_bytes(b"".join(expected[name].tobytes() for name in sorted(expected)))
