"""Every keeper of decisions passes the battery; broken ones prove each check can fail."""

from __future__ import annotations

import itertools

import pytest
from tests.serve.postgres import database

import heavytail as ht
from heavytail.checks import LEDGER_CHECKS, CheckFailed, check_ledger
from heavytail.ledger.decision import Outcome
from heavytail.ledger.memory import Memory


def opening(kind):
    """Opens ledgers of a kind that is kept in memory."""

    def opened(before=None):
        if before is None:
            return kind()
        again = kind.of_arrays(before.arrays(2), 2, "ledger")
        again.outcomes = before.outcomes
        return again

    return opened


class Recording(Memory):
    """A sound ledger that also keeps outcomes; the broken ones below change one thing each."""

    outcomes = ()

    def rewarded(self, decision, reward=None, where="rewarded"):
        super().rewarded(decision, reward, where)
        token = decision if not hasattr(decision, "token") else decision.token
        self.outcomes = (*self.outcomes, Outcome(len(self.outcomes) + 1, int(token), reward))

    def since(self, seq):
        return iter(self.outcomes[seq:])


def logs(where):
    """Opens DecisionLogs, each at an address that ``where`` gives."""

    def opened(before=None):
        if before is not None:
            before.close()
        return ht.DecisionLog(where() if before is None else before.path)

    return opened


def test_a_log_in_a_folder_passes(tmp_path):
    folders = (tmp_path / str(k) for k in itertools.count())
    check_ledger(logs(lambda: next(folders)))


def test_a_log_in_a_database_that_others_share_passes():
    with database() as server:

        def empty():
            server.clear()
            return server.address

        check_ledger(logs(empty))


def test_what_a_policy_keeps_its_decisions_in_passes():
    def memory(before=None):
        return Memory() if before is None else Memory.of_arrays(before.arrays(2), 2, "it")

    check_ledger(memory)
    check_ledger(opening(Recording))


class NewestFirst(Recording):
    waiting = property(lambda self: super().waiting[::-1])


class NeverEmpty(Recording):
    waiting = property(lambda self: super().waiting or (0,))


class RewardsTwice(Recording):
    def rewarded(self, decision, reward=None, where="rewarded"):
        kept = dict(self.kept)
        super().rewarded(decision, reward, where)
        self.kept = kept


class RewardsAnything(Recording):
    def rewarded(self, decision, reward=None, where="rewarded"):
        super().rewarded(int(decision) if isinstance(decision, bool) else decision, reward, where)


class RefusesWithoutAWord(Recording):
    def rewarded(self, decision, reward=None, where="rewarded"):
        try:
            super().rewarded(decision, reward, where)
        except ValueError:
            raise ValueError("no") from None


class TakesTokensAgain(Recording):
    def decided(self, decision, arms=None):
        self.made = min(self.made, decision.token)
        super().decided(decision, arms)


class RewardsAnother(Recording):
    def rewarded(self, decision, reward=None, where="rewarded"):
        super().rewarded(getattr(decision, "token", decision), reward, where)


class ForgetsAsItRefuses(Recording):
    def decided(self, decision, arms=None):
        if decision.token < self.made:
            self.kept.pop(decision.token, None)
        super().decided(decision, arms)


class SparesOneMore(Recording):
    def expire(self, age=None, *, older_than=None, now=None, where="expire"):
        age = age + 1 if isinstance(age, int) and age >= 0 else age
        return super().expire(age, older_than=older_than, now=now)


class ExpiresForEver(Recording):
    def decided(self, decision, arms=None):
        super().decided(decision, arms)
        if self.expired and decision.token == 6:
            del self.kept[6]


class HasAClockOfItsOwn(Recording):
    def expire(self, age=None, *, older_than=None, now=None, where="expire"):
        now = 1000.0 if older_than is not None and now is None else now
        return super().expire(age, older_than=older_than, now=now)


class RewardsTheExpired(Recording):
    def owed(self, decision, where):
        if decision in self.expired:
            return None
        return super().owed(decision, where)

    def rewarded(self, decision, reward=None, where="rewarded"):
        if not hasattr(decision, "token") and decision in self.expired:
            return
        super().rewarded(decision, reward, where)


class ExpiresWithoutAnAge(Recording):
    def expire(self, age=None, *, older_than=None, now=None, where="expire"):
        if age is None and older_than is None:
            return 0
        return super().expire(age, older_than=older_than, now=now)


class CountsFromZero(Recording):
    def since(self, seq):
        return (one._replace(seq=one.seq - 1) for one in self.outcomes[seq:])


class SortsItsOutcomes(Recording):
    def since(self, seq):
        return iter(sorted(self.outcomes, key=lambda one: one.token)[seq:])


class ForgetsItsOutcomes(Recording):
    @classmethod
    def of_arrays(cls, arrays, dim, owner):
        again = super().of_arrays(arrays, dim, owner)
        again.kept.pop(3, None)
        return again


class ForgetsWhatExpired(Recording):
    @classmethod
    def of_arrays(cls, arrays, dim, owner):
        again = super().of_arrays(arrays, dim, owner)
        again.made = 2
        return again


BROKEN = {
    NewestFirst: "waits_in_order",
    NeverEmpty: "waits_in_order",
    RewardsTwice: "rewards_once",
    RewardsAnything: "rewards_once",
    RefusesWithoutAWord: "rewards_once",
    TakesTokensAgain: "keeps_tokens_apart",
    RewardsAnother: "keeps_tokens_apart",
    ForgetsAsItRefuses: "keeps_tokens_apart",
    SparesOneMore: "expires_by_count",
    ExpiresForEver: "expires_by_count",
    RewardsTheExpired: "expires_by_count",
    HasAClockOfItsOwn: "expires_by_time",
    ExpiresWithoutAnAge: "refuses_odd_ages",
    CountsFromZero: "numbers_its_outcomes",
    SortsItsOutcomes: "numbers_its_outcomes",
    ForgetsItsOutcomes: "survives_a_restart",
    ForgetsWhatExpired: "survives_a_restart",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_ledger_fails_the_check_it_was_broken_for(kind):
    with pytest.raises(CheckFailed) as failure:
        check_ledger(opening(kind))
    assert BROKEN[kind] in failure.value.failures


def test_every_check_has_a_ledger_that_fails_it():
    assert set(BROKEN.values()) == set(LEDGER_CHECKS)
