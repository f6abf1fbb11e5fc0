"""Layers are merged as Lambda merges them."""

from pathlib import Path

from tools.build.built_functions import Built


def test_layers_share_folders_and_the_later_file_counts(tmp_path: Path) -> None:
    files = {
        "A2ALayer": {"a2a-runtime": "", "python/.lock": "", "python/kit.py": "kit"},
        "DependenciesLayer": {"python/.lock": "", "python/space/one.py": "1", "python/both.py": "first"},
        "AgentsLayer": {"python/.lock": "", "python/space/two.py": "2", "python/both.py": "last"},
    }
    for layer, content in files.items():
        for name, text in content.items():
            path = tmp_path / "build" / layer / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    opt = tmp_path / "opt"
    opt.mkdir()
    Built(tmp_path / "build", opt, {})
    python = opt / "python"
    assert (python / "kit.py").read_text() == "kit"
    assert {path.name for path in (python / "space").iterdir()} == {"one.py", "two.py"}
    assert (python / "both.py").read_text() == "last"
    assert (tmp_path / "build/DependenciesLayer/python/both.py").read_text() == "first"
