"""Which slots are claimed, retired and refilled, without threads and without a clock."""

from sandbox.pool.inventory import (
    ALONE_SECONDS,
    AMONG_OTHERS_SECONDS,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    REFILLS,
    REST_SECONDS,
    Inventory,
)
from sandbox.pool.lease import IdleSlot
from tests.unit.sandbox.pool_kit import kind

A, B = kind("a"), kind("b")
NOW = 1000.0


def slot(key=A, fingerprint="here", born=NOW) -> IdleSlot:
    return IdleSlot(key, slot=None, staging=None, fingerprint=fingerprint, born=born)  # type: ignore[arg-type]


def stocked(*slots: IdleSlot) -> Inventory:
    return Inventory(idle=list(slots))


def test_oldest_matching_slot_is_claimed_once():
    other, foreign, old, new = slot(B), slot(fingerprint="elsewhere"), slot(), slot()
    inventory = stocked(other, foreign, old, new)
    assert [inventory.claim(A, "here", NOW) for _ in range(3)] == [old, new, None]
    assert inventory.idle == [other, foreign]


def test_claimed_slot_is_remembered_during_its_call():
    claimed = slot()
    inventory = stocked(claimed)
    inventory.claim(A, "here", NOW)
    assert not inventory.forget(claimed)
    inventory.idle.append(claimed)
    assert inventory.forget(claimed)
    assert inventory.idle == []


def test_only_unusable_unwanted_or_excess_slots_are_retired():
    first, second, third, stale, unwanted = slot(), slot(), slot(), slot(), slot(B)
    inventory = stocked(first, stale, second, third, unwanted)
    assert inventory.retire([(A, 2)], {stale}) == [stale, third, unwanted]
    assert inventory.idle == [first, second]
    assert inventory.retire([(A, 2)], ()) == []


def test_missing_slots_start_few_at_once():
    inventory = stocked(slot())
    assert inventory.begin_refills([(A, 2), (B, 1)], NOW) == [A, B]
    assert inventory.begin_refills([(A, 9), (B, 9)], NOW) == []
    assert len(inventory.starting) == REFILLS
    inventory.refilled(A, slot())
    assert inventory.begin_refills([(A, 2), (B, 2)], NOW) == [B]
    assert len(inventory.idle) + len(inventory.starting) == 4


def test_refill_leaves_processors_to_the_preceding_call():
    alone = stocked(slot())
    alone.claim(A, "here", NOW)
    assert alone.begin_refills([(A, 1)], NOW + ALONE_SECONDS - 0.01) == []
    assert alone.begin_refills([(A, 1)], NOW + ALONE_SECONDS) == [A]

    ended = stocked(slot())
    claimed = ended.claim(A, "here", NOW)
    assert claimed is not None
    ended.finish(claimed, NOW + 1)
    assert ended.begin_refills([(A, 1)], NOW + 1) == []
    assert ended.begin_refills([(A, 1)], NOW + 1 + REST_SECONDS) == [A]

    among_others = stocked(slot(), slot())
    among_others.claim(A, "here", NOW)
    among_others.claim(A, "here", NOW)
    assert among_others.begin_refills([(A, 2)], NOW + AMONG_OTHERS_SECONDS) == [A, A]


def test_failures_double_the_pause_up_to_a_minute():
    inventory, now, pauses = Inventory(), NOW, []
    for _ in range(10):
        assert inventory.begin_refills([(A, 1)], now) == [A]
        inventory.refill_failed(now)
        inventory.refilled(A, None)
        pauses.append(inventory.resume - now)
        assert inventory.begin_refills([(A, 1)], inventory.resume - 0.01) == []
        now = inventory.resume
    assert pauses[:4] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    assert inventory.begin_refills([(A, 1)], now) == [A]
    inventory.refilled(A, slot())
    inventory.refill_failed(now)
    assert inventory.resume - now == FIRST_PAUSE


def test_next_change_is_the_earliest_of_all():
    inventory, age = Inventory(), 600.0
    assert inventory.next_change(NOW, age) is None
    inventory.idle.append(slot(born=NOW - 50.0))
    assert inventory.next_change(NOW, 100.0) == 50.0
    assert inventory.next_change(NOW, age) == 550.0
    inventory.claim(A, "here", NOW)
    inventory.postpone(NOW + 2.0)
    assert inventory.next_change(NOW, age) == 2.0
    assert inventory.next_change(NOW + 2.5, age) == ALONE_SECONDS - 2.5
