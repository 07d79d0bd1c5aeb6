"""Makes the tokenizer fixtures of this folder: small vocabularies in the styles of published models, and what the
Hugging Face tokenizers library and SentencePiece make of random strings with them.

    python3 tests/golden/text/make_text_golden.py [path/to/qwen3/tokenizer.json]

Needs tokenizers and sentencepiece. With the path it also writes qwen3.json, pairs for the full Qwen3 vocabulary.
"""

import io
import json
import pathlib
import random
import sys
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = pathlib.Path(__file__).parent
CORPUS = [
    "The quick brown fox jumps over the lazy dog. What is 3333+777? It was 1234567, she said; they didn't know.",
    "def encode(self, text):\n    for i in range(10):\n        if text[i] == ' ':\n            return i\n    return None\n",
    "at the cat.  a    b   \n\n  User: hello\nAssistant: hello world, how can I help you today?\n",
    "Der schnelle braune Fuchs springt über den faulen Hund. Le renard brun saute par-dessus le chien paresseux.",
    "Быстрая коричневая лиса прыгает через ленивую собаку. Tiếng Việt là ngôn ngữ của người Việt Nam.",
    "快速的棕色狐狸跳过懒狗。日本語の文章もあります。 안녕하세요 세계",
    "#include <vector>\nint main() { std::vector<int> v = {1, 2, 3}; return v.size() - 3; }\n// -----\n",
] * 4
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
POOLS = [
    "abcdefghijklmnopqrstuvwxyzABCDEF", "   \t\n\r", "0123456789٠١٢٣Ⅷ½", "'\"!?.,;:-_()[]{}<>/\\|@#$%^&*+=~`", "éèüñçßøåÆœ",
    "привет мир", "你好世界汉字日本語の", "안녕하세요한국", "שלום عربي", "हिन्दी ไทย", "👨‍👩‍👧‍👦🎉🇩🇪🏽", "\u0301\u0323\u0308\u20dd",
    "\u00a0\u2003\u3000\u200b\u2028\u0085\u180e", "ᄒ\u1161\u11ab가\u11a8", "\u212b\u0958\u1e0b\ufb01", "ſK", "\x00\x01\x7f", "İıΣς",
]
WORDS = [
    "the", " the", "hello", " world", "'s", "'LL", " don't", "def foo(self):\n", "    return x", "  \n\n", "<think>", "</think>",
    "<tool_call>", "http://a.b/c?d=e", "1234567", "3.14", "...", "-----\n", "\t\t", "\r\n", "== ", " ", "camelCase", "ALLCAPS",
    "ſoft", "'ſ",
]


def random_string(rng, special):
    out = []
    for _ in range(rng.randint(1, 10)):
        kind = rng.random()
        if kind < 0.1:
            out.append(rng.choice(special))
        elif kind < 0.5:
            out.append(rng.choice(WORDS))
        elif kind < 0.57:
            out.append(rng.choice(rng.choice(POOLS)) * rng.randint(1, 20))
        elif kind < 0.6:
            while True:
                code = rng.randint(0, 0x2FFFF)
                if not 0xD800 <= code <= 0xDFFF and unicodedata.category(chr(code)) != "Cn":
                    break
            out.append(chr(code))
        else:
            pool = rng.choice(POOLS)
            out.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 6))))
    return "".join(out)


def write(path, value, indent=None):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), indent=indent) + "\n")


def cases(tokenizer, seed, count, special, decode=True):
    rng = random.Random(seed)
    result = []
    for text in (random_string(rng, special) for _ in range(count)):
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids  # control tokens read
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids  # control tokens not read
        case = {"text": text, "ids": ids}
        if plain != ids:
            case["plain"] = plain
        if not decode:
            result.append(case)
            continue
        decoded = tokenizer.decode(ids, skip_special_tokens=True)
        full = tokenizer.decode(ids, skip_special_tokens=False)
        if decoded != text:
            case["decoded"] = decoded
        if full != text:
            case["decoded_full"] = full
        result.append(case)
    return result


def save(name, tokenizer, config, seed, special, edit=None, decode=True):
    document = json.loads(tokenizer.to_str())
    if edit:
        edit(document)
    tokenizer = Tokenizer.from_str(json.dumps(document))
    write(FOLDER / name / "tokenizer.json", document)
    write(FOLDER / name / "tokenizer_config.json", config)
    write(FOLDER / name / "cases.json", cases(tokenizer, seed, 60, special, decode))


def llama3_style():
    """Byte-level, digits in threes, ignore_merges, BOS by template; " Việt" is in the vocabulary without a merge path."""
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))

    def edit(document):
        model = document["model"]
        word = next(t for t in model["vocab"] if t.startswith("ĠVi") and t.endswith("t") and len(t) > 5)
        model["merges"] = [m for m in model["merges"] if "".join(m) != word]
        model["ignore_merges"] = True
        first = len(model["vocab"])
        for i, content in enumerate(special):
            document["added_tokens"].append({
                "id": first + i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True})
        document["post_processor"] = {"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
            {"type": "TemplateProcessing",
             "single": [{"SpecialToken": {"id": special[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [{"SpecialToken": {"id": special[0], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                      {"SpecialToken": {"id": special[0], "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {special[0]: {"id": special[0], "ids": [first], "tokens": [special[0]]}}}]}

    config = {"bos_token": special[0], "eos_token": special[4], "tokenizer_class": "PreTrainedTokenizerFast"}
    save("llama3_style", tokenizer, config, 3, special, edit)


def sentencepiece_like_vocabulary():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)]
    tokenizer.train_from_iterator(
        [line for line in CORPUS if line.isascii() or "ü" in line],
        trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"] + byte_tokens, show_progress=False))
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    return document


def llama2_style(document):
    """Normalizer Prepend and Replace, no pre-tokenizer, byte fallback."""
    document = json.loads(json.dumps(document))
    document["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    document["pre_tokenizer"] = None
    document["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    document["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    config = {"add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    save("llama2_style", Tokenizer.from_str(json.dumps(document)), config, 5, ["<s>", "</s>", "<unk>"])
    return document


def mistral_style(document):
    """Pre-tokenizer Metaspace, a space before the first piece only, one piece."""
    document = json.loads(json.dumps(document))
    document["normalizer"] = None
    document["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    config = {"bos_token": "<s>", "eos_token": "</s>"}
    save("mistral_style", Tokenizer.from_str(json.dumps(document)), config, 7, ["<s>", "</s>", "<unk>"])


def added_token_flags(document):
    """Byte-level with NFC and added tokens of every flag; a vocabulary of bytes alone."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens = [
        AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
        AddedToken("<both>", lstrip=True, rstrip=True, normalized=False), AddedToken("word", single_word=True, normalized=False),
        AddedToken("e\u0301x", normalized=True), AddedToken("o\u0308y", normalized=False), AddedToken("<|a|>", special=True),
        AddedToken("<|a|>b", normalized=False), AddedToken("   ", normalized=False),
    ]
    for token in tokens:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    pieces = [t.content for t in tokens] + ["\u00e9x", "\u00f6y", " word ", "words", "_word", " \n ", "\u3000", "<|a|", "<left> <both>"]
    # The library reads an added token that holds a character of the byte alphabet ("\u00e9") as bytes; no text to compare.
    save("added_tokens", tokenizer, {}, 11, pieces, decode=False)


def sentencepiece_pieces():
    """A SentencePiece BPE model as a GGUF file of kind "llama" would hold it."""
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([part for line in CORPUS for part in line.split("\n") if part]), model_writer=buffer,
        vocab_size=620, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, character_coverage=0.98, user_defined_symbols=["<pad>"], minloglevel=2)
    model = sentencepiece.SentencePieceProcessor(model_proto=buffer.getvalue())
    kinds = []
    for i in range(model.vocab_size()):
        kinds.append(2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else
                     4 if model.id_to_piece(i) == "<pad>" else 1)
    rng = random.Random(13)
    texts = [text for text in (random_string(rng, ["the "]) for _ in range(150)) if "▁" not in text and "\0" not in text]
    write(FOLDER / "sentencepiece.json", {
        "tokens": [model.id_to_piece(i) for i in range(model.vocab_size())],
        "scores": [model.get_score(i) for i in range(model.vocab_size())],
        "types": kinds,
        "cases": [{"text": text, "ids": model.encode(text)} for text in texts[:120]]})


def qwen3(path):
    tokenizer = Tokenizer.from_file(path)
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_response>", "user\n"]
    write(FOLDER / "qwen3.json", cases(tokenizer, 17, 300, special))


if __name__ == "__main__":
    llama3_style()
    vocabulary = llama2_style(sentencepiece_like_vocabulary())
    mistral_style(vocabulary)
    added_token_flags(vocabulary)
    sentencepiece_pieces()
    if len(sys.argv) > 1:
        qwen3(sys.argv[1])
