"""Files of format version 1, which knew the slots of a policy by their order alone.

Nothing here changes any more: it is what was once written. A slot that has gone since is dropped,
one that has come since, or that is for ever what the arguments say, keeps the value these give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail.kernels.layout import slot_kinds

__all__ = ["upgrade"]

COMMON: Final = "rounds radius gain step projected log_det arm_limit theta_bound constant clipped"
# The named slots of each class behind the common ones; a run of others may follow.
OWN: Final = {
    "HvtUCB": (
        "order alpha radius_scale sigma tau theory sigma_min tau_0 slope beta_0 exploration prior "
        "log_inverse_delta stability energy typical clip auto run near far weight weight_squares "
        "votes telling"
    ),
    "HeavyOFUL": (
        "path order ridge sigma_min steep root tau_0 radius_scale prior_root sigma tau_t slope "
        "solver accuracy steps"
    ),
    "AdaOFUL": (
        "path order ridge sigma_min steep root tau_0 radius_scale prior_root sigma tau_t kappa "
        "theory_tau_0 log_inverse_delta"
    ),
    "HuberBandit": "order nu arms forced ridge log_term models known",
    "TOFU": "order slope level prior_root radius_scale",
    "BTC": "order factor threshold_scale prior_root radius_scale stages finest samples groups",
    "OFUL": "noise_scale log_inverse_delta prior_root radius_scale",
    "CRTM": "level alpha",
    "CRMM": "repeats pulls epochs noise log_inverse_delta prior_root span radius_scale",
    "MENU": "repeats pulls epochs order noise prior_root radius_scale chosen",
    "CRT": "order raw_power log_inverse_delta log_horizon prior_root radius_scale threshold_scale",
    "MoM": "repeats pulls epochs groups mean_width log_batches prior_root radius_scale",
    "BMM": "repeats pulls epochs order noise prior_root radius_scale stages finest",
    "LinTS": "key noise_scale log_inverse_delta radius_scale draws",
    "EpsilonGreedy": "key epsilon radius_scale draws",
    "RobustUCB": (
        "order method arms known groups capacity scale log_inverse constant_factor least "
        "threshold_scale"
    ),
    "Uniform": "key draws",
}


DEFAULTS = {"OFUL": {"radius_scale": 1.0}}  # then, where they are others now


def by_name(policy: Any, scalars: FloatArray, now: FloatArray) -> FloatArray:
    """Scalars (..., n) of a policy in the order that it has them now; as they are where their
    order then is not known.
    """
    names = _names(type(policy).__name__)
    if scalars.shape[-1:] != (len(names),):
        return scalars
    columns = [
        scalars[..., names.index(name)]
        if name in names and kind != "fixed"
        else np.broadcast_to(now[..., slot], scalars.shape[:-1])
        for slot, (name, kind) in enumerate(slot_kinds(*policy.slots).items())
    ]
    return np.stack(columns, axis=-1)


def upgrade(policy: Any, arrays: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """The ``arrays`` of a file as the fresh ``policy`` has them now. What does not fit is left for
    the loader to refuse.
    """
    scalars, names = arrays.get("scalars"), _names(type(policy).__name__)
    if not names or scalars is None or scalars.ndim != 1 or len(scalars) < len(names):
        return dict(arrays)
    fresh = policy.state_arrays()
    upgraded = {**arrays, "scalars": by_name(policy, scalars[: len(names)], fresh["scalars"])}
    sources = {1: scalars[len(names) :], 2: None if "sums" in fresh else upgraded.pop("sums", None)}
    for name, now in fresh.items():
        source = sources[now.ndim]
        if name not in arrays and name != "history" and source is not None:
            upgraded[name], sources[now.ndim] = source[: len(now)], source[len(now) :]
    return upgraded


def _names(kind: str) -> list[str]:
    return f"{COMMON} {OWN[kind]}".split() if kind in OWN else []
