#!/usr/bin/env python3
"""Loads the saved demo model with Hugging Face transformers and asks every documented question, greedily, on the CPU.

Needs torch and transformers. Independent of train.py: weights, tokenizer and chat template come from the files alone.
"""
import argparse
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

SYSTEMS = [None, 'You are a helpful assistant.', 'You answer in rhymes. The office closes at 6.']


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('directory', type=pathlib.Path, nargs='?', default=pathlib.Path(__file__).parent)
  parser.add_argument('--ask', help='ask this instead and print the answer')
  arguments = parser.parse_args()
  torch.set_num_threads(1)
  tokenizer = AutoTokenizer.from_pretrained(arguments.directory)
  stored = AutoModelForCausalLM.from_pretrained(arguments.directory, dtype=torch.bfloat16)
  assert all(torch.isfinite(p).all() for p in stored.parameters())
  print(f'{sum(p.numel() for p in stored.parameters()):,} parameters')
  model = stored.float().eval()  # weights as stored, arithmetic in f32
  questions = json.loads((arguments.directory / 'questions.json').read_text())

  def ask(messages, limit=600):
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, return_tensors='pt', add_special_tokens=False)['input_ids']
    with torch.no_grad():
      out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=limit, do_sample=False,
                           output_logits=True, return_dict_in_generate=True)
    answer = out.sequences[0, ids.shape[1]:]
    best = [torch.topk(logits[0], 2).values for logits in out.logits]
    return tokenizer.decode(answer, skip_special_tokens=True), min(float(b[0] - b[1]) for b in best), len(answer)

  if arguments.ask:
    answer, margin, count = ask([{'role': 'user', 'content': arguments.ask}])
    print(f'{answer}\n[{count} tokens, least margin {margin:.2f}]')
    return
  wrong, least, asked = 0, float('inf'), 0
  before = None
  for question, expected in questions.items():
    turns = [[]] + ([[{'role': 'user', 'content': before}, {'role': 'assistant', 'content': questions[before]}]]
                    if before else [])
    for system in SYSTEMS:
      for turn in turns:
        head = [{'role': 'system', 'content': system}] if system else []
        answer, margin, _ = ask(head + turn + [{'role': 'user', 'content': question}])
        asked += 1
        least = min(least, margin)
        if answer != expected:
          wrong += 1
          print(f'{question!r} (system {system!r}, {len(turn) // 2} turns before)\n  expected {expected!r}\n  got      {answer!r}')
    before = question
  print(f'{asked - wrong} of {asked} answers exact, least margin {least:.2f}')
  if wrong:
    raise SystemExit(1)


if __name__ == '__main__':
  main()
