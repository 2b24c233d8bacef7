from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hostd.process.proc import start_time
from hostd.registry import Loaded, ProcessRecord, Record, Registry, Step


def record(identifier: str = "a1", step: Step = Step.SERVED) -> Record:
    return Record(
        plan={
            "id": identifier,
            "name": "one",
            "uid_index": 3,
            "policy": {"version": 1, "name": "one"},
            "repositories": [{"url": "https://x/y.git", "directory": "/workspace"}],
        },
        step=step,
        created=1,
        processes={"room": ProcessRecord(12, 34)},
        netns=99,
        session="s",
        expires=12.5,
        rules="hash",
    )


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.claim(record())
    assert registry.load() == Loaded([record()], [])


def test_a_record_of_a_version_that_noted_no_end_is_read(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.claim(record())
    path = tmp_path / "a1" / "state.json"
    data = json.loads(path.read_text())
    del data["ended"]
    path.write_text(json.dumps(data))
    assert registry.load() == Loaded([record()], [])


@pytest.mark.parametrize(
    ("key", "value"), [("surprise", 1), ("name", None), ("policy", "x"), ("uid_index", None)]
)
def test_a_record_of_another_form_is_damaged(tmp_path: Path, key: str, value: object) -> None:
    registry = Registry(tmp_path)
    registry.claim(record())
    path = tmp_path / "a1" / "state.json"
    data = json.loads(path.read_text())
    data.pop(key, None)
    path.write_text(json.dumps(data if value is None else data | {key: value}))
    assert [found.step for found in registry.load().records] == [Step.DAMAGED]


def test_any_life_ends_and_none_begins_after_its_end() -> None:
    for step in Step:
        assert record(step=step).at(Step.REMOVING).step is Step.REMOVING
    for step in set(Step) - {Step.REMOVING}:
        assert record(step=step).at(Step.ENDING).step is Step.ENDING
    for over in (Step.STOPPED, Step.REMOVING, Step.DAMAGED):
        with pytest.raises(ValueError, match="does not lead to served"):
            record(step=over).at(Step.SERVED)


@pytest.mark.parametrize("step", set(Step) - {Step.REMOVING})
def test_what_is_being_removed_can_only_be_removed(step: Step) -> None:
    with pytest.raises(ValueError, match=f"removing does not lead to {step.value}"):
        record(step=Step.REMOVING).at(step)


def test_an_end_is_kept_with_its_reason(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.claim(record().ending("hostctl stop"))
    (found,) = registry.load().records
    assert found.ended is not None and found.ended["reason"] == "hostctl stop"


def test_a_half_written_record_never_replaces_a_whole_one(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.claim(record())
    (tmp_path / "a1" / "state.new").write_text('{"schema"')
    assert registry.load() == Loaded([record()], [])


def test_a_directory_without_a_record_is_named_so_that_it_can_be_swept(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    (tmp_path / "b2").mkdir()
    assert registry.load() == Loaded([], ["b2"])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "gitmoat.sandbox/99"}', '{"schema": "gitmoat.sandbox/2"}']
)
def test_a_record_that_cannot_be_read_is_no_reason_to_sweep_its_files(
    tmp_path: Path, text: str
) -> None:
    registry = Registry(tmp_path)
    (tmp_path / "c3").mkdir()
    (tmp_path / "c3" / "state.json").write_text(text)
    loaded = registry.load()
    assert loaded.unmade == []
    assert [(found.id, found.step) for found in loaded.records] == [("c3", Step.DAMAGED)]


def test_state_files_are_root_s_alone(tmp_path: Path) -> None:
    Registry(tmp_path).claim(record())
    assert (tmp_path / "a1").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a1" / "state.json").stat().st_mode & 0o777 == 0o600


def test_the_last_uid_index_is_remembered(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "sandboxes")
    assert registry.last_index() == -1
    registry.remember_index(7)
    assert Registry(tmp_path / "sandboxes").last_index() == 7


def test_a_process_is_known_by_pid_and_start_time() -> None:
    mine = ProcessRecord.of(os.getpid())
    assert mine is not None
    assert mine.started == start_time(os.getpid())
    assert ProcessRecord.of(2**22 + 1) is None
