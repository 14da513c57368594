"""Texts of many kinds, none of which audit may mistake for a pickle."""

from __future__ import annotations

import base64
import builtins
import io
import json
import keyword
import pickle
import re
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

ROOT = Path(__file__).absolute().parents[1]
_LONGEST = 4000
_PRINTABLE = "".join(map(chr, range(32, 127)))
_SCRIPTS = (
    "abcdefghijklmnopqrstuvwxyz", "àâçéèêëîïôûùüÿœæ", "äöüß", "ąćęłńóśźż", "ñáíóú", "åøæ",
    "абвгдежзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρστυφχψω", "אבגדהוזחטיכלמנסעפצקרשת",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "अआइईउऊकखगघचछजझटठडढतथदधन", "กขคงจฉชซญดตถทธนบปผ",
    "あいうえおかきくけこさしすせそ", "가나다라마바사아자차카타파하",
    "".join(map(chr, range(0x4E00, 0x5200))),
)  # fmt: skip
_SYLLABLES = re.findall(
    r"\S+",
    """
ab ac ad al an ar as at be ca ce ch ci co con cre cra de di dis e ed en er es ex fi for ga ge
gra he hi ho i il im in ing inter ion is ist it ity ize ki la le li lo ly ma me men ment mi mo
na ne ni no o ob of on or os ou out pa per pi po pre pro qu ra re ri ro ru sa se sh si so st sub
sur ta te ter th ti tion to tra tri u un ur us ve vi vo wa we wi y za
""",
)
_PUNCTUATION = re.findall(
    r"\S+",
    r"""
! " # $ % & ' ( ) * + , - . / : ; < = > ? @ [ ] ^ _ ` { | } ~ () (); ). ), )) )( .. ... -- -> =>
== != += :: // /* */ <!-- --> {{ }} [] [' '] (" ") (' '):
""",
)


def text(random: Random) -> bytes:
    """Return a text of a few thousand letters at most."""
    return random.choice(_KINDS)(random).encode("utf-8", "replace")[: random.randrange(_LONGEST)]


def innocent(random: Random) -> bytes:
    """Return a text file, a mangled one, or another file with a text in it."""
    made = _changed(text(random), random)
    place = random.random()
    if place < 0.04:
        return zipped({"data.pkl": b"\x80\x02}.", "version": b"3\n", "extra/vocab.txt": made})
    if place < 0.06:
        return zipped({"vocab.txt": made}, zipfile.ZIP_DEFLATED)
    if place < 0.09:
        return pickle.dumps({"vocabulary": made.decode("latin-1")}, random.randrange(2, 6))
    return made


def zipped(records: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive with its records in a folder."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, data in records.items():
            archive.writestr(zipfile.ZipInfo(f"m/{name}"), data, method)
    return written.getvalue()


def _changed(made: bytes, random: Random) -> bytes:
    changed = random.random()
    if changed < 0.03:
        return zlib.compress(made)
    if changed < 0.06:
        return base64.encodebytes(made)
    if changed < 0.08:
        return made.decode("utf-8", "replace").encode(random.choice(["utf-16-le", "utf-16-be"]))
    return made.replace(b"\n", b"\r\n") if changed < 0.1 else made


def _letters(random: Random) -> str:
    """Return random letters; in some texts, those that are opcodes are frequent."""
    alphabet = random.choice([
        _PRINTABLE, _PRINTABLE + "\n" * 10, "abcdefghijklmnopqrstuvwxyz\n\n", "ciotRobseau\n\n",
        "".join(_SCRIPTS) + " \n", "cios\ntRVSIpq01 x", "01234567890 \n.-",
    ])  # fmt: skip
    return "".join(random.choices(alphabet, k=random.randrange(1, 1500)))


def _word(random: Random) -> str:
    if random.random() < 0.4:
        return random.choice(words())
    if random.random() < 0.7:
        return "".join(random.choices(_SYLLABLES, k=random.randrange(1, 5)))
    return "".join(random.choices(random.choice(_SCRIPTS), k=random.randrange(1, 9)))


def _cased(word: str, random: Random) -> str:
    return random.choice([str, str, str, str.capitalize, str.upper])(word)


def _lines(random: Random) -> str:
    """Return one word a line, sorted or not."""
    found = [_cased(_word(random), random) for _ in range(random.randrange(1, 400))]
    if random.random() < 0.5:
        found.sort(key=random.choice([str, str.lower]))
    return "\n".join(found) + random.choice(["", "\n"])


def _pieces(random: Random) -> str:
    """Return a vocabulary like BERT's: special tokens, letters, words, and word pieces."""
    special = ["[PAD]", *(f"[unused{n}]" for n in range(random.randrange(20))), "[UNK]", "[CLS]"]
    letters = random.sample(_PUNCTUATION, 9) + random.sample("".join(_SCRIPTS), 40)
    is_cased = random.random() < 0.5
    parts = []
    for _ in range(random.randrange(300)):
        word = _cased(_word(random), random) if is_cased else _word(random)
        parts.append("##" + word if random.random() < 0.3 else word)
    found = special + letters + parts
    if random.random() < 0.3:
        random.shuffle(found)
    return "\n".join(found) + "\n"


def _tokens(random: Random) -> str:
    """Return a vocabulary like that of code models: pieces with punctuation and blanks."""
    head = ("", "", "", "Ġ", "▁", " ", "(", "(", ".", "_", "#", "'", '"', "</", "[", "{", "\\", "$")
    tail = ("", "", "", "(", ")", "()", ").", ")R", ":", ",", ";", "='", '"', "]", "</w>", ">", "'")
    made = (
        random.choice(head) + _cased(_word(random), random) + random.choice(tail)
        if random.random() < 0.8
        else random.choice(_PUNCTUATION)
        for _ in range(random.randrange(1, 400))
    )
    return "\n".join(made) + "\n"


def _sentence(random: Random) -> str:
    made = " ".join(_word(random) for _ in range(random.randrange(1, 20)))
    return made.capitalize() + random.choice([".", ".", ".", "!", "?", ":", " (" + made + ")."])


def _prose(random: Random) -> str:
    """Return sentences, wrapped, or one word a line as in tagged corpora."""
    made = " ".join(_sentence(random) for _ in range(random.randrange(1, 30)))
    if random.random() < 0.3:
        return re.sub(r"([.!?():])", r" \1", made).replace(" ", "\n")
    width = random.randrange(8, 90)
    return re.sub(rf"(.{{{width}}}\S*) ", r"\1\n", made)


def _markdown(random: Random) -> str:
    forms = (
        "# {}\n", "## {}\n", "- {}\n", "* {}\n", "1. {}\n", "> {}\n", "{}\n", "{}\n\n",
        "[{}]({})\n", "    {}\n", "```\n{}\n{}\n```\n", "| {} | {} |\n|---|---|\n", "`{}`\n",
        "**{}**\n", "({}\n{}\n", "{}\n===\n", "<b>{}</b>\n", "<!-- {} -->\n", "\n", "{}()\n",
        "({})\n",
    )  # fmt: skip
    made = [
        random.choice(forms).format(*(random.choice((_word, _sentence))(random) for _ in range(2)))
        for _ in range(random.randrange(1, 80))
    ]
    return "".join(made)


def _number(random: Random) -> str:
    return random.choice([
        str(random.randrange(-1000, 1000)), str(random.random()), f"{random.gauss(0, 1):.6e}",
        hex(random.getrandbits(32)), f"{random.randrange(2000)}-01-01", f"I{random.randrange(9)}",
    ])  # fmt: skip


def _numbers(random: Random) -> str:
    """Return numbers, alone or in tables among words."""
    sign = random.choice(",\t; ")
    row = random.choice([(_number,), (_word, _number, _number)])
    rows = range(random.randrange(1, 200))
    return "\n".join(sign.join(cell(random) for cell in row) for _ in rows) + "\n"


def _tree(random: Random) -> str:
    """Return JSON or YAML."""
    value = {_word(random): [_word(random), random.random(), {_word(random): _sentence(random)}]
             for _ in range(random.randrange(1, 30))}  # fmt: skip
    if random.random() < 0.5:
        return json.dumps(value, indent=random.choice([None, 0, 2]), ensure_ascii=False)
    return "".join(f"{key}:\n- {item[0]}\n- {item[1]}\n" for key, item in value.items())


def _excerpt(random: Random) -> str:
    """Return some lines of a file of this project."""
    lines = random.choice(files())
    start = random.randrange(len(lines))
    return "".join(lines[start : start + random.randrange(1, 80)])


_KINDS: tuple[Callable[[Random], str], ...] = (
    _letters, _lines, _lines, _pieces, _pieces, _tokens, _tokens, _prose, _markdown, _numbers,
    _tree, _excerpt,
)  # fmt: skip


@cache
def files() -> list[list[str]]:
    """Return documents and code of this project, in lines."""
    paths = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "tsarchive").rglob("*.py"),
    ]
    return [lines for path in sorted(paths) if (lines := path.read_text().splitlines(True))]


@cache
def words() -> list[str]:
    """Return words of those files, and Python names that are also words."""
    found = {word for lines in files() for word in re.findall(r"[^\W\d_]+", "".join(lines))}
    found |= {*dir(builtins), *keyword.kwlist, *sys.stdlib_module_names}
    return sorted(found)
