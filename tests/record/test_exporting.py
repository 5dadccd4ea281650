"""An archive to hand to somebody else: what crossed the wire, and no byte of an answer."""

import io
import json
import math
import re
import tarfile

import pytest
import torch
from helpers.run_folders import edited
from helpers.small_runs import FEATURES, again, copied, plugged, trained

from leakbench import api
from leakbench.attacking import guessing
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import file_digest, read_sealed, read_tree, write_tree
from leakbench.base.tree import flat
from leakbench.cli import run as cli
from leakbench.record import exporting
from leakbench.record.folders import load
from leakbench.record.recording import Recording

SEED = 424_242_424_242_424_242


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Prototypes under noise, and images behind updates: attacked, with probes."""
    made = trained(tmp_path_factory.mktemp("runs"), params={"sigma": 0.5}, rounds=6, seed=SEED)
    api.attack(made, "prototype_leakage")
    return load(made.path)


@pytest.fixture(scope="module")
def archive(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "run.tar"
    assert api.export(run, out) == []
    return out


def unpacked(archive, to):
    with tarfile.open(archive) as tar:
        tar.extractall(to, filter="data")
    (folder,) = to.iterdir()
    return load(folder)


def answers(run):
    """Every tensor of truth, control, labels of batches, probes and guesses, by name."""
    out = {}
    for path in sorted(p for p in run.path.rglob("*.safetensors")):
        name = path.relative_to(run.path).as_posix()
        tree, meta = read_tree(path)
        leaves = flat(tree)
        if name.startswith(("truth/", "control/", "known/round-", "attacks/")):
            out |= {f"{name}:{k}": t for k, t in leaves.items()}
        if name.startswith("transcript/round-"):
            for i, m in enumerate(meta["messages"]):
                if m["probe"] is not None or m["receiver"] == "aggregator":
                    out |= {f"{name}:{k}": t for k, t in leaves.items() if k.startswith(f"{i}/")}
    return out


def public(run):
    """The tensors that may be in it: what the observers saw, auxiliary data."""
    out = []
    for path in sorted(p for p in run.path.rglob("*.safetensors")):
        name = path.relative_to(run.path).as_posix()
        tree, meta = read_tree(path)
        if name in exporting.FILES:
            out += flat(tree).values()
        if name.startswith("transcript/round-"):
            shown = [
                i
                for i, m in enumerate(meta["messages"])
                if m["probe"] is None and m["receiver"] != "aggregator"
            ]
            out += [t for i in shown for t in flat(tree[str(i)]).values()]
    return {raw(t) for t in out}


def raw(tensor):
    return tensor.contiguous().numpy().tobytes()


def test_no_byte_of_an_answer_is_in_it(run, archive):
    data, seen = archive.read_bytes(), public(run)
    found = answers(run)
    kinds = {name.split("/")[0] for name in found}
    # The run does hold all of them.
    assert kinds >= {"truth", "control", "known", "attacks", "transcript"}
    searched = 0
    for name, tensor in found.items():
        # What is short occurs by chance; what was also sent (a label of auxiliary data, a model) is
        # no answer.
        if (
            tensor.numel() * tensor.element_size() >= 16
            and len(set(raw(tensor))) > 4
            and raw(tensor) not in seen
        ):
            assert raw(tensor) not in data, name
            searched += 1
    assert searched > 100


def test_rows_of_private_data_are_not_in_it_either(run, archive):
    data = archive.read_bytes()
    tree, _ = read_tree(run.path / "truth" / "data.safetensors")
    for image in tree["x"][:200]:
        assert raw(image) not in data
    everyone = read_tree(run.path / "truth" / "round-000006.safetensors")[0]["everyone"][
        "prototype"
    ]
    for prototype in everyone:
        assert raw(prototype) not in data


def test_nothing_but_the_listed_files_and_no_trace_of_the_seed(run, archive):
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        (name,) = {m.name.split("/")[0] for m in members}
        files = {m.name.split("/", 1)[1] for m in members}
        meta = json.load(tar.extractfile(f"{name}/run.json"))
    assert all(
        m.isfile() and (m.mtime, m.uid, m.gid, m.uname, m.gname) == (0, 0, 0, "", "")
        for m in members
    )
    assert all(
        re.fullmatch(
            r"run\.json|utility\.csv|utility\.safetensors|diagnostics\.csv|known/aux_data\.safetensors"
            # Fmt: skip.
            r"|transcript/round(s|-\d{6})\.safetensors",
            f,
        )
        for f in files
    )
    assert files == {*meta["files"], "run.json"}
    text = archive.read_bytes()
    assert str(SEED).encode() not in text
    # A hash of the answer is a way to check a guess.
    assert file_digest(run.path / "truth" / "data.safetensors").encode() not in text
    assert str(run.path).encode() not in text
    assert meta["spec"]["seed"] != SEED
    assert meta["command"] == ""
    assert meta["id"] == name
    assert "with nothing defended" in meta["missing"][-1]["reason"]
    assert not set(meta) - {*exporting.KEPT, "id", "spec", "command", "files", "export", "digest"}


def test_the_same_run_gives_the_same_bytes(run, archive, tmp_path):
    api.export(run, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == archive.read_bytes()
    moved = copied(run, tmp_path)
    api.export(moved, tmp_path / "moved.tar")
    assert (tmp_path / "moved.tar").read_bytes() == archive.read_bytes()


def test_the_setting_s_name_stays_with_its_owner(run, archive, tmp_path):
    there = copied(run, tmp_path)
    edited(there.path / "run.json", lambda meta: meta["spec"].update(name="ours-not-yours"))
    api.export(load(there.path), tmp_path / "named.tar")
    assert (tmp_path / "named.tar").read_bytes() == archive.read_bytes()
    assert b"ours-not-yours" not in archive.read_bytes()
    assert any("the setting's name" in gone for gone in exporting.LEFT_OUT)


def test_what_may_be_seen_is_all_there(run, archive, tmp_path):
    there = unpacked(archive, tmp_path)
    there.check()
    old = [m for m in Recording(run).transcript if m.probe is None]
    new = Recording(there).transcript
    assert [m.name for m in new] == [m.name for m in old]
    for m, n in zip(old, new, strict=True):
        assert all(torch.equal(t, flat(n.payload)[k]) for k, t in flat(m.payload).items())
    assert any(m.probe is not None for m in Recording(run).transcript)
    assert torch.equal(Recording(there).known("aux_data").x, Recording(run).known("aux_data").x)
    assert Recording(there).traffic.keys() == Recording(run).traffic.keys()


@pytest.mark.parametrize(
    ("name", "params"), [("prototype_leakage", {}), ("prototype_averaging", {"window": 5})]
)
def test_the_same_guess_from_the_copy_as_from_the_run(run, archive, tmp_path, name, params):
    there = unpacked(archive, tmp_path / "there")
    mine = copied(run, tmp_path)
    guesses = []
    for one in (mine, there):
        made = api.attack(one, name, **params)
        guesses.append(
            {
                (g.role, g.stage, g.guess.unit, g.guess.round): g.guess
                for g in guessing.saved(made.path)
            }
        )
        assert made.scored == (one is mine)
    old, new = guesses
    assert {k[0] for k in new} == {"attack", "floor"}
    assert new.keys() == {k for k in old if k[0] != "control"}
    for key, guess in new.items():
        assert all(torch.equal(t, old[key].tensors[n]) for n, t in guess.tensors.items()), key
        assert guess.tensors.keys() == old[key].tensors.keys()


def test_scoring_says_what_is_missing(archive, tmp_path, capsys):
    there = unpacked(archive, tmp_path)
    assert cli(["attack", str(there.path), "-a", "prototype_leakage"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "exported without the truth and the control" in said.err
    assert cli(["score", str(there.path)]) == 2
    assert "cannot be scored here" in capsys.readouterr().err
    made = api.attack(there, "prototype_leakage")  # it is there already
    with pytest.raises(UsageError, match="cannot be scored here"):
        _ = made.rows
    assert cli(["attack", str(there.path), "-q"]) == 0  # all that fit: no labels, no truth needed
    assert cli(["report", str(there.path), "-o", str(tmp_path / "report")]) == 0
    missing = (tmp_path / "report" / "missing.csv").read_text()
    assert "guessed but not scored" in missing
    assert "exported without" in missing


def test_a_control_that_is_not_there_never_passes_for_one(archive, tmp_path):
    recording = Recording(unpacked(archive, tmp_path))
    assert not recording.controlled
    with pytest.raises(UsageError, match="without what would have been sent"):
        _ = recording.control
    with pytest.raises(UsageError, match="no knowledge called 'labels'"):
        recording.known("labels")


def test_attacks_that_are_granted_labels_are_refused_with_the_reason(archive, tmp_path):
    there = unpacked(archive, tmp_path)
    with pytest.raises(UsageError, match="exported without the labels"):
        api.attack(there, "gradient_inversion")
    with pytest.raises(UsageError, match="exported without the sizes"):
        api.attack(there, "gradient_inversion", labels="inferred")


def test_of_a_run_that_defends_nothing_the_control_is_its_transcript(tmp_path):
    run = trained(tmp_path / "runs", "fedaws", rounds=3)
    api.export(run, tmp_path / "a.tar")
    there = unpacked(tmp_path / "a.tar", tmp_path / "there")
    made = api.attack(there, "prototype_leakage")
    assert {g.role for g in guessing.saved(made.path)} == {"attack", "floor", "control"}


def test_what_only_the_aggregator_sees_stays_out(tmp_path):
    run = trained(
        tmp_path / "runs", "fedavg", rounds=2, wrappers=[("secure_sum", {"kinds": ["update"]})]
    )
    assert any(m.receiver == "aggregator" for m in again(run).transcript)
    api.export(run, tmp_path / "a.tar")
    there = again(unpacked(tmp_path / "a.tar", tmp_path / "there"))
    assert not any(m.receiver == "aggregator" for m in there.transcript)
    assert {"sum"} < {m.kind for m in there.transcript}
    assert there.controlled is False


def test_features_are_sent_so_they_are_in_it(tmp_path):
    with plugged("defenses", tmp_path, fedfeatures=FEATURES):
        run = trained(tmp_path / "runs", "fedfeatures", rounds=2, params={"noise": 0.3})
        api.export(run, tmp_path / "a.tar")
        there = unpacked(tmp_path / "a.tar", tmp_path / "there")
        assert any(m.kind == "features" for m in Recording(there).transcript)


def test_a_small_seed_and_raw_data_are_warned_of(tmp_path, capsys):
    run = trained(tmp_path / "runs", rounds=1, seed=3)
    assert cli(["export", str(run.path), "-o", str(tmp_path / "a.tar"), "--without-truth"]) == 0
    said = capsys.readouterr()
    assert "small enough to be found by trying" in said.err
    assert said.out.split() == [
        str(tmp_path / "a.tar"),
        str((tmp_path / "a.tar").stat().st_size),
        "bytes",
    ]
    assert math.log2(exporting.GUESSABLE) >= 48
    meta = run.meta | {"sent": [{"kind": "data", "sender": "client"}]}
    assert "private data" in exporting._warnings(type(run)(run.path, meta))[-1]


def test_what_cannot_be_exported_is_one_sentence(run, archive, tmp_path, capsys):
    assert cli(["export", str(run.path), "-o", str(tmp_path / "a.tar")]) == 2
    assert "say --without-truth" in capsys.readouterr().err
    there = unpacked(archive, tmp_path / "there")
    with pytest.raises(UsageError, match="is an export of a run"):
        api.export(there, tmp_path / "b.tar")
    spoilt = copied(run, tmp_path)
    (spoilt.path / "utility.csv").write_text("x")
    with pytest.raises(BrokenFile, match="changed or damaged"):
        api.export(spoilt, tmp_path / "b.tar")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        api.export(run, tmp_path / "file" / "b.tar")
    assert not (tmp_path / "b.tar").exists()
    assert not [p for p in tmp_path.iterdir() if p.suffix == ".part"]


def test_a_round_that_was_emptied_is_refused(run, tmp_path):
    """What nothing is taken of is checked, too: else a message could be taken away unseen."""
    spoilt = copied(run, tmp_path)
    write_tree(spoilt.path / "transcript" / "round-000003.safetensors", {}, {"messages": []})
    with pytest.raises(BrokenFile, match="changed or damaged"):
        api.export(spoilt, tmp_path / "b.tar")


def test_a_file_that_links_out_of_the_run_is_not_packed(run, tmp_path):
    spoilt = copied(run, tmp_path)
    (spoilt.path / "utility.csv").rename(tmp_path / "u.csv")
    (spoilt.path / "utility.csv").symlink_to(tmp_path / "u.csv")
    with pytest.raises(BrokenFile, match="leads out of"):
        api.export(load(spoilt.path), tmp_path / "b.tar")


def test_names_of_a_stranger_lead_nowhere_when_unpacked(run, tmp_path):
    meta = read_sealed(run.path / "run.json")
    meta["spec"]["task"]["name"] = "../../etc"
    api_run = type(run)(run.path, meta)
    exporting.export(api_run, tmp_path / "a.tar")
    with tarfile.open(fileobj=io.BytesIO((tmp_path / "a.tar").read_bytes())) as tar:
        assert all(re.match(r"etc-fedgn-x[0-9a-f]{8}/", n) for n in tar.getnames())
