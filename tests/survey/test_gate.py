"""Policies over the rows of a survey: what each condition says of files, and what is refused."""

from __future__ import annotations

import json
import zipfile
from datetime import date

import pytest

from tests.support.archives import ARCHIVES, ROOT
from tests.support.survey_rows import Rows, file, finding
from tsarchive.errors import CallError, FormatError
from tsarchive.surveying import listing
from tsarchive.surveying.gate import check, require_asked, sarif_of
from tsarchive.surveying.reading import Aspects, surveyed
from tsarchive.surveying.rules import Gate

TODAY = date(2026, 11, 27)


def gate(*parts: str) -> Gate:
    return Gate.of("\n".join(parts))


def rule(conditions: str, name: str = "r") -> str:
    return f"[[rule]]\nname = '{name}'\n{conditions}"


def violating(policy: Gate, files, findings=(), **options):
    """The paths of files that violate the rules that a policy has itself."""
    report = check(policy, Rows(files, findings), today=TODAY, **options)
    return [v.place.path for v in report.violations if v.rule != "unread"]


# A condition, the columns of a file for which it holds, and of one for which it does not.
CONDITIONS = (
    ("kind = 'pt2'", {"kind": "pt2"}, {"kind": "torchscript"}),
    ("kind = ['pt2', 'torch*']", {"kind": "torchscript"}, {"kind": None}),
    ("kind = ''", {"kind": None}, {"kind": "pt2"}),
    ("status = 'crashed'", {"status": "crashed"}, {"status": "read"}),
    ("path = 'prod/*.pt'", {"path": "prod/a/b.pt"}, {"path": "test/a.pt"}),
    ("path = 'Prod/*'", {"path": "Prod/b"}, {"path": "prod/b"}),
    ("problem = '*cut short*'", {"problem": "it is cut short: 1"}, {"problem": ""}),
    ("nbytes = 5", {"nbytes": 5}, {"nbytes": 6}),
    ("nbytes = '> 1 KiB'", {"nbytes": 1025}, {"nbytes": 1024}),
    ("nbytes = '<= 2GiB'", {"nbytes": 2 << 30}, {"nbytes": (2 << 30) + 1}),
    ("nbytes = '< 10_000'", {"nbytes": 9_999}, {"nbytes": None}),
    ("nbytes = ['>= 10', '< 20']", {"nbytes": 10}, {"nbytes": 20}),
    ("errors = '>= 1'", {"errors": 1}, {"errors": 0}),
    ("torch_first = '>= 1.8'", {"torch_first": "1.13"}, {"torch_first": "1.7"}),
    ("torch_first = '>= 2.9'", {"torch_first": "2.10"}, {"torch_first": None}),
    ("torch_last = '2.1'", {"torch_last": "2.1"}, {"torch_last": "2.10"}),
    ("effects = 'files'", {"effects": ("files", "memory")}, {"effects": ("memory",)}),
    ("operators = ['aten::save', 'prim::*']", {"operators": ("prim::If",)}, {"operators": ()}),
    ("extra_names = 'LICEN[SC]E*'", {"extra_names": ("a", "LICENCE.md")}, {"extra_names": ("a",)}),
    ("loads_on = { all = ['2.6', '2.9'] }", {"loads_on": ("2.6", "2.7", "2.9")},
     {"loads_on": ("2.6", "2.7")}),
    ("dtypes = { only = ['float*', 'int8'] }", {"dtypes": ("float16", "int8")},
     {"dtypes": ("float16", "int64")}),
    ("libraries = { only = [] }", {"libraries": ()}, {"libraries": ("torchvision",)}),
    ("libraries = { any = 'torchvision' }", {"libraries": ("torchvision",)}, {"libraries": ()}),
)  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize(("condition", "fits", "other"), CONDITIONS, ids=lambda x: str(x)[:40])
def test_conditions(condition, fits, other):
    files = [file(**{"path": "fits", **fits}), file(**{"path": "other", **other})]
    first, second = (row.path for row in files)
    assert violating(gate(rule(f"deny = {{ {condition} }}")), files) == [first]
    assert violating(gate(rule(f"require = {{ {condition} }}")), files) == [second]
    policy = gate(rule(f"where = {{ {condition} }}\ndeny = {{ path = '*' }}"))
    assert violating(policy, files) == [first]


FINDINGS = (
    ("rule = 'pickle-*'", {"rule": "pickle-name"}, {"rule": "zip-gap"}),
    ("severity = '>= warning'", {"severity": "error"}, {"severity": "info"}),
    ("severity = 'warning'", {"severity": "warning"}, {"severity": "error"}),
    ("nature = '>= broken'", {"nature": "hostile"}, {"nature": "unusual"}),
    ("verb = 'verify'", {"verb": "verify"}, {"verb": "audit"}),
    ("message = '*os.system*'", {}, {"message": "calls os.getcwd"}),
    ("record = 'data.pkl'", {"record": "data.pkl"}, {"record": None}),
    ("rule = 'pickle-*', severity = '> info'", {}, {"severity": "info"}),
)


@pytest.mark.whole
@pytest.mark.parametrize(("condition", "fits", "other"), FINDINGS, ids=lambda x: str(x)[:40])
def test_conditions_on_findings(condition, fits, other):
    files = [file("none"), file("fits"), file("other")]
    rows = [finding("fits", **other), finding("fits", **fits), finding("other", **other),
            finding("none", root="elsewhere", **fits)]  # fmt: skip
    asked = f"{{ finding = {{ {condition} }} }}"
    assert violating(gate(rule(f"deny = {asked}")), files, rows) == ["fits"]
    assert violating(gate(rule(f"require = {asked}")), files, rows) == ["none", "other"]


@pytest.mark.parametrize("column", ["model", "sha256"])
def test_twins_are_all_but_the_first(column):
    digests = {"c": "x", "a": "x", "b": "y", "d": None, "e": None}
    files = [file(path, **{column: digest}) for path, digest in digests.items()]
    policy = gate(rule(f"deny = {{ twin = '{column}' }}"))
    report = check(policy, Rows(files), today=TODAY)
    assert [violation.place.path for violation in report.violations] == ["c"]
    assert report.violations[0].message == f"{column} is that of a"


def test_files_are_signed_by_what_is_beside_them_or_by_their_digest(tmp_path):
    (tmp_path / "signed.txt").write_text("# reviewed\nabc  # the old one\n\n")
    policy = Gate.of(
        f"{rule('require = { signed = true }')}\n[signed]\nfile = 'signed.txt'\ndigests = 'tsf1:m'",
        tmp_path,
    )
    files = [
        file("beside.pt"), file("beside.pt.sig", status="foreign"),
        file("store.pt"), file("store.pt.sigstore.json", status="foreign"),
        file("digest", sha256="abc"), file("model", model="tsf1:m"),
        file("not", sha256="abcd"), file("elsewhere.pt"),
        file("elsewhere.pt.sig", root="other", status="foreign"),
    ]  # fmt: skip
    report = check(policy, Rows(files), today=TODAY)
    assert [violation.place.path for violation in report.violations] == ["elsewhere.pt", "not"]
    assert report.checked == 6
    unsigned = gate(rule("deny = { signed = false }"), "[signed]\nsuffixes = ['.pgp']")
    assert violating(unsigned, [
        file("a"), file("a.pgp", status="foreign"), file("b"), file("b.sig", status="foreign"),
        file("c"), file("c.pgp"), file("d"), file("d.pgp", status="foreign", kind="zip"),
    ]) == [
        "b", "b.sig", "c", "c.pgp", "d", "d.pgp",
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["refused", "failed", "crashed", "timeout"])
def test_what_was_not_read_does_not_pass(status):
    files = [file("a", status=status), file("b"), file("c", status="foreign")]
    report = check(gate(rule("deny = { effects = 'files' }")), Rows(files), today=TODAY)
    assert [(v.place.path, v.rule) for v in report.violations] == [("a", "unread")]
    assert (
        report.violations[0].message == f"not all that the file holds is known: status is {status}"
    )
    own = rule("deny = { status = 'timeout' }", "unread")
    assert check(gate(own), Rows(files)).ok is (status != "timeout")
    exempt = "[[exempt]]\nrule = 'unread'\npath = 'a'\nreason = 'known'"
    assert check(gate(rule("deny = { effects = 'files' }"), exempt), Rows(files)).ok


ASPECTS = dict.fromkeys(("digest", "fingerprint", "weights", "verify", "audit", "compat"), True)
ASKING = (
    ("sha256 = '?*'", "digest"), ("code = 'x'", "fingerprint"), ("twin = 'model'", "fingerprint"),
    ("twin = 'model'", "weights"), ("errors = 1", "verify"), ("notes = 1", "audit"),
    ("effects = 'files'", "audit"), ("loads_on = '2.9'", "compat"),
    ("finding = { rule = 'x' }", "verify"), ("finding = { verb = 'audit' }", "audit"),
)  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize(("condition", "aspect"), ASKING)
def test_rules_ask_only_for_what_the_survey_tells(condition, aspect):
    policy = gate(rule(f"require = {{ {condition} }}"))
    require_asked(policy, ASPECTS)
    with pytest.raises(CallError) as raised:
        require_asked(policy, ASPECTS | {aspect: False})
    assert f"without {aspect}" in raised.value.message
    assert f"--no-{aspect}" in raised.value.hint


def test_rules_need_no_more_than_they_ask_for():
    without = dict.fromkeys(ASPECTS, False)
    for condition in ("kind = 'pt2'", "torch_first = '>= 1.8'", "signed = true", "nbytes = 1"):
        require_asked(gate(rule(f"deny = {{ {condition} }}")), without)
    require_asked(
        gate(rule("deny = { finding = { verb = 'audit' } }")), ASPECTS | {"verify": False}
    )


@pytest.mark.parametrize("content", [b"\x30\x82", b"-----BEGIN PGP SIGNATURE-----\n", b"{}"])
def test_signatures_are_listed_and_are_no_findings(tmp_path, content):
    """But what is called so and is of a kind that is known is read like any other file."""
    path = tmp_path / "a.pt.sig"
    path.write_bytes(content)
    (listed,) = listing.listed(str(tmp_path))
    found, *findings = surveyed(listed, Aspects())
    assert (found.status, found.kind, found.errors, found.warnings) == (
        "foreign", "signature", 0, 0,
    )  # fmt: skip
    assert findings == [()]
    path.write_bytes((ARCHIVES / "sequential.pt").read_bytes())
    assert surveyed(listed, Aspects()).file.kind == "torchscript"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("evil.pkl", b"cos\nsystem\n(S'id'\ntR.")
    assert surveyed(listed, Aspects()).findings


def test_all_conditions_of_a_rule_count_together():
    policy = gate(rule("deny = { kind = 'pt2', errors = '>= 1' }", "a"),
                  rule("require = { kind = 'pt2', nbytes = '< 9' }", "b"))  # fmt: skip
    files = [file("both", kind="pt2", errors=1, nbytes=1), file("one", kind="pt2", nbytes=10)]
    report = check(policy, Rows(files), today=TODAY)
    assert [(v.place.path, v.rule, v.message) for v in report.violations] == [
        ("both", "a", "kind is pt2, errors is 1"),
        ("one", "b", "nbytes is 10 (required: nbytes < 9)"),
    ]


def test_rules_say_what_they_are_about():
    policy = gate(rule("deny = { effects = 'files' }\nmessage = 'No files'\nhint = 'Ask'\n"
                       "severity = 'warning'"))  # fmt: skip
    (found,) = check(policy, Rows([file("a", effects=("files", "memory"))])).violations
    assert (found.message, found.hint, found.severity) == (
        "No files: effects: files", "Ask", "warning",
    )  # fmt: skip


def test_notes_do_not_fail_a_gate():
    for severity, ok in (("info", True), ("warning", False), ("error", False)):
        policy = gate(rule(f"deny = {{ kind = 'pt2' }}\nseverity = '{severity}'"))
        assert check(policy, Rows([file("a", kind="pt2")])).ok is ok
        assert check(policy, Rows([file("a", kind="x")])).ok


def test_of_each_rule_as_many_are_listed_as_was_asked_for():
    policy = gate(rule("deny = { errors = 0 }\nseverity = 'warning'", "mild"),
                  rule("deny = { errors = 1 }", "grave"))  # fmt: skip
    files = [file(f"{n}", errors=n % 2) for n in range(20)]
    report = check(policy, Rows(files), listed=2)
    assert [(v.rule, v.place.path) for v in report.violations] == [
        ("grave", "1"), ("grave", "3"), ("mild", "0"), ("mild", "2"),
    ]  # fmt: skip
    counts = [(each.name, each.violated) for each in report.rules]
    assert counts == [("mild", 10), ("grave", 10), ("unread", 0)]
    assert report.violated == 20


EXEMPT = (
    ("path = 'old/*'", ["new/c"]),
    ("digest = 'm1'", ["old/b", "new/c"]),
    ("digest = ['m2', 's3']", ["old/a"]),
    ("path = 'old/*'\ndigest = 's3'", ["old/a", "old/b", "new/c"]),
    ("path = '*'\nrule = 'files'", []),
    ("path = '*'\nrule = 'other'", ["old/a", "old/b", "new/c"]),
    ("path = '*'\nuntil = 2026-11-27", []),
    ("path = '*'\nuntil = 2026-11-26", ["old/a", "old/b", "new/c"]),
)


@pytest.mark.whole
@pytest.mark.parametrize(("table", "left"), EXEMPT)
def test_exemptions(table, left):
    policy = gate(
        rule("deny = { effects = 'files' }", "files"),
        rule("deny = { effects = 'network' }", "other"),
        f"[[exempt]]\nreason = 'reviewed'\n{table}",
    )
    digests = {"old/a": {"model": "m1"}, "old/b": {"model": "m2"}, "new/c": {"sha256": "s3"}}
    files = [file(path, effects=("files",), **told) for path, told in digests.items()]
    report = check(policy, Rows(files), today=TODAY)
    assert {violation.place.path for violation in report.violations} == set(left)
    assert report.rules[0].exempt == 3 - len(left)
    if "26" in table.partition("until")[2][-2:]:
        assert report.violations[0].message.endswith("; its exemption ended on 2026-11-26")


RULE = rule("deny = { errors = 1 }")
# A policy, what is wrong with it, and what to do.
WRONG = (
    ("a = ", "the policy is no TOML", None),
    ("", "the policy has no rules", "[[rule]]"),
    ("rules = []", "the policy does not know 'rules'", "Did you mean 'rule'?"),
    ("[rule]\nname = 'a'", "rule is no list", "[[rule]]"),
    ("rule = [1]", "rule 1 is 1", "a table"),
    ("[[rule]]\ndeny = { errors = 1 }", "rule 1 has no name", "name = "),
    ("[[rule]]\nname = 3\ndeny = { errors = 1 }", "name is 3", "Give a text"),
    (f"{RULE}\n{RULE}", "two rules are called 'r'", "its own name"),
    (rule(""), "has no deny and require", "'deny' or 'require'"),
    (rule("deny = { errors = 1 }\nrequire = { errors = 1 }"), "has both deny and require", None),
    (rule("denies = { errors = 1 }"), "does not know 'denies'", "Did you mean 'deny'?"),
    (rule("deny = {}"), "rule 'r': deny is {}", "a table of conditions"),
    (rule("deny = { error = 1 }"), "rule 'r': deny does not know 'error'", "'errors'?"),
    (rule("deny = { xyzzy = 1 }"), "deny does not know 'xyzzy'", "Known are root, path"),
    (rule("deny = { errors = 'many' }"), "deny.errors is 'many'", "'<= 2 GiB'"),
    (rule("deny = { errors = true }"), "deny.errors is True", "a number"),
    (rule("deny = { errors = [] }"), "deny.errors is []", "a number"),
    (rule("deny = { nbytes = '> 3 MB' }"), "deny.nbytes is '> 3 MB'", "2 GiB"),
    (rule("deny = { nbytes = '!= 3' }"), "deny.nbytes is '!= 3'", "a bound"),
    (rule("deny = { torch_first = '>= one' }"), "deny.torch_first is '>= one'", ">= 1.8"),
    (rule("deny = { torch_first = 1.8 }"), "deny.torch_first is 1.8", ">= 1.8"),
    (rule("deny = { kind = 1 }"), "deny.kind is 1", "a text, or a list"),
    (rule("deny = { kind = ['pt2', 'torch'] }"), "deny.kind does not know 'torch'", "Known are "),
    (rule("deny = { kind = 'torchscrpt' }"), "deny.kind does not know", "'torchscript'? Known"),
    (rule("deny = { status = 'crash' }"), "deny.status does not know 'crash'", "'crashed'?"),
    (rule("deny = { effects = ['files', 'file'] }"), "does not know 'file'", "'files'?"),
    (rule("deny = { dtypes = { none = 'a' } }"), "deny.dtypes does not know 'none'", "any, all"),
    (rule("deny = { dtypes = { any = 'a', all = 'b' } }"), "deny.dtypes is", "one of any, all"),
    (rule("deny = { finding = 'pickle' }"), "deny.finding is 'pickle'", "a table"),
    (rule("deny = { finding = {} }"), "deny.finding is {}", ">= warning"),
    (rule("deny = { finding = { rules = 'a' } }"), "does not know 'rules'", "'rule'?"),
    (rule("deny = { finding = { severity = '>= bad' } }"), "severity is '>= bad'", "info, warning"),
    (rule("deny = { finding = { verb = 'check' } }"), "does not know 'check'", "verify"),
    (rule("deny = { twin = true }"), "deny.twin is True", "'model' or 'sha256'"),
    (rule("deny = { signed = 'yes' }"), "deny.signed is 'yes'", "true or false"),
    (f"{RULE}\nseverity = 'fatal'", "severity is 'fatal'", "info, warning, error"),
    (f"{RULE}\n[[exempt]]\npath = 'a'", "exempt 1 has no reason", "Say why"),
    (f"{RULE}\n[[exempt]]\nreason = 'a'", "exempt 1 is for all files", "path or digest"),
    (
        f"{RULE}\n[[exempt]]\nreason = 'a'\npath = 'a'\nrule = 'x'",
        "names no rule: 'x'",
        "are r, unread",
    ),
    (f"{RULE}\n[[exempt]]\nreason = 'a'\npath = 'a'\nuntil = '2026-01-01'", "until is", "a day"),
    (rule("deny = { kind = [] }"), "deny.kind is []", "a text, or a list"),
    (rule("deny = { effects = [] }"), "deny.effects is []", "a text, or a list"),
    (rule("require = { effects = { all = [] } }"), "require.effects is []", "a text, or a list"),
    (rule("deny = { finding = { rule = [] } }"), "finding.rule is []", "a text, or a list"),
    *(
        (f"{RULE}\n[[exempt]]\nreason = 'a'\npath = 'a'\n{name} = []", f"{name} is []", "a text")
        for name in ("rule", "digest")
    ),
    (f"{RULE}\n[signed]\nsuffixes = ['.sig', '']", "signed.suffixes has an empty one", "'.sig'"),
    (f'{RULE}\n[signed]\nfile = "a\\u0000b"', "signed.file is 'a\\x00b'", "UTF-8"),
    (f"a = {'[' * 5_000}", "the policy is nested too deeply", None),
    (f"a = {'1' * 5_000}", "the policy is no TOML: Exceeds the limit", None),
    (f"{RULE}\n[signed]\nfiles = 'a'", "signed does not know 'files'", "'file'?"),
)


@pytest.mark.whole
@pytest.mark.parametrize(("policy", "message", "hint"), WRONG, ids=lambda x: str(x)[:40])
def test_policies_that_are_wrong(policy, message, hint):
    with pytest.raises(FormatError) as raised:
        Gate.of(policy)
    assert message in raised.value.message
    assert hint is None or hint in (raised.value.hint or "")


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "policy.toml"
    for content in (b"x = 1", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(FormatError) as raised:
            Gate.read(path)
        assert raised.value.filename == str(path)
    (tmp_path / "bytes.txt").write_bytes(b"\xff")
    path.write_text(f"{RULE}\n[signed]\nfile = 'bytes.txt'")
    with pytest.raises(FormatError, match=r"signed\.file is 'bytes\.txt'"):
        Gate.read(path)
    path.write_text(f"{RULE}\n[signed]\nfile = 'missing.txt'")
    with pytest.raises(FileNotFoundError):
        Gate.read(path)


def test_sarif_names_files_and_rules():
    policy = gate(rule("deny = { errors = '>= 1' }\nmessage = 'No errors'\nhint = 'Look'", "clean"),
                  rule("deny = { kind = 'pt2' }\nseverity = 'info'", "kinds"))  # fmt: skip
    files = [file("a b.pt", errors=2), file("x/y.pt2", root="s3://bucket/", kind="pt2")]
    document = sarif_of(check(policy, Rows(files)), "1.2.3")
    json.dumps(document)
    (run,) = document["runs"]
    assert run["tool"]["driver"]["rules"] == [
        {"id": "clean", "shortDescription": {"text": "No errors"}},
        {"id": "kinds", "shortDescription": {"text": "kinds"}},
        {"id": "unread", "shortDescription": {"text": "not all that the file holds is known"}},
    ]
    places = [
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]
    ]
    assert places == ["models/a%20b.pt", "s3://bucket/x/y.pt2"]
    assert [(r["ruleId"], r["ruleIndex"], r["level"]) for r in run["results"]] == [
        ("clean", 0, "error"), ("kinds", 1, "note"),
    ]  # fmt: skip
    assert run["results"][0]["message"]["text"] == "No errors: errors is 2. Look"


def test_the_documented_policy_does_what_it_says():
    text = (ROOT / "docs/survey.md").read_text()
    policy = Gate.of(text.partition("```toml\n")[2].partition("```")[0])
    fine = {"kind": "torchscript", "torch_first": "1.13", "extra_names": ("LICENSE",),
            "nbytes": 1000}  # fmt: skip
    files = [
        file("fine.pt", **fine),
        file("files.pt", **fine | {"effects": ("files",)}),
        file("licence.pt", **fine | {"extra_names": ()}),
        file("old.pt", **fine | {"torch_first": "1.6"}),
        file("first.pt", **fine, model="m"),
        file("twin.pt", **fine, model="m"),
        file("zipped.pt", **fine | {"kind": "unknown"}),
        file("large.pt", **fine | {"nbytes": 1 << 40}),
        file("found.pt", **fine),
        file("broken.pt", status="crashed", kind="torchscript", extra_names=("LICENSE",),
             torch_first="1.13", nbytes=1),
    ]  # fmt: skip
    report = check(policy, Rows(files, [finding("found.pt")]), today=TODAY)
    assert {violation.place.path: violation.rule for violation in report.violations} == {
        "files.pt": "no-file-operators", "licence.pt": "licence", "old.pt": "torch",
        "twin.pt": "unsigned-twins", "zipped.pt": "kinds", "large.pt": "size",
        "found.pt": "findings", "broken.pt": "unread",
    }  # fmt: skip
    assert len(report.violations) == len(report.rules)
