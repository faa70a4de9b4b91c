"""moec's tokenizers return the tokens and texts of the package tokenizers and, for GGUF files, those of llama.cpp.

Each kind of tokenizer is trained on this project's own text. MOEC_TOKENIZERS names folders with further tokenizer.json
files, and MOEC_TEXTS the number of texts per tokenizer:

    MOEC_TOKENIZERS=$(ls -d vocabularies/*/) MOEC_TEXTS=100000 .venv/bin/pytest tests/peers/test_tokenizers.py
"""

import json
import os
import sys
import unicodedata
from pathlib import Path

import gguf
import pytest
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

import llama_cpp
from conftest import REPO

sys.path.insert(0, str(REPO / "scripts"))
from tokenizer_texts import lines_of_tree, make_texts  # noqa: E402

TEXTS = int(os.environ.get("MOEC_TEXTS", "2000"))
SPECIAL = ["<|start|>", "<|end|>", "<s>", "[MASK]"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = {f"<0x{byte:02X}>" for byte in range(256)}


def byte_level(pattern=None, normalizer=None, **options):
    """Byte-level BPE as in GPT-2, Qwen, Llama 3, DeepSeek and gpt-oss."""
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.normalizer = normalizer
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    patterns = [pre_tokenizers.Split(Regex(one), "isolated") for one in ([pattern] if isinstance(pattern, str) else pattern or [])]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*patterns, plain])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, trainers.BpeTrainer(vocab_size=3000, show_progress=False, special_tokens=SPECIAL[:2],
                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def sentencepiece_bpe(prepend):
    """BPE with byte fallback and spaces as U+2581, as in Llama 2, Mixtral and Gemma."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    marked = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), marked]) if prepend else marked
    if not prepend:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           *([decoders.Strip(" ", 1, 0)] if prepend else [])])
    return tokenizer, trainers.BpeTrainer(vocab_size=3000, show_progress=False,
                                          special_tokens=["<unk>", *SPECIAL, *sorted(BYTES)])


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, trainers.UnigramTrainer(vocab_size=2000, unk_token="<unk>", show_progress=False,
                                              special_tokens=["<unk>", *SPECIAL])


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer, trainers.WordPieceTrainer(vocab_size=3000, show_progress=False,
                                                special_tokens=["[UNK]", "[CLS]", "[SEP]", *SPECIAL])


def word_level():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True),
                                                       pre_tokenizers.Punctuation("removed")])
    return tokenizer, trainers.WordLevelTrainer(vocab_size=3000, show_progress=False, special_tokens=["[UNK]", *SPECIAL])


def classic_bpe():
    """Character BPE with end-of-word marks, as in CLIP."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    return tokenizer, trainers.BpeTrainer(vocab_size=3000, show_progress=False, end_of_word_suffix="</w>",
                                          special_tokens=["<unk>", *SPECIAL])


DEEPSEEK = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"]
KINDS = {
    "gpt2": byte_level,
    "qwen": lambda: byte_level(LLAMA3.replace("{1,3}", ""), normalizers.NFC()),
    "llama3": lambda: byte_level(LLAMA3, ignore_merges=True),
    "o200k": lambda: byte_level(O200K),
    "deepseek": lambda: byte_level(DEEPSEEK),
    "possessive": lambda: byte_level(r"(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++"
                                     r"[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"),
    "words": lambda: byte_level(r"\b\w+\b|\W|[[:alpha:]]".replace("|[[:alpha:]]", "")),
    "llama2": lambda: sentencepiece_bpe(True),
    "gemma": lambda: sentencepiece_bpe(False),
    "unigram": unigram,
    "word_piece": word_piece,
    "word_level": word_level,
    "classic_bpe": classic_bpe,
}


def write_tokenizer(kind, folder):
    tokenizer, trainer = KINDS[kind]()
    tokenizer.train_from_iterator(lines_of_tree()[:4000], trainer)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False, lstrip=True), AddedToken("whole", single_word=True),
                          AddedToken("<right>", rstrip=True, normalized=True)])
    if kind in ("llama3", "llama2"):
        tokenizer.post_processor = processors.TemplateProcessing(single="<|start|> $A", special_tokens=[
            ("<|start|>", tokenizer.token_to_id("<|start|>"))])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    if kind == "unigram":  # tokenizers reads the last of 17 digits inexactly, which decides between equal sums
        saved = json.loads(path.read_text(encoding="utf-8"))
        saved["model"]["vocab"] = [[token, round(score, 6)] for token, score in saved["model"]["vocab"]]
        path.write_text(json.dumps(saved), encoding="utf-8")
    return folder


def is_old(text):
    """Returns whether Unicode 3.2 contains all characters: the punctuation tables of tokenizers are years older
    than ours."""
    return all(unicodedata.ucd_3_2_0.category(character) != "Cn" for character in text)


def texts_for(folder, count):
    added = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    contents = [token["content"] for token in added]
    texts = [text for text in make_texts(count, special=contents[:50] + contents[-50:]) if text]
    return [text for text in texts if is_old(text)] if folder.name in ("word_piece", "word_level") else texts


def check_same(moec, folder, texts, tmp_path, expected):
    """Compares moec's results with expected(text), which returns tokens, or tokens and text."""
    suite = tmp_path / "suite.jsonl"
    suite.write_text("".join(json.dumps({"category": "a", "text": text}) + "\n" for text in texts), encoding="utf-8")
    lines = moec("tokenize", folder, "--prompts", suite).splitlines()
    assert len(lines) == len(texts)
    for text, line in zip(texts, lines):
        found = json.loads(line)
        tokens, decoded = expected(text)
        assert found["tokens"] == tokens, text
        assert decoded is None or found["text"] == decoded, text
        assert "".join(found["pieces"]) == found["text"] or decoded is None, text


def check_tokenizer(moec, folder, tmp_path):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def expected(text):
        tokens = tokenizer.encode(text).ids
        return tokens, tokenizer.decode(tokens)

    check_same(moec, folder, texts_for(folder, TEXTS), tmp_path, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_matches_the_package_per_kind(moec, kind, tmp_path):
    check_tokenizer(moec, write_tokenizer(kind, tmp_path / kind), tmp_path)


@pytest.mark.parametrize("folder", os.environ.get("MOEC_TOKENIZERS", "").split())
def test_matches_the_package_for_given_tokenizer(moec, folder, tmp_path):
    check_tokenizer(moec, Path(folder), tmp_path)


GGUF_KINDS = {
    "gpt2": "gpt-2",
    "smollm": "smollm",
    "qwen2": "qwen2",
    "llama3": "llama-bpe",
    "glm4": "glm4",
    "o200k": "gpt-4o",
    "deepseek": "deepseek-v3",
    "tekken": "tekken",
}
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")


def write_gguf(kind, folder):
    """Writes the vocabulary of a tokenizer as a GGUF file without tensors."""
    makers = KINDS | {"smollm": byte_level, "qwen2": lambda: byte_level(LLAMA3.replace("{1,3}", "")),
                      "glm4": lambda: byte_level(LLAMA3), "tekken": lambda: byte_level(TEKKEN, ignore_merges=True)}
    tokenizer, trainer = makers[kind]()
    tokenizer.train_from_iterator(lines_of_tree()[:4000], trainer)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    model = json.loads(tokenizer.to_str())["model"]
    special = {"<|start|>": 3, "<|end|>": 3, "<s>": 3, "[MASK]": 3, "<unk>": 2, "<tool>": 4} | dict.fromkeys(BYTES, 6)
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    file = folder / f"{kind}.gguf"
    folder.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_tokenizer_model("llama" if kind == "llama2" else "gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([special.get(token, 1) for token in tokens])
    writer.add_bos_token_id(tokenizer.token_to_id("<|start|>"))
    writer.add_eos_token_id(tokenizer.token_to_id("<|end|>"))
    if kind == "llama2":
        writer.add_unk_token_id(tokenizer.token_to_id("<unk>"))
        # The scores of SentencePiece are merge ranks, so each token has a distinct score.
        ranks = {"".join(pair): rank for rank, pair in reversed(list(enumerate(model["merges"])))}
        writer.add_token_scores([-float(ranks.get(token, len(ranks) + id)) for id, token in enumerate(tokens)])
    else:
        writer.add_tokenizer_pre(GGUF_KINDS[kind])
        writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return file


def has_plain_letters(text):
    """llama.cpp distinguishes the case of ASCII letters only and excludes marks from words. The published
    expressions of o200k and tekken, which moec uses, do not."""
    return all(character < "\x80" or unicodedata.category(character)[0] not in "LM" for character in text)


@pytest.mark.parametrize("kind", [*GGUF_KINDS, "llama2"])
def test_matches_llama_cpp_for_gguf_tokenizers(moec, kind, tmp_path):
    file = write_gguf(kind, tmp_path / kind)
    texts = [text for text in make_texts(TEXTS, special=["<|start|>", "<|end|>", "<tool>"]) if text and is_old(text)]
    if kind in ("o200k", "tekken"):
        texts = [text for text in texts if has_plain_letters(text)]
    ids = dict(zip(texts, llama_cpp.tokenize_all(file, texts)))
    check_same(moec, file, texts, tmp_path, lambda text: (ids[text], None))
