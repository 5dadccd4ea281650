"""`leakbench new` names what it wrote, and what to run first, which runs as it is told."""

import re
import shlex


def test_a_new_project_says_what_to_run_first(cli, tmp_path, monkeypatch):
    place = tmp_path / "a folder" / "mine"
    code, out, said = cli("new", place)
    assert code == 0
    assert set(out.splitlines()) == {str(path) for path in place.iterdir()}
    first, second = re.search("Begin with (.+) && leakbench (train .+);", said).groups()
    monkeypatch.chdir(shlex.split(first)[1])
    code, out, _ = cli(*shlex.split(second), "--rounds", "1")
    assert code == 0
    assert "mine-fedavg" in out
    assert "mine-fedprox" in out
