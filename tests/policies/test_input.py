"""Bad input gets a sentence that says what, where, got, do; and changes nothing."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from tests.storage_tools import rewrite

import heavytail as ht

TAIL = ht.MomentBound(1.5, 1.0)


@pytest.mark.parametrize("order", [1.0, 0.49, 2.01, 0.0, -1.0, float("nan"), float("inf")])
def test_an_order_outside_1_2_is_refused_with_what_to_do(order):
    with pytest.raises(
        ValueError, match=r"MomentBound.order must .* \(1, 2\].*moment order itself"
    ):
        ht.MomentBound(order, 1.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_no_scale_is_refused(scale):
    with pytest.raises(ValueError, match=r"MomentBound.scale"):
        ht.MomentBound(1.5, scale)


@pytest.mark.parametrize("value", ["2", None, True, [1.5]])
def test_a_number_of_the_wrong_type_is_a_type_error(value):
    with pytest.raises(TypeError, match=r"MomentBound.order"):
        ht.MomentBound(value, 1.0)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dim": 0}, "HvtUCB.dim"),
        ({"dim": 2.5}, "HvtUCB.dim"),
        ({"ridge": 0.0}, "HvtUCB.ridge"),
        ({"ridge": -1.0}, "HvtUCB.ridge"),
        ({"delta": 0.0}, "HvtUCB.delta"),
        ({"delta": 1.0}, "HvtUCB.delta"),
        ({"horizon": 0}, "HvtUCB.horizon"),
        ({"horizon": -5, "radius": "theory"}, "HvtUCB.horizon"),
        ({"radius": "magic"}, "HvtUCB.radius"),
        ({"radius": "theory"}, "HvtUCB.horizon"),
        ({"radius": "theory", "horizon": 10, "intercept": True}, "HvtUCB.intercept"),
        ({"theta_bound": 0.0}, "HvtUCB.theta_bound"),
        ({"arm_bound": -1.0}, "HvtUCB.arm_bound"),
        ({"alpha": 0.0}, "HvtUCB.alpha"),
        ({"clip": 0.0}, "HvtUCB.clip"),
        ({"exploration": -0.1}, "HvtUCB.exploration"),
        ({"radius_scale": float("nan")}, "HvtUCB.radius_scale"),
        ({"threshold_scale": 0.0}, "HvtUCB.threshold_scale"),
    ],
    ids=str,
)
def test_every_knob_of_hvt_ucb_is_checked_by_name(options, named):
    with pytest.raises(ValueError, match=named):
        ht.HvtUCB(**{"dim": 2, "tail": TAIL, **options})


def test_a_tail_that_is_none_of_ours_is_refused():
    with pytest.raises(TypeError, match=r"HvtUCB.tail must be a MomentBound"):
        ht.HvtUCB(2, tail=1.5)


def test_an_arm_longer_than_its_bound_is_refused_by_its_row():
    policy = ht.HvtUCB(2, tail=TAIL)
    with pytest.raises(ValueError, match=r"arms\[1\] has norm 1.41421.*raise arm_bound"):
        policy.select([[0.0, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match=r"x has norm"):
        policy.update([1.0, 1.0], 0.0)
    policy.update(np.array([1.0, 0.0]) * (1 + 1e-12), 0.0)  # rounding is not a mistake


def test_errors_name_the_row_and_the_feature():
    policy = ht.OFUL(2, noise_scale=1.0)
    with pytest.raises(ValueError, match=r"arms\[2\] must be finite; got nan at feature 1"):
        policy.select([[0.0, 0.0], [0.0, 0.0], [0.0, np.nan]])
    with pytest.raises(ValueError, match=r"arms must have shape \(n, 2\).*got shape \(3,\)"):
        policy.select([1.0, 2.0, 3.0])


def test_a_reward_that_would_overflow_is_refused_with_what_to_do():
    policy = ht.OFUL(2, noise_scale=1.0)
    before = policy.theta
    with pytest.raises(ValueError, match="change the unit of the reward"):
        policy.update([1.0, 0.0], 1e300)
    assert np.array_equal(policy.theta, before)
    assert policy.rounds == 0


@pytest.mark.parametrize("scale", [1e-100, 1e-20, 1e20, 1e100])
def test_an_extreme_scale_is_harmless(scale):
    policy = ht.HvtUCB(2, tail=TAIL)
    for x in ([1e-200, 0.0], [1.0, 0.0], [0.0, 0.0]):
        policy.update(x, 1.0, scale=scale)
    assert np.isfinite(policy.theta).all()
    assert np.isfinite(policy.radius)


def test_rounds_past_the_horizon_say_so_once():
    policy = ht.HvtUCB(1, tail=TAIL, horizon=2)
    policy.update([1.0], 0.0)
    policy.update([1.0], 0.0)
    with pytest.warns(UserWarning, match="past horizon=2"):
        policy.update([1.0], 0.0)
    policy.update([1.0], 0.0)  # silent from here on: warnings are errors in these tests


# --- files


@pytest.fixture
def saved(tmp_path):
    policy = ht.HvtUCB(2, tail=TAIL)
    policy.update([1.0, 0.0], 0.5)
    path = tmp_path / "policy.npz"
    policy.save(path)
    return path


def test_a_truncated_file_is_refused_at_every_length(saved):
    whole = saved.read_bytes()
    for length in [0, 1, 10, len(whole) // 3, len(whole) // 2, len(whole) - 1]:
        saved.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"or is damaged|its seal does not fit"):
            ht.load(saved)


def test_a_file_of_another_version_is_refused(saved):
    rewrite(saved, lambda header, _: header.update(version=99))
    with pytest.raises(ValueError, match="format version 99"):
        ht.load(saved)


def test_a_file_of_an_unknown_policy_is_refused(saved):
    rewrite(saved, lambda header, _: header.update(policy="os.system"))
    with pytest.raises(ValueError, match=r"os.system.*does not have"):
        ht.load(saved)


def test_a_file_whose_arguments_do_not_fit_is_refused(saved):
    rewrite(saved, lambda header, _: header["arguments"].update(dim=-1))
    with pytest.raises(ValueError, match=r"HvtUCB.dim"):
        ht.load(saved)


def test_a_file_whose_arrays_do_not_fit_is_refused(saved):
    rewrite(saved, lambda _, arrays: arrays.update(theta=np.zeros(9)))
    with pytest.raises(ValueError, match="'theta' does not fit"):
        ht.load(saved)


def test_a_file_with_a_nan_inside_is_refused(saved):
    rewrite(saved, lambda _, arrays: arrays.update(theta=np.full(3, np.nan)))
    with pytest.raises(ValueError, match="'theta' is damaged"):
        ht.load(saved)


def test_a_pickle_is_never_opened(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="saved by heavytail, or is damaged"):
        ht.load(path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="saved by heavytail, or is damaged"):
        ht.load(tmp_path / "text")


def test_a_missing_file_is_a_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        ht.load(tmp_path / "nowhere.npz")


def test_a_crash_while_saving_leaves_the_old_file_whole(saved, monkeypatch):
    before = saved.read_bytes()

    def crash(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", crash)
    with pytest.raises(OSError, match="disk full"):
        ht.HvtUCB(2, tail=TAIL).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["policy.npz"]


def test_the_file_is_an_open_format(saved):
    with zipfile.ZipFile(saved) as archive:
        assert sorted(archive.namelist()) == [
            "header.npy",
            "inverse.npy",
            "scalars.npy",
            "sizes.npy",
            "theta.npy",
        ]
