#!/usr/bin/env python3
"""Makes tests/golden/models: tiny random checkpoints and what Hugging Face transformers computes with them.

Needs torch, transformers (5.x), tokenizers, safetensors and gguf; running Baton's tests needs none of them. Everything is
seeded. Expected values come from the files as written (reloaded with from_pretrained), f32 weights, eager attention, no KV
cache. A seed is taken only if every greedy choice is clear, so that a different order of additions cannot flip one.
"""
import argparse
import json
import pathlib
import re
import shutil

import gguf
import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (AutoModelForCausalLM, GenerationConfig, LlamaConfig, MistralConfig, Qwen2Config,
                          Qwen3Config)
from transformers.utils import logging

PROMPT_LENGTHS = (1, 5, 16, 17, 40)
NEW_TOKENS = 24
MIN_MARGIN = 0.02  # smallest gap between the best and the second best logit of any greedy step
VOCAB = 288        # 256 bytes, 29 merges, 3 special tokens
EOS = 287

# name -> config class, config, and what the test of it is for. `v5` keeps the rope_parameters key of transformers 5; the
# others are rewritten to rope_theta and rope_scaling, the form of nearly all published checkpoints.
MODELS = {
    # sliding_window without use_sliding_window must be ignored, as in the published Qwen2.5 configs.
    'qwen2': (Qwen2Config, dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                num_key_value_heads=2, tie_word_embeddings=True, rope_theta=1e6)),
    'qwen2-multi-head': (Qwen2Config, dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2,
                                           num_attention_heads=3, num_key_value_heads=3, tie_word_embeddings=False,
                                           rope_theta=10000.0, v5=True)),
    'qwen2-yarn': (Qwen2Config, dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
                                     num_key_value_heads=1, tie_word_embeddings=True, rope_theta=10000.0,
                                     max_position_embeddings=256,
                                     rope_scaling=dict(type='yarn', factor=4.0, original_max_position_embeddings=64))),
    # Layer 0 attends to everything, layers 1 and 2 to the last 8 tokens.
    'qwen2-window': (Qwen2Config, dict(hidden_size=64, intermediate_size=72, num_hidden_layers=3, num_attention_heads=4,
                                       num_key_value_heads=2, tie_word_embeddings=True, rope_theta=10000.0,
                                       use_sliding_window=True, sliding_window=8, max_window_layers=1)),
    'qwen3': (Qwen3Config, dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_theta=1e6)),
    # With 32 original positions the first pair of a head stays, the second is blended, the rest is divided by 8.
    'llama3': (LlamaConfig, dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                 num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, rope_theta=10000.0,
                                 max_position_embeddings=256,
                                 rope_scaling=dict(rope_type='llama3', factor=8.0, low_freq_factor=1.0,
                                                   high_freq_factor=4.0, original_max_position_embeddings=32))),
    'llama-linear': (LlamaConfig, dict(hidden_size=64, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4,
                                       num_key_value_heads=4, tie_word_embeddings=True, rope_theta=10000.0,
                                       max_position_embeddings=256,
                                       rope_scaling=dict(type='linear', factor=2.0))),
    'llama-multi-query': (LlamaConfig, dict(hidden_size=64, intermediate_size=120, num_hidden_layers=2,
                                            num_attention_heads=4, num_key_value_heads=1, tie_word_embeddings=False,
                                            rope_theta=10000.0)),
    'mistral': (MistralConfig, dict(hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4,
                                    num_key_value_heads=2, head_dim=16, tie_word_embeddings=False, sliding_window=None,
                                    rope_theta=10000.0, v5=True)),
    'mistral-window': (MistralConfig, dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                                           num_attention_heads=2, num_key_value_heads=1, head_dim=32,
                                           tie_word_embeddings=False, sliding_window=8, rope_theta=10000.0)),
    'qwen2-repetition-penalty': (Qwen2Config, dict(hidden_size=48, intermediate_size=64, num_hidden_layers=2,
                                                   num_attention_heads=3, num_key_value_heads=1,
                                                   tie_word_embeddings=True, rope_theta=1e6, repetition_penalty=1.3)),
    'llama-repetition-penalty': (LlamaConfig, dict(hidden_size=64, intermediate_size=64, num_hidden_layers=2,
                                                   num_attention_heads=4, num_key_value_heads=2,
                                                   tie_word_embeddings=True, rope_theta=10000.0,
                                                   repetition_penalty=1.3)),
}


def make_tokenizer():
  """Byte-level BPE with Qwen2's pre-tokenizer: bytes 0..255, a few merges, ChatML's special tokens last."""
  tokenizer = Tokenizer(models.BPE())
  tokenizer.normalizer = normalizers.NFC()
  tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
      pre_tokenizers.Split(
          Regex(
              r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
          'isolated'),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
  ])
  tokenizer.decoder = decoders.ByteLevel()
  text = ['the cat sat on the other mat and then there was a hat in the heat of the season'] * 4
  tokenizer.train_from_iterator(
      text, trainers.BpeTrainer(vocab_size=VOCAB - 3, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                show_progress=False))
  tokenizer.add_special_tokens(['<|endoftext|>', '<|im_start|>', '<|im_end|>'])
  assert tokenizer.get_vocab_size() == VOCAB and tokenizer.token_to_id('<|im_end|>') == EOS
  return tokenizer


CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
                 "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def write_tokenizer(directory, tokenizer):
  tokenizer.save(str(directory / 'tokenizer.json'), pretty=False)
  write_json(directory / 'tokenizer_config.json', {
      'tokenizer_class': 'Qwen2Tokenizer', 'add_prefix_space': False, 'bos_token': None, 'eos_token': '<|im_end|>',
      'pad_token': '<|endoftext|>', 'unk_token': None, 'clean_up_tokenization_spaces': False,
      'model_max_length': 256, 'chat_template': CHAT_TEMPLATE})


def write_json(path, value):
  text = json.dumps(value, indent=1, ensure_ascii=False)
  # One line for a list of numbers.
  path.write_text(re.sub(r'\[[-\d.e,\s]+\]', lambda m: ' '.join(m.group().split()), text) + '\n')


def init_weights(model, seed):
  """Weights under which every part matters: norms away from 1, biases, sharp attention, layers that outweigh the residual."""
  generator = torch.Generator().manual_seed(seed)
  for name, parameter in model.named_parameters():
    noise = torch.randn(parameter.shape, generator=generator)
    if name.endswith('bias'):
      value = 0.5 * noise
    elif name == 'model.norm.weight':
      value = 0.5 + 0.1 * noise  # keeps logits near a standard deviation of 4
    elif parameter.dim() == 1:
      value = 1.0 + 0.25 * noise
    elif 'embed_tokens' in name or 'lm_head' in name:
      value = noise
    elif 'o_proj' in name or 'down_proj' in name:
      value = 3.0 * noise / parameter.shape[1]**0.5
    else:
      value = 1.4 * noise / parameter.shape[1]**0.5
    parameter.data.copy_(value)


def make_prompts(seed):
  generator = torch.Generator().manual_seed(1000 + seed)
  return [torch.randint(0, VOCAB - 3, (length,), generator=generator).tolist() for length in PROMPT_LENGTHS]


@torch.no_grad()
def logits_of(model, ids):
  return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def penalise(logits, ids, penalty):
  """The repetition penalty of transformers: over prompt and answer, a positive score divided, a negative one multiplied."""
  seen = torch.tensor(sorted(set(ids)))
  scores = logits.clone()
  scores[seen] = torch.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
  return scores


def greedy(model, prompt, penalty):
  """Returns tokens, raw log-probabilities and margins, or None where a choice is not clear."""
  ids, logprobs, margins = list(prompt), [], []
  for _ in range(NEW_TOKENS):
    logits = logits_of(model, ids)[-1]
    best = torch.topk(penalise(logits, ids, penalty), 2)
    margins.append(float(best.values[0] - best.values[1]))
    token = int(best.indices[0])
    if margins[-1] < MIN_MARGIN or token == EOS:
      return None
    logprobs.append(float(torch.log_softmax(logits.double(), -1)[token]))
    ids.append(token)
  return ids[len(prompt):], logprobs, margins


def write_checkpoint(directory, model, options, tokenizer):
  shutil.rmtree(directory, ignore_errors=True)
  penalty = options.get('repetition_penalty')
  model.generation_config = GenerationConfig(eos_token_id=EOS, pad_token_id=VOCAB - 3, do_sample=False,
                                             repetition_penalty=penalty)
  model.save_pretrained(directory)
  path = directory / 'config.json'
  config = json.loads(path.read_text())
  if not options.get('v5'):
    parameters = config.pop('rope_parameters')
    config['rope_theta'] = parameters['rope_theta']
    config['rope_scaling'] = options.get('rope_scaling')
    config['torch_dtype'] = config.pop('dtype')
    config.pop('layer_types', None)
    config['transformers_version'] = '4.51.0'
    if config['model_type'] == 'qwen2' and not options.get('use_sliding_window'):
      config['sliding_window'] = 8
    if config['model_type'] == 'llama' and 'head_dim' not in options:
      config.pop('head_dim', None)
  write_json(path, config)
  write_tokenizer(directory, tokenizer)


def expect(model, name, options, prompts):
  """Everything a test compares with, or None where a greedy choice is not clear."""
  penalty = options.get('repetition_penalty') or 1.0
  cases, tensors = [], {}
  for i, prompt in enumerate(prompts):
    result = greedy(model, prompt, penalty)
    if result is None:
      return None
    tokens, logprobs, margins = result
    positions = sorted({0, len(prompt) // 2, max(len(prompt) - 2, 0), len(prompt) - 1})
    tensors[f'prompt_{i}.logits'] = logits_of(model, prompt)[positions].numpy()
    cases.append({'prompt': prompt, 'positions': positions, 'greedy': tokens, 'logprobs': logprobs, 'margins': margins})
  distinct = len({t for case in cases for t in case['greedy']})
  if distinct < 24 or min(len(set(case['greedy'])) for case in cases) < 6:
    return None  # a model that repeats itself hides errors
  # The same through transformers' own generate(): greedy, KV cache, penalty from generation_config.json.
  for case in cases:
    with torch.no_grad():
      out = model.generate(torch.tensor([case['prompt']]), max_new_tokens=NEW_TOKENS, output_scores=True,
                           output_logits=True, return_dict_in_generate=True)
    answer = out.sequences[0, len(case['prompt']):].tolist()
    assert answer == case['greedy'], (name, answer, case['greedy'])
    raw = [float(torch.log_softmax(l[0].double(), -1)[t]) for l, t in zip(out.logits, answer)]
    assert np.allclose(raw, case['logprobs'], atol=1e-4), name
    if penalty != 1.0:
      case['penalised_logprobs'] = [
          float(torch.log_softmax(s[0].double(), -1)[t]) for s, t in zip(out.scores, answer)]
  return {'model': name, 'repetition_penalty': penalty, 'vocab_size': VOCAB, 'cases': cases}, tensors


def check_feature_matters(directory, name, options, tensors, prompts):
  """The logits of the longest prompt must change clearly when the feature under test is taken out of config.json."""
  path = directory / 'config.json'
  original = path.read_text()
  config = json.loads(original)
  if options.get('rope_scaling'):
    config['rope_scaling'] = None
  elif options.get('sliding_window'):
    config['sliding_window'] = 4096
  else:
    return
  path.write_text(json.dumps(config))
  other = logits_of(load(directory), prompts[-1])[-1].numpy()
  path.write_text(original)
  difference = float(np.abs(other - tensors[f'prompt_{len(prompts) - 1}.logits'][-1]).max())
  assert difference > 0.5, (name, difference)
  print(f'  without the feature the last logits move by {difference:.2f}')


def load(directory):
  return AutoModelForCausalLM.from_pretrained(directory, attn_implementation='eager', dtype=torch.float32).eval()


def make_model(root, name, tokenizer):
  config_class, options = MODELS[name]
  options = dict(max_position_embeddings=128) | options
  kwargs = {k: v for k, v in options.items() if k not in ('v5', 'repetition_penalty', 'rope_theta', 'rope_scaling')}
  rope = {'rope_type': 'default'} | {('rope_type' if k == 'type' else k): v
                                     for k, v in (options.get('rope_scaling') or {}).items()}
  config = config_class(vocab_size=VOCAB, bos_token_id=None, eos_token_id=EOS, pad_token_id=None, rms_norm_eps=1e-6,
                        rope_parameters=rope | {'rope_theta': options['rope_theta']}, **kwargs)
  directory = root / name
  base = 100 * list(MODELS).index(name)
  for seed in range(base, base + 100000, 10007):
    model = AutoModelForCausalLM.from_config(config, attn_implementation='eager', dtype=torch.float32)
    for attempt in range(200):
      init_weights(model, seed + attempt)
      prompts = make_prompts(seed + attempt)
      if all(greedy(model, p, options.get('repetition_penalty') or 1.0) for p in prompts):
        write_checkpoint(directory, model, options, tokenizer)
        reloaded = load(directory)
        result = expect(reloaded, name, options, prompts)
        if result:
          expected, tensors = result
          expected['seed'] = seed + attempt
          write_json(directory / 'expected.json', expected)
          save_file(tensors, directory / 'expected.safetensors')
          margin = min(min(case['margins']) for case in expected['cases'])
          spread = float(np.std(tensors['prompt_4.logits']))
          print(f'{name}: seed {seed + attempt}, least margin {margin:.3f}, logits std {spread:.2f}', flush=True)
          check_feature_matters(directory, name, options, tensors, prompts)
          return reloaded, expected, tensors
  raise SystemExit(f'{name}: no seed gives clear greedy choices')


def permute(weight, heads):
  """llama.cpp's row order of q and k for the llama architecture: the two halves of a head interleaved."""
  return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


GGUF_NAMES = {
    'input_layernorm': 'attn_norm', 'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k',
    'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output', 'post_attention_layernorm': 'ffn_norm',
    'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down'}


def gguf_name(name):
  for old, new in (('model.embed_tokens', 'token_embd'), ('model.norm', 'output_norm'), ('lm_head', 'output')):
    if name.startswith(old + '.'):
      return new + name[len(old):]
  _, _, layer, rest = name.split('.', 3)
  module, kind = rest.rsplit('.', 1)
  return f'blk.{layer}.{GGUF_NAMES[module]}.{kind}'


def llama3_factors(config):
  """What llama.cpp's converter stores as rope_freqs: the divisor of each pair's frequency."""
  rope = config.rope_parameters
  dim, original = config.head_dim, rope['original_max_position_embeddings']
  factors = []
  for frequency in rope['rope_theta']**(-np.arange(0, dim, 2) / dim):
    turns = original * frequency / (2 * np.pi)
    blend = np.clip((turns - rope['low_freq_factor']) / (rope['high_freq_factor'] - rope['low_freq_factor']), 0, 1)
    factors.append(1 / ((1 - blend) / rope['factor'] + blend))
  return np.array(factors, np.float32)


def write_gguf(path, model, tokenizer, key_length=True, quantisation=None):
  """Writes the model as llama.cpp's converter does. Returns the state dict as f32 after quantisation, in HF's row order."""
  config = model.config
  arch = config.model_type
  writer = gguf.GGUFWriter(str(path), arch)
  writer.add_name(path.stem)
  writer.add_block_count(config.num_hidden_layers)
  writer.add_context_length(config.max_position_embeddings)
  writer.add_embedding_length(config.hidden_size)
  writer.add_feed_forward_length(config.intermediate_size)
  writer.add_head_count(config.num_attention_heads)
  writer.add_head_count_kv(config.num_key_value_heads)
  writer.add_layer_norm_rms_eps(config.rms_norm_eps)
  writer.add_rope_freq_base(config.rope_parameters['rope_theta'])
  head_dim = getattr(config, 'head_dim', None) or config.hidden_size // config.num_attention_heads
  if arch == 'llama':
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_dimension_count(head_dim)
  if key_length:
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
  writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if quantisation else gguf.LlamaFileType.ALL_F32)
  vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
  writer.add_tokenizer_model('gpt2')
  writer.add_tokenizer_pre('qwen2')
  writer.add_token_list([text for text, _ in vocab])
  control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
  writer.add_token_types([control if i >= VOCAB - 3 else normal for _, i in vocab])
  merges = json.loads(tokenizer.to_str())['model']['merges']
  writer.add_token_merges([m if isinstance(m, str) else ' '.join(m) for m in merges])
  writer.add_eos_token_id(EOS)
  writer.add_pad_token_id(VOCAB - 3)
  writer.add_add_bos_token(False)
  writer.add_chat_template(CHAT_TEMPLATE)
  kept = {}
  if config.rope_parameters['rope_type'] == 'llama3':
    factors = llama3_factors(config)
    plain = config.rope_parameters['rope_theta']**(-np.arange(0, head_dim, 2) / head_dim)
    assert np.allclose(plain / factors, model.model.rotary_emb.inv_freq.numpy(), rtol=1e-6)
    writer.add_tensor('rope_freqs.weight', factors)
  for name, tensor in model.state_dict().items():
    if name == 'lm_head.weight' and config.tie_word_embeddings:
      continue
    heads = {'q': config.num_attention_heads, 'k': config.num_key_value_heads}.get(
        name.split('self_attn.')[-1][0] if 'self_attn.' in name and '_proj' in name else '')
    value = tensor.numpy()
    permuted = permute(value, heads) if arch == 'llama' and heads else value
    if quantisation and value.ndim == 2:
      blocks = gguf.quants.quantize(permuted, quantisation)
      writer.add_tensor(gguf_name(name), blocks, raw_dtype=quantisation)
      # Rows keep their blocks, so quantising in HF's order gives the same numbers.
      kept[name] = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(value, quantisation), quantisation))
    else:
      writer.add_tensor(gguf_name(name), np.ascontiguousarray(permuted))
      kept[name] = tensor
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return kept


def make_quantised_gguf(root, name, model, tokenizer, prompts):
  path = root / f'{name}.q8_0.gguf'
  weights = write_gguf(path, model, tokenizer, quantisation=gguf.GGMLQuantizationType.Q8_0)
  model.load_state_dict(weights, strict=False)
  model.tie_weights()
  save_file({f'prompt_{i}.logits': logits_of(model, p)[-1:].numpy() for i, p in enumerate(prompts)},
            root / f'{name}.q8_0.expected.safetensors')


def make_blocks(path):
  """Blocks of every quantised GGUF type, random but for sane scales, with the values the gguf package gives them."""
  rng = np.random.default_rng(7)
  tensors = {}
  scale_offsets = {'Q4_0': (0,), 'Q4_1': (0, 2), 'Q8_0': (0,), 'Q4_K': (0, 2), 'Q5_K': (0, 2), 'Q6_K': (208,)}
  for name, offsets in scale_offsets.items():
    kind = gguf.GGMLQuantizationType[name]
    _, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (6, size), dtype=np.uint8)
    for offset in offsets:
      scale = rng.normal(0, 0.05, 6).astype(np.float16)
      blocks[:, offset:offset + 2] = scale.view(np.uint8).reshape(6, 2)
    tensors[f'{name}.blocks'] = blocks
    tensors[f'{name}.values'] = gguf.quants.dequantize(blocks, kind).astype(np.float32)
  save_file(tensors, path)


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--out', type=pathlib.Path, default=pathlib.Path(__file__).parent / 'models')
  parser.add_argument('names', nargs='*', help='only these models')
  arguments = parser.parse_args()
  torch.set_num_threads(1)
  logging.disable_progress_bar()
  root = arguments.out
  root.mkdir(parents=True, exist_ok=True)
  tokenizer = make_tokenizer()
  for name in arguments.names or MODELS:
    model, expected, _ = make_model(root, name, tokenizer)
    prompts = [case['prompt'] for case in expected['cases']]
    if name in ('qwen2', 'llama3', 'llama-multi-query'):
      # One with the head size in the file, the others leave it to embedding length / heads.
      write_gguf(root / f'{name}.gguf', model, tokenizer, key_length=name == 'llama3')
    if name == 'llama3':
      make_quantised_gguf(root, name, model, tokenizer, prompts)
  make_blocks(root / 'gguf_blocks.safetensors')


if __name__ == '__main__':
  main()
