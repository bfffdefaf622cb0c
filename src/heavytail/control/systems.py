"""Linear-quadratic systems whose optimum is known exactly, and three of the literature."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import FloatArray
from heavytail._validate import as_numbers, shown
from heavytail.environments.noise import Noise, Scaled

__all__ = ["LQSystem", "boeing_747", "double_integrator", "laplacian"]

SYMMETRY = 1e-10  # relative: a matrix this near to its transpose is symmetric, up to rounding
RANK = 1e-9  # relative singular value below which a direction counts as lost


class LQSystem:
    r"""A linear system with quadratic cost, driven by noise that knows its own moments.

    $$x_{t+1} = A x_t + B u_t + w_{t+1},\qquad c_t = x_t^\top Q x_t + u_t^\top R u_t$$

    The optimal controller u = K x, K = -(R + B'PB)^-1 B'PA with P of the Riccati equation, costs
    J* = trace(P) var(w) per step. It is finite only where the noise has a variance: with t(1.5)
    noise ``optimal_cost`` is infinite, no regret exists, and what can be judged is how well the
    system is identified.

    >>> import heavytail as ht
    >>> system = ht.control.laplacian(ht.noise.Gaussian())
    >>> system.K.shape, round(system.optimal_cost, 4)
    ((3, 3), 0.1373)

    Args:
        A: (n, n).
        B: (n, d).
        Q: (n, n), symmetric, no negative eigenvalue.
        R: (d, d), symmetric, positive eigenvalues only.
        noise: what each coordinate of w_t is drawn from, independently; a :mod:`heavytail.noise`.
        name: shown in results.
    """

    def __init__(
        self,
        A: ArrayLike,
        B: ArrayLike,
        Q: ArrayLike,
        R: ArrayLike,
        noise: Noise,
        *,
        name: str = "LQ system",
    ) -> None:
        self.A = _matrix("A", A)
        n = self.A.shape[0]
        _check_shape("LQSystem.A", self.A, (n, n), "It takes a state to a state: square.")
        self.B = _matrix("B", B)
        d = self.B.shape[1]
        _check_shape("LQSystem.B", self.B, (n, d), f"It has one row per state, and A has {n}.")
        self.Q = check_cost("LQSystem.Q", Q, n, "state", strictly=False)
        self.R = check_cost("LQSystem.R", R, d, "input", strictly=True)
        if not isinstance(noise, Noise) or isinstance(noise, Scaled):
            raise TypeError(
                f"LQSystem.noise must be a noise of constant scale, such as "
                f"heavytail.noise.StudentT(2.1); got {shown(noise)}."
            )
        self.noise = noise
        self.name = str(name)
        check_stabilisable(self.A, self.B)
        _check_detectable(self.A, self.Q)
        self.P = solve_riccati(self.A, self.B, self.Q, self.R)
        self.K = gain(self.A, self.B, self.R, self.P)

    def __repr__(self) -> str:
        return f"LQSystem({self.name!r}, n={self.n}, d={self.d}, noise={self.noise!r})"

    @property
    def n(self) -> int:
        """Length of the state."""
        return int(self.A.shape[0])

    @property
    def d(self) -> int:
        """Length of the input."""
        return int(self.B.shape[1])

    @property
    def theta(self) -> FloatArray:
        """Theta* of x_{t+1} = Theta*' z_t + w, z = (x, u): shape (n + d, n), Theta*' = [A B]."""
        return np.hstack([self.A, self.B]).T.copy()

    @property
    def variance(self) -> float:
        """Of one coordinate of the noise; infinite where it has none."""
        try:
            return float(self.noise.scale(2.0) ** 2)
        except ValueError:
            return math.inf

    @property
    def optimal_cost(self) -> float:
        """J* = trace(P) var(w), the least long-run cost per step; infinite with the variance."""
        return float(np.trace(self.P)) * self.variance

    def cost(self, K: ArrayLike) -> float:
        """The long-run cost per step of u = K x: exact; infinite where K does not stabilise."""
        from scipy.linalg import solve_discrete_lyapunov

        matrix = check_gain("LQSystem.cost: K", K, self.d, self.n)
        closed = self.A + self.B @ matrix
        if spectral_radius(closed) >= 1.0 or math.isinf(self.variance):
            return math.inf
        value = solve_discrete_lyapunov(closed.T, self.Q + matrix.T @ self.R @ matrix)
        return float(np.trace(value)) * self.variance

    def gain_for(self, Q: ArrayLike, R: ArrayLike) -> FloatArray:
        """The optimal gain under other costs: one way to a fallback that surely stabilises."""
        state = check_cost("LQSystem.gain_for: Q", Q, self.n, "state", strictly=False)
        force = check_cost("LQSystem.gain_for: R", R, self.d, "input", strictly=True)
        P = solve_riccati(self.A, self.B, state, force)
        return gain(self.A, self.B, force, P)

    def sample(self, rng: np.random.Generator, steps: int) -> FloatArray:
        """Noise of ``steps`` steps, (steps, n); a longer draw begins as a shorter one."""
        return self.noise.sample(rng, steps * self.n).reshape(steps, self.n)


def laplacian(noise: Noise) -> LQSystem:
    """Three coupled, slightly unstable nodes: Dean, Mania, Matni, Recht and Tu (2018).

    Q is a thousandth of R, so the optimal gain is small and the closed loop slow.
    """
    A = 1.01 * np.eye(3) + 0.01 * (np.eye(3, k=1) + np.eye(3, k=-1))
    return LQSystem(A, np.eye(3), 1e-3 * np.eye(3), np.eye(3), noise, name="Laplacian")


def double_integrator(noise: Noise) -> LQSystem:
    """A unit mass pushed by a force, position alone paid for: Recht (2019), A Tour of RL."""
    return LQSystem(
        [[1.0, 1.0], [0.0, 1.0]],
        [[0.0], [1.0]],
        [[1.0, 0.0], [0.0, 0.0]],
        [[1.0]],
        noise,
        name="double integrator",
    )


def boeing_747(noise: Noise) -> LQSystem:
    """Longitudinal flight at 40,000 ft and 774 ft/s, by the second; inputs elevator and thrust.

    Matrices as in Boyd and Vandenberghe (2018), Introduction to Applied Linear Algebra, section
    17.2; the benchmark of Lale, Azizzadenesheli, Hassibi and Anandkumar (AISTATS 2022), Q = I and
    R = I.
    """
    A = [
        [0.99, 0.03, -0.02, -0.32],
        [0.01, 0.47, 4.7, 0.0],
        [0.02, -0.06, 0.4, 0.0],
        [0.01, -0.04, 0.72, 0.99],
    ]
    B = [[0.01, 0.99], [-3.44, 1.66], [-0.83, 0.44], [-0.47, 0.25]]
    return LQSystem(A, B, np.eye(4), np.eye(2), noise, name="Boeing 747")


def solve_riccati(A: FloatArray, B: FloatArray, Q: FloatArray, R: FloatArray) -> FloatArray:
    """P = Q + A'PA - A'PB(R + B'PB)^-1 B'PA, the stabilising solution."""
    from scipy.linalg import solve_discrete_are

    P = solve_discrete_are(A, B, Q, R)
    return np.asarray(0.5 * (P + P.T))


def gain(A: FloatArray, B: FloatArray, R: FloatArray, P: FloatArray) -> FloatArray:
    """K = -(R + B'PB)^-1 B'PA, so that u = K x."""
    return -np.asarray(np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A))


def spectral_radius(matrix: FloatArray) -> float:
    """The largest modulus of an eigenvalue; x <- matrix x dies out exactly where it is below 1."""
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def check_stabilisable(A: FloatArray, B: FloatArray) -> None:
    """Refuse (A, B) with an unstable mode that no input reaches (Popov, Belevitch, Hautus)."""
    mode = _lost_mode(A, B)
    if mode is not None:
        raise ValueError(
            f"LQSystem: (A, B) must be stabilisable; A has the eigenvalue {_show(mode)}, of "
            f"modulus {abs(mode):.4g} >= 1, and no input in B reaches its mode, so no controller "
            "can stop it. Add an input that does, or take the mode out of the state."
        )


def check_gain(name: str, K: ArrayLike, d: int, n: int) -> FloatArray:
    """``K`` as a finite (d, n) matrix, or refuse it by name."""
    matrix = _matrix(name.rpartition(".")[2], K, where=name.rpartition(".")[0])
    if matrix.shape != (d, n):
        raise ValueError(
            f"{name} must have shape ({d}, {n}), one row per input and one column per state, for "
            f"u = K x; got shape {matrix.shape}."
        )
    return matrix


def _check_detectable(A: FloatArray, Q: FloatArray) -> None:
    mode = _lost_mode(A.T, Q)
    if mode is not None:
        raise ValueError(
            f"LQSystem: Q must see every mode of A that does not die out; A has the eigenvalue "
            f"{_show(mode)}, of modulus {abs(mode):.4g} >= 1, and Q gives its mode no cost, so "
            "the cheapest controller would let it grow. Give it a cost."
        )


def _lost_mode(A: FloatArray, B: FloatArray) -> complex | None:
    n = A.shape[0]
    scale = max(float(np.abs(A).max()), float(np.abs(B).max()), 1.0)
    for value in np.linalg.eigvals(A):
        if abs(value) >= 1.0 - RANK:
            pencil = np.hstack([value * np.eye(n) - A, B])
            if np.linalg.svd(pencil, compute_uv=False)[n - 1] <= RANK * scale:
                return complex(value)
    return None


def _show(value: complex) -> str:
    return f"{value.real:.4g}" if value.imag == 0.0 else f"{value:.4g}"


def _matrix(name: str, value: ArrayLike, where: str = "LQSystem") -> FloatArray:
    array = as_numbers(value, f"{where}.{name}", "a matrix of numbers")
    if array.ndim != 2 or 0 in array.shape:
        raise TypeError(f"{where}.{name} must be a matrix of numbers; got shape {array.shape}.")
    array = np.array(array, order="C")
    if not np.isfinite(array).all():
        i, j = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"{where}.{name} must be finite; got {array[i, j]} at ({i}, {j}).")
    return array


def _check_shape(name: str, matrix: FloatArray, shape: tuple[int, int], why: str) -> None:
    if matrix.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {matrix.shape}. {why}")


def check_cost(name: str, value: ArrayLike, size: int, of: str, *, strictly: bool) -> FloatArray:
    """A cost matrix, symmetric and without negative (``strictly``: only positive) eigenvalues, or
    refuse it by name.
    """
    where, _, letter = name.rpartition(".")
    matrix = _matrix(letter, value, where)
    _check_shape(name, matrix, (size, size), f"It weighs the {of}, which has length {size}.")
    largest = float(np.abs(matrix).max())
    if float(np.abs(matrix - matrix.T).max()) > SYMMETRY * largest:
        raise ValueError(
            f"{name} must be symmetric; entry (i, j) and (j, i) differ by "
            f"{float(np.abs(matrix - matrix.T).max()):.4g}. Pass ({letter} + {letter}')/2."
        )
    matrix = 0.5 * (matrix + matrix.T)
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -SYMMETRY * largest or (strictly and least <= SYMMETRY * largest):
        wanted = "positive definite" if strictly else "positive semidefinite"
        raise ValueError(
            f"{name} must be {wanted}; its smallest eigenvalue is {least:.4g}. "
            f"Otherwise some {of} {'is free or pays' if strictly else 'pays'}, and no optimum "
            "exists."
        )
    return matrix
