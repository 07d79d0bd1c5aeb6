#!/usr/bin/env python3
"""What Hugging Face transformers makes of the same shape on the same GPU: eager generate() and pipeline(), random bf16 weights,
offline. Appends records to a file, as gpu_bench does. Exit status 77 without torch, transformers or a CUDA device."""

import argparse
import json
import os
import statistics
import sys
import time

os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

# As in common/model/shapes.cc: layers, hidden, heads, KV heads, feed-forward, vocabulary, tied head.
SHAPES = {
    "tiny": (2, 64, 4, 2, 128, 320, True),
    "qwen2.5-0.5b": (24, 896, 14, 2, 4864, 151936, True),
    "qwen2.5-1.5b": (28, 1536, 12, 2, 8960, 151936, True),
    "qwen2.5-7b": (28, 3584, 28, 4, 18944, 152064, False),
}


def make_model(torch, transformers, name, device):
    layers, hidden, heads, kv_heads, intermediate, vocab, tied = SHAPES[name]
    config = transformers.Qwen2Config(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv_heads,
        intermediate_size=intermediate, vocab_size=vocab, tie_word_embeddings=tied, max_position_embeddings=32768,
        bos_token_id=1, eos_token_id=2)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):  # weights are drawn where they are used
            model = transformers.AutoModelForCausalLM.from_config(config)
    finally:
        torch.set_default_dtype(before)
    return model.to(device).eval()


def make_tokenizer(transformers, vocab):
    """Words w0, w1, ...: any text of them has as many tokens as words."""
    import tokenizers
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(vocab)}, unk_token="w0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w0", eos_token="w2")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(SHAPES), default="qwen2.5-0.5b")
    parser.add_argument("--records", required=True, help="file that JSON lines are appended to")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--device", default="cuda", help="cpu: to try this script out")
    args = parser.parse_args()
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"transformers_baseline: {error}")
        return 77
    if args.device == "cuda" and not torch.cuda.is_available():
        print("transformers_baseline: no CUDA device")
        return 77

    def write(record):
        line = json.dumps({"measure": "transformers", "model": args.model, "versions":
                           f"torch {torch.__version__}, transformers {transformers.__version__}", **record})
        print(line, flush=True)
        with open(args.records, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def seconds_of(call, rounds=3):
        times = []
        for _ in range(rounds + 1):
            start = time.perf_counter()
            call()
            if args.device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times[1:])

    model = make_model(torch, transformers, args.model, args.device)
    vocab = model.config.vocab_size
    generator = torch.Generator().manual_seed(1)
    greedy = {"do_sample": False, "use_cache": True, "pad_token_id": 0}

    with torch.inference_mode():
        for batch in map(int, args.batches.split(",")):
            ids = torch.randint(3, vocab, (batch, args.prompt), generator=generator).to(args.device)
            mask = torch.ones_like(ids)

            def generate(new):
                model.generate(input_ids=ids, attention_mask=mask, min_new_tokens=new, max_new_tokens=new, **greedy)

            # The prompt's part is in both; what is left is that of single tokens.
            short, long = seconds_of(lambda: generate(1)), seconds_of(lambda: generate(1 + args.new_tokens))
            each = (long - short) / args.new_tokens
            write({"what": "generate()", "batch": batch, "prompt": args.prompt, "new_tokens": args.new_tokens,
                   "seconds_per_token": each, "tokens_per_second": batch / each, "prompt_seconds": short})

        pipe = transformers.pipeline("text-generation", model=model, tokenizer=make_tokenizer(transformers, vocab))
        text = " ".join(f"w{int(i)}" for i in torch.randint(3, vocab, (args.prompt,), generator=generator))
        new = args.new_tokens
        seconds = seconds_of(lambda: pipe(text, min_new_tokens=new, max_new_tokens=new, do_sample=False))
        write({"what": "pipeline()", "batch": 1, "prompt": args.prompt, "new_tokens": new,
               "seconds_per_token": seconds / new, "tokens_per_second": new / seconds})
    return 0


if __name__ == "__main__":
    sys.exit(main())
