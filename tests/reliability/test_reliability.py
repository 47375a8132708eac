"""A quick share of what the commands beside this file try at length."""

from chaos import chaos
from damage import try_damage
from kills import try_kills
from machine import try_orders
from soak import soak
from writes import FAULTS, try_writes


def test_what_befalls_the_cluster_does_not_show_in_the_bytes():
    said = []
    differences, befell = chaos(range(100, 102), said.append)
    assert differences == 0, said
    assert befell


def test_a_write_that_fails_or_comes_late_or_twice_leaves_a_whole_run():
    trials, wrong = try_writes(every=20)
    assert not wrong
    assert all(trials[fault] >= 3 for fault in FAULTS)
    assert trials["polls"] > 0


def test_damage_is_an_error_or_changes_nothing():
    outcomes, wrong = try_damage(range(60))
    assert not wrong
    assert sum(outcomes.values()) == 60
    assert any("error" in outcome for outcome in outcomes)


def test_what_a_killed_job_left_is_ours_and_the_next_goes_on():
    tried, wrong = try_kills(every=90)
    assert not wrong
    assert all(
        tried[f"{job} --force"]
        for job in ("fit", "fit of a cube", "predict", "path", "tree", "synth")
    )
    assert all(tried[f"{job} with a checkpoint"] for job in ("path", "penalty"))


def test_the_store_says_what_a_model_in_memory_says():
    try_orders(10)


def test_nothing_is_left_after_a_fit():
    looks = soak(0.0)
    assert [look.tasks for look in looks] == [0] * 3
    assert looks[-1].files == looks[0].files
