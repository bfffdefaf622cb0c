"""A clock that is set: what orders decisions goes on, and how long one has waited is real time."""

from __future__ import annotations

import contextlib
import functools
import threading
import time

import polars as pl
import pytest
from tests.serve.conftest import serving
from tests.serve.test_service import ARMS, SHOP, reward

from heavytail.ledger.postgres import PostgresStore
from heavytail.ledger.store import Store
from heavytail.ledger.tokens import Token, time_of
from heavytail.serve import chores, clock

WAIT = 60.0
YEAR = 365.0 * 86400.0
SPEC = {"dim": 3, "wait": WAIT}


class Times:
    """The clock on the wall, which may be wrong, and seconds that pass."""

    def __init__(self) -> None:
        self.wall, self.steady = time.time(), 1000.0
        self.lock = threading.RLock()  # services read both in the background

    def go_on(self, seconds: float) -> None:
        with self.lock:
            self.wall += seconds
            self.steady += seconds

    def reads_both(self, method):
        """Return the method as one that sees both clocks at the same moment."""

        @functools.wraps(method)
        def read(*args):
            with self.lock:
                return method(*args)

        return read


@pytest.fixture
def times(monkeypatch):
    found = Times()
    monkeypatch.setattr(clock, "steady", lambda: found.steady)
    for method in ("begin", "keep"):
        monkeypatch.setattr(clock.Clock, method, found.reads_both(getattr(clock.Clock, method)))
    monkeypatch.setattr(chores, "GRACE", 0.0)
    for kind in (Store, PostgresStore):
        monkeypatch.setattr(kind, "clock", lambda self: found.wall)
        monkeypatch.setattr(kind, "measure", lambda self: found.wall)
    return found


def made(client, name="shop"):
    answer = client.post(f"/v1/models/{name}/decisions", json={"arms": ARMS})
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


def pending(client, name="shop"):
    client.portal.call(client.app.state.service.chores.give_up)
    return client.get(f"/v1/models/{name}").json()["pending"]


def check_waits(client, times, name="shop"):
    """What is decided now is given up after its wait, not before and not later."""
    before = pending(client, name)
    made(client, name)
    times.go_on(WAIT - 5.0)
    assert pending(client, name) >= 1
    token = made(client, name)
    times.go_on(10.0)
    assert pending(client, name) == 1, before
    answer = client.post(f"/v1/models/{name}/rewards", json={"token": token, "reward": 1.0})
    assert answer.status_code == 202
    assert pending(client, name) == 0


@pytest.mark.parametrize("error", [YEAR, 86400.0, -YEAR])
def test_a_clock_that_was_wrong_for_a_moment_changes_no_wait(where, times, error):
    with serving(where) as client:
        client.put(SHOP, json=SPEC)
        before = made(client)
        times.go_on(3.0)
        times.wall += error
        assert pending(client) == 1  # not too early
        during = made(client)
        times.go_on(5.0)
        assert pending(client) == 2
        times.wall -= error
        assert pending(client) == 2
        after = made(client)
        keys = [Token.parse(one).key for one in (before, during, after)]
        assert [time_of(key) for key in keys] == sorted(time_of(key) for key in keys)
        times.go_on(WAIT - 7.0)
        assert pending(client) == 2  # the first has waited long enough
        assert reward(client, before, 1.0).json()["code"] == "expired"
        times.go_on(8.0)
        assert pending(client) == 0
        assert reward(client, during, 1.0).json()["code"] == "expired"
        assert reward(client, after, 1.0).json()["code"] == "expired"
        check_waits(client, times)
    with serving(where) as client:
        check_waits(client, times)
        client.put("/v1/models/new", json=SPEC)
        check_waits(client, times, "new")


@pytest.mark.parametrize("error", [YEAR, -YEAR])
def test_a_clock_that_was_wrong_at_the_start_changes_no_wait_once_it_is_right(where, times, error):
    times.wall += error
    with serving(where) as client:
        client.put(SHOP, json=SPEC)
        made(client)
        assert pending(client) == 1
        times.go_on(5.0)
        times.wall -= error
        assert pending(client) == 1
        made(client)
        times.go_on(WAIT - 6.0)
        assert pending(client) == 2
        times.go_on(2.0)
        assert pending(client) == 1
    times.go_on(10.0)  # nobody serves, and decisions wait all the same
    with serving(where) as client:
        assert pending(client) == 0
        client.put("/v1/models/new", json=SPEC)
        check_waits(client, times, "new")
        check_waits(client, times)


@pytest.mark.parametrize("error", [YEAR, -YEAR])
def test_a_clock_that_is_wrong_over_a_restart_changes_no_wait(where, times, error):
    with serving(where) as client:
        client.put(SHOP, json=SPEC)
        made(client)
        times.wall += error
    times.go_on(5.0)
    with serving(where) as client:
        assert pending(client) == 1
        times.wall -= error
        assert pending(client) == 1
        times.go_on(WAIT - 6.0)
        assert pending(client) == 1
        times.go_on(2.0)
        assert pending(client) == 0


def test_a_clock_that_is_set_right_while_nobody_serves_switches_no_wait_off(where, times):
    times.wall += YEAR
    with serving(where) as client:
        client.put(SHOP, json=SPEC)
        made(client)
    times.wall -= YEAR
    with serving(where) as client:
        assert pending(client) == 1
        check_waits(client, times)
    with serving(where) as client:
        check_waits(client, times)


def test_a_clock_that_was_ahead_in_one_run_without_a_decision_stops_no_model(where, times):
    with serving(where) as client:
        client.put(SHOP, json=SPEC)
        made(client)
    times.wall += YEAR
    with serving(where) as client:
        assert pending(client) == 0  # given up: a year has passed, for all that is known
    times.wall -= YEAR
    for _ in range(2):
        with serving(where) as client:
            check_waits(client, times)


def test_the_log_says_what_the_clock_said(where, times, tmp_path):
    with serving(where) as client:
        client.put(SHOP, json=SPEC)
        stamps = []
        for error in (0.0, YEAR, -YEAR):
            times.wall += error
            times.go_on(1.0)
            client.portal.call(client.app.state.service.chores.give_up)
            stamps.append(times.wall)
            assert reward(client, made(client), 1.0).status_code == 202
        (tmp_path / "log.parquet").write_bytes(client.get(f"{SHOP}/log").content)
    found = pl.read_parquet(tmp_path / "log.parquet")["time"].to_list()
    assert found == pytest.approx(stamps, abs=1.0)


def test_workers_wait_by_the_same_time_though_one_sees_first_that_the_clock_was_set(address, times):
    with contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(serving(address)) for _ in range(2))
        one.put(SHOP, json=SPEC)
        look = [client.app.state.service for client in (one, other)]

        def keep(client):
            service = client.app.state.service
            client.portal.call(service.commits.do, service.live.time.keep)

        for error in (YEAR, -YEAR, -YEAR, YEAR):
            times.wall += error
            for client in (one, other, one):
                keep(client)
            third = stack.enter_context(serving(address))  # one that has just started
            now = [service.live.clock() for service in (*look, third.app.state.service)]
            assert max(now) - min(now) < 1.0
            times.go_on(1.0)
        check_waits(other, times)
