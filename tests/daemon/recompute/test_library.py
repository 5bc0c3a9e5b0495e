"""The directories of dated files as lanes of a configuration need them."""

from pathlib import Path

from relevanced.daemon.config import load
from relevanced.daemon.judgements import HOUR_MS, add, grades
from relevanced.daemon.queries import hashed_keys
from relevanced.daemon.recompute.libraries import class_libraries, faults_of, library_of

KEY = "sixteen bytes, or more"


def put(directory: Path, text: str) -> None:
    source = directory.parent / "a.csv"
    source.write_text(f"query,docid,rating\n{text}\n")
    directory.mkdir()
    add(directory, source, HOUR_MS, 0)


def config_of(directory: Path, queries: str = "") -> str:
    return f'[judgements]\ndirectory = "{directory}"\n{queries}'


def test_keys_are_hashed_as_lanes_hash_queries(tmp_path: Path) -> None:
    directory = tmp_path / "judgements"
    put(directory, "Red  SHOES,d1,3")
    for queries, key in (
        ("", "red shoes"),
        ('[queries]\ntext = "plain"', "red shoes"),
        (f'[queries]\ntext = "hashed"\nkey = "{KEY}"', hashed_keys(["red shoes"], KEY.encode())[0]),
    ):
        library = library_of(load(config_of(directory, queries), {}, "test"))
        assert library is not None
        library.refresh(())
        (found,) = library.readable.values()
        assert found.by_query == {key: {"d1": 3.0}}


def faults(text: str) -> list[str]:
    library = library_of(load(text, {}, "test"))
    assert library is not None
    return list(map(str, faults_of(library)))


def test_grade_above_the_scale_is_a_fault(tmp_path: Path) -> None:
    directory = tmp_path / "judgements"
    put(directory, "shoes,d1,4")
    (fault,) = faults(config_of(directory))
    assert "must be from -100 to 3" in fault
    assert not faults(f"{config_of(directory)}max_grade = 4")


def test_nothing_is_read_without_judgements() -> None:
    assert library_of(load("", {}, "test")) is None


def test_each_attribute_by_files_has_its_directory(tmp_path: Path) -> None:
    (tmp_path / "heads").mkdir()
    source = tmp_path / "a.csv"
    source.write_text("query,class\nRed  SHOES,head\n")
    entry, _ = add(tmp_path / "heads", source, HOUR_MS, 0, grades.read_classes)
    text = (
        '[segments]\ngroupings = [["traffic"], ["length"]]\n'
        f'[[derive]]\nattribute = "traffic"\ndirectory = "{tmp_path / "heads"}"\n'
        '[[derive]]\nattribute = "length"\nwords = [1]\n'
    )
    config = load(text, {}, "test")
    ((name, library),) = class_libraries(config).items()
    assert not faults_of(library)
    assert (name, library.readable[entry].by_query) == ("traffic", {"red shoes": "head"})
    (tmp_path / "heads" / entry.name).write_text("query,class\nshoes,head\n")
    ((_, changed),) = class_libraries(config).items()
    fault = str(*faults_of(changed))
    assert entry.name in fault and f"must be {entry.sha256}, as the index says" in fault
