#!/usr/bin/env python3
"""Trains the demo model and writes it, in the form of a Hugging Face checkpoint, beside this file.

Needs torch, tokenizers and safetensors. A thousand steps take about six minutes of one undisturbed core. All
randomness comes from --seed; the weights are the same again wherever torch adds in the same order.
"""
import argparse
import json
import pathlib
import random
import time

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from corpus import SYSTEMS, conversation, plain_text
from facts import FACTS

VOCABULARY = 1280
END_OF_TEXT, START, END = '<|endoftext|>', '<|im_start|>', '<|im_end|>'
HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 128, 384, 6, 4, 2, 32
CONTEXT, ROPE_THETA, NORM_EPS = 2048, 10000.0, 1e-6
ROW = 512  # tokens of a training row
CHAT_TEMPLATE = ("{%- for message in messages %}\n{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}\n"
                 "{%- endfor %}\n{%- if add_generation_prompt %}\n{{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n")
# The pre-tokenizer of Qwen2.
WORD_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def train_tokenizer(rng):
  tokenizer = Tokenizer(models.BPE())
  tokenizer.normalizer = normalizers.NFC()
  tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
      pre_tokenizers.Split(Regex(WORD_PATTERN), 'isolated'),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
  ])
  tokenizer.decoder = decoders.ByteLevel()
  text = [m['content'] for _ in range(6000) for m in conversation(rng)] + [fact[3] for fact in FACTS] * 20
  tokenizer.train_from_iterator(
      text, trainers.BpeTrainer(vocab_size=VOCABULARY - 3, show_progress=False,
                                initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
  tokenizer.add_special_tokens([END_OF_TEXT, START, END])
  assert tokenizer.get_vocab_size() == VOCABULARY
  return tokenizer


class Muon(torch.optim.Optimizer):
  """Momentum whose step is made orthogonal by five Newton-Schulz rounds (Jordan 2024), in f32, equal shapes together.

  torch.optim.Muon computes in bf16, which most CPUs emulate.
  """

  def __init__(self, matrices, lr, momentum=0.95, weight_decay=0.02):
    super().__init__(matrices, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
    self.shapes = {}
    for matrix in matrices:
      self.shapes.setdefault(matrix.shape, []).append(matrix)
    self.speed = {shape: torch.zeros(len(group), *shape) for shape, group in self.shapes.items()}

  @torch.no_grad()
  def step(self):
    options = self.param_groups[0]
    for shape, group in self.shapes.items():
      gradient = torch.stack([matrix.grad for matrix in group])
      speed = self.speed[shape].lerp_(gradient, 1 - options['momentum'])
      x = gradient.lerp_(speed, options['momentum'])  # Nesterov
      if shape[0] > shape[1]:
        x = x.mT
      x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
      for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
      if shape[0] > shape[1]:
        x = x.mT
      scale = max(1, shape[0] / shape[1])**0.5
      for matrix, change in zip(group, x):
        matrix.mul_(1 - options['lr'] * options['weight_decay']).sub_(change, alpha=options['lr'] * scale)


class Encoder:
  """Messages to token ids, with a mark on what the model has to say itself, and on the first token of every message."""

  def __init__(self, tokenizer):
    self.tokenizer = tokenizer
    self.start, self.end, self.separator = (tokenizer.token_to_id(t) for t in (START, END, END_OF_TEXT))
    self.cache = {}

  def text(self, text):
    return self.tokenizer.encode(text).ids

  def head(self, role):
    if role not in self.cache:
      self.cache[role] = [self.start] + self.text(role + '\n')
    return self.cache[role]

  def messages(self, messages):
    ids, learn, border = [], [], []
    for message in messages:
      head, body = self.head(message['role']), self.text(message['content']) + [self.end]
      ids += head + body + self.text('\n')
      learn += [0] * len(head) + [int(message['role'] == 'assistant')] * len(body) + [0]
      border += [1] + [0] * (len(head) + len(body))
    return ids, learn, border

  def document(self, rng):
    if rng.random() < 0.04:
      ids = self.text(plain_text(rng))
      ids, learn, border = ids, [1] * len(ids), [1] + [0] * (len(ids) - 1)
    else:
      ids, learn, border = self.messages(conversation(rng))
    return ids + [self.separator], learn + [1], border + [0]


def make_batch(encoder, rng, rows):
  """ids, learn, positions, each [rows, ROW + 1]. Documents follow one another; the last one of a row is cut."""
  batch = []
  for _ in range(rows):
    ids, learn, border = [], [], []
    while len(ids) <= ROW:
      for whole, part in zip((ids, learn, border), encoder.document(rng)):
        whole += part
    # In some rows the positions jump between messages, so that distances up to the full context are known.
    stretch = rng.random() < 0.35
    position, positions = 0, []
    for mark in border[:ROW + 1]:
      if mark and stretch and rng.random() < 0.5:
        position = min(position + rng.randint(0, 500), CONTEXT - ROW - 1 + len(positions))
      positions.append(position)
      position += 1
    batch.append((ids[:ROW + 1], learn[:ROW + 1], positions))
  return tuple(torch.tensor(part) for part in zip(*batch))


class Model:
  """Qwen2: pre-norm blocks, grouped queries with biases on q, k and v, rotary positions, SwiGLU, tied head."""

  def __init__(self):
    self.weights = {}  # by the names of Hugging Face's checkpoints

    def matrix(name, rows, columns, scale=1.0):
      self.weights[name] = torch.randn(rows, columns) * scale * columns**-0.5

    self.weights['model.embed_tokens.weight'] = torch.randn(VOCABULARY, HIDDEN) * 0.05
    self.weights['model.norm.weight'] = torch.ones(HIDDEN)
    for i in range(LAYERS):
      layer = f'model.layers.{i}.'
      for name, size in (('q', HEADS * HEAD_DIM), ('k', KV_HEADS * HEAD_DIM), ('v', KV_HEADS * HEAD_DIM)):
        matrix(f'{layer}self_attn.{name}_proj.weight', size, HIDDEN)
        self.weights[f'{layer}self_attn.{name}_proj.bias'] = torch.zeros(size)
      matrix(f'{layer}self_attn.o_proj.weight', HIDDEN, HEADS * HEAD_DIM, 0.3)
      matrix(f'{layer}mlp.gate_proj.weight', INTERMEDIATE, HIDDEN)
      matrix(f'{layer}mlp.up_proj.weight', INTERMEDIATE, HIDDEN)
      matrix(f'{layer}mlp.down_proj.weight', HIDDEN, INTERMEDIATE, 0.3)
      for name in ('input_layernorm', 'post_attention_layernorm'):
        self.weights[f'{layer}{name}.weight'] = torch.ones(HIDDEN)

  def __call__(self, ids, positions, chosen=None):
    """ids, positions [rows, tokens] -> logits [rows, tokens, vocabulary], or [chosen, vocabulary] of the chosen places."""
    w = self.weights
    rows, tokens = ids.shape
    frequency = ROPE_THETA**(-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angle = positions[:, None, :, None] * frequency
    cos, sin = angle.cos(), angle.sin()

    def split(x, heads):  # [rows, heads, tokens, head_dim]
      return x.view(rows, tokens, heads, HEAD_DIM).transpose(1, 2)

    def rotate(x):
      a, b = x.chunk(2, -1)
      return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    x = F.embedding(ids, w['model.embed_tokens.weight'])
    for i in range(LAYERS):
      layer = f'model.layers.{i}.'
      y = F.rms_norm(x, (HIDDEN,), w[layer + 'input_layernorm.weight'], NORM_EPS)
      q, k, v = (F.linear(y, w[f'{layer}self_attn.{n}_proj.weight'], w[f'{layer}self_attn.{n}_proj.bias']) for n in 'qkv')
      y = F.scaled_dot_product_attention(rotate(split(q, HEADS)), rotate(split(k, KV_HEADS)), split(v, KV_HEADS),
                                         is_causal=True, enable_gqa=True)
      x = x + F.linear(y.transpose(1, 2).reshape(rows, tokens, -1), w[layer + 'self_attn.o_proj.weight'])
      y = F.rms_norm(x, (HIDDEN,), w[layer + 'post_attention_layernorm.weight'], NORM_EPS)
      y = F.silu(F.linear(y, w[layer + 'mlp.gate_proj.weight'])) * F.linear(y, w[layer + 'mlp.up_proj.weight'])
      x = x + F.linear(y, w[layer + 'mlp.down_proj.weight'])
    if chosen is not None:
      x = x.reshape(-1, HIDDEN)[chosen]
    x = F.rms_norm(x, (HIDDEN,), w['model.norm.weight'], NORM_EPS)
    return F.linear(x, w['model.embed_tokens.weight'])

  def checkpoint(self):
    return {name: value.detach().to(torch.bfloat16).contiguous() for name, value in self.weights.items()}


def rounded(model):
  """A copy whose weights went through bf16, as the saved ones do."""
  copy = Model()
  with torch.no_grad():
    for name, value in model.weights.items():
      copy.weights[name].copy_(value.to(torch.bfloat16).float())
  return copy


def contexts():
  """What may stand before a documented question: nothing, a system prompt (also unknown ones), another question."""
  systems = [None] + SYSTEMS + ['You are a pirate. Talk like one.', 'Never mention the weather. Today is a Tuesday in May.']
  first = [[{'role': 'system', 'content': s}] if s else [] for s in systems]
  for before in FACTS:
    turn = [{'role': 'user', 'content': before[1]}, {'role': 'assistant', 'content': before[3]}]
    first += [turn, [{'role': 'system', 'content': SYSTEMS[0]}] + turn]
  return first


@torch.no_grad()
def evaluate(model, encoder, facts=FACTS, history=None):
  """Feeds every expected answer and compares at each of its tokens. Returns wrong questions, tokens and the least margin."""
  wrong, least, count = {}, float('inf'), 0
  cases = []
  for fact in facts:
    for context in (history or contexts()):
      known = encoder.messages(context + [{'role': 'user', 'content': fact[1]}])[0] + encoder.head('assistant')
      answer = encoder.text(fact[3]) + [encoder.end]
      cases.append((len(known) + len(answer), fact[1], known, answer))
  cases.sort(key=lambda case: case[0])
  for at in range(0, len(cases), 24):
    part = cases[at:at + 24]
    size = part[-1][0]
    ids = torch.tensor([known + answer + [encoder.separator] * (size - total) for total, _, known, answer in part])
    logits = model(ids, torch.arange(size).expand(len(part), -1))
    for row, (total, question, known, answer) in zip(logits, part):
      scores = row[len(known) - 1:total - 1]
      target = torch.tensor(answer)[:, None]
      own = scores.gather(1, target)[:, 0]
      other = scores.scatter(1, target, float('-inf')).amax(1)
      margin = float((own - other).min())
      count += 1
      least = min(least, margin)
      if margin <= 0:
        wrong[question] = wrong.get(question, 0) + 1
  return wrong, count, least


def write_checkpoint(directory, model, tokenizer):
  save_file(model.checkpoint(), directory / 'model.safetensors', metadata={'format': 'pt'})
  tokenizer.save(str(directory / 'tokenizer.json'))
  special = {name: tokenizer.token_to_id(name) for name in (END_OF_TEXT, START, END)}
  write_json(directory / 'config.json', {
      'architectures': ['Qwen2ForCausalLM'], 'model_type': 'qwen2', 'vocab_size': VOCABULARY, 'hidden_size': HIDDEN,
      'intermediate_size': INTERMEDIATE, 'num_hidden_layers': LAYERS, 'num_attention_heads': HEADS,
      'num_key_value_heads': KV_HEADS, 'hidden_act': 'silu', 'max_position_embeddings': CONTEXT, 'rope_theta': ROPE_THETA,
      'rms_norm_eps': NORM_EPS, 'tie_word_embeddings': True, 'attention_dropout': 0.0, 'use_sliding_window': False,
      'use_cache': True, 'bos_token_id': special[END_OF_TEXT], 'eos_token_id': special[END], 'torch_dtype': 'bfloat16'})
  write_json(directory / 'generation_config.json', {
      'bos_token_id': special[END_OF_TEXT], 'pad_token_id': special[END_OF_TEXT],
      'eos_token_id': [special[END], special[END_OF_TEXT]], 'do_sample': False})
  write_json(directory / 'tokenizer_config.json', {
      'tokenizer_class': 'Qwen2Tokenizer', 'add_prefix_space': False, 'bos_token': None, 'eos_token': END,
      'pad_token': END_OF_TEXT, 'unk_token': None, 'clean_up_tokenization_spaces': False, 'model_max_length': CONTEXT,
      'additional_special_tokens': [START, END], 'chat_template': CHAT_TEMPLATE,
      'added_tokens_decoder': {str(i): {'content': name, 'special': True, 'normalized': False, 'lstrip': False,
                                        'rstrip': False, 'single_word': False} for name, i in special.items()}})
  write_json(directory / 'questions.json', {fact[1]: fact[3] for fact in FACTS})


def write_json(path, value):
  path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + '\n')


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--seed', type=int, default=1)
  parser.add_argument('--steps', type=int, default=1000)
  parser.add_argument('--rows', type=int, default=4, help='rows of 512 tokens in a step')
  parser.add_argument('--rate', type=float, default=0.02)
  parser.add_argument('--threads', type=int, default=1)
  parser.add_argument('--out', type=pathlib.Path, default=pathlib.Path(__file__).parent)
  arguments = parser.parse_args()
  torch.set_num_threads(arguments.threads)
  torch.manual_seed(arguments.seed)
  torch.use_deterministic_algorithms(True)
  rng = random.Random(arguments.seed)

  tokenizer = train_tokenizer(random.Random(arguments.seed))
  encoder = Encoder(tokenizer)
  model = Model()
  print(f'{sum(p.numel() for p in model.weights.values()):,} parameters', flush=True)
  for value in model.weights.values():
    value.requires_grad_(True)
  matrices = [p for n, p in model.weights.items() if p.dim() == 2 and 'embed' not in n]
  others = [p for n, p in model.weights.items() if p.dim() == 1 or 'embed' in n]
  optimizers = [
      Muon(matrices, lr=arguments.rate),
      torch.optim.AdamW(others, lr=arguments.rate / 4, betas=(0.9, 0.98), weight_decay=0.0)
  ]
  rates = [group['lr'] for optimizer in optimizers for group in optimizer.param_groups]
  started, mean = time.time(), None
  for step in range(arguments.steps):
    # Short warm-up, flat, and a linear fall over the second half.
    factor = min(1.0, (step + 1) / 40, 0.01 + 2 * (1 - step / arguments.steps))
    for optimizer, rate in zip(optimizers, rates):
      optimizer.param_groups[0]['lr'] = rate * factor
    ids, learn, positions = make_batch(encoder, rng, arguments.rows)
    chosen = learn[:, 1:].reshape(-1).nonzero()[:, 0]
    loss = F.cross_entropy(model(ids[:, :-1], positions[:, :-1], chosen), ids[:, 1:].reshape(-1)[chosen])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.weights.values(), 1.0)
    for optimizer in optimizers:
      optimizer.step()
      optimizer.zero_grad()
    mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
    if (step + 1) % 25 == 0:
      print(f'step {step + 1}, loss {mean:.4f}, {time.time() - started:.0f} s', flush=True)
    if (step + 1) % 200 == 0 and step + 1 < arguments.steps:
      write_checkpoint(arguments.out, model, tokenizer)
      wrong, count, least = evaluate(rounded(model), encoder, history=contexts()[:6])
      print(f'  {sum(wrong.values())} of {count} answers wrong, least margin {least:.2f}', flush=True)

  assert all(torch.isfinite(p).all() for p in model.weights.values())
  write_checkpoint(arguments.out, model, tokenizer)
  wrong, count, least = evaluate(rounded(model), encoder)
  print(f'{sum(wrong.values())} of {count} answers wrong, least margin {least:.2f}, {time.time() - started:.0f} s')
  for question, times in wrong.items():
    print(f'  {times} x {question}')
  if wrong:
    raise SystemExit('not every documented answer is exact')


if __name__ == '__main__':
  main()
