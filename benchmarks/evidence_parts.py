"""The parts of ``make evidence``: commands, the pages they feed, the code their numbers hang on."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PARTS", "Part"]


class Part(NamedTuple):
    """Commands that make numbers, and where these stand.

    ``minutes`` is a rough time on two idle cores, or on a GPU. ``code`` names modules whose change,
    or that of the kernels they use, makes the record stale; a package stands for all its files and
    the file of a command counts anyway. ``writes`` is true of a command that writes its page or
    picture itself; ``file`` is where what is printed goes for another command to show.
    """

    name: str
    pages: tuple[str, ...]
    minutes: float
    commands: tuple[str, ...]
    code: tuple[str, ...]
    gpu: bool = False
    writes: bool = False
    file: str = ""


TWIN = ("core.twin", "core.twin_choice", "core.every_round", "core.noise_size")


def _policies(*names: str) -> tuple[str, ...]:
    """The modules of policies, of kernels that lie elsewhere, and of the worlds they play in."""
    worlds = ("heavytail.environments.noise", "heavytail.environments.geometry")
    kernels = TWIN if "twin_ucb" in names else ()
    return (*(f"heavytail.policies.{name}" for name in (*names, *kernels)), *worlds)


_ONE_SHAPE = (
    *("normal", "t(2.1)", "t(1.7)", "Pareto(1.5)", "Lomax(1.5)", "Fisk(1.5)", "log-normal(1)"),
    *("contaminated", "normal x 10^U(0,1)", "t(2.1) x 10^U(0,1)"),
)
ONE_SHAPE = " ".join(f"'{name} (3,10)'" for name in _ONE_SHAPE)
NORMAL = "'normal (3,10)' 'normal (5,20)' 'normal (2,50)'"
_SHOPS = ("amounts differ", "conversion differs", "converts rarely")
SHOPS = " ".join(f'"{name} (3,10)"' for name in (*_SHOPS, "normal"))
UNTUNED = "Hvt-UCB 'Twin-UCB, typical'"
LEAST_SQUARES = "'least squares 0.3' 'least squares 0.5' 'least squares 0.7'"
OFUL = "'OFUL 1.0' 'OFUL 0.3' 'OFUL 0.1'"
MEAN = "python -m benchmarks.mean"
OF_THE_MEAN = _policies("twin_ucb", "hvt_ucb")
PLAYED = _policies("twin_ucb", "hvt_ucb", "oful", "lin_ts", "uniform")
PAPERS = _policies("hvt_ucb", "heavy_oful", "oful", "crtm", "crmm", "twin_ucb")
GALLERY = ("offers", "sensors", "insurance", "latency", "drift")
PAGE = "docs/algorithms/mean.md"
GUARANTEES = "docs/mathematics/guarantees.md"
DIMS = "--dims 2 5 20 50"


def _prints(name: str, page: str, minutes: float, command: str, *code: str) -> Part:
    """A part of one benchmark and one page."""
    return Part(name, (page,), minutes, (f"python -m benchmarks.{command}",), code)


PARTS = (
    # What is guaranteed, and the README.
    Part(
        *("lemma", (GUARANTEES,), 1, ("heavytail reproduce coverage",)),
        code=("heavytail.reproduction.coverage", *_policies("hvt_ucb")),
    ),
    Part(
        "price",
        (GUARANTEES,),
        3,
        (
            f"{MEAN} --rounds 100000 --trials 40 --out results/price.jsonl --policies Twin-UCB "
            f"'Twin-UCB, typical' --worlds {ONE_SHAPE}",
            f"{MEAN} --table results/price.jsonl",
        ),
        _policies("twin_ucb"),
    ),
    *(
        Part(
            name,
            (GUARANTEES,),
            minutes,
            (
                f"{MEAN} --rounds {rounds} --trials 100 --out results/{name}.jsonl --policies "
                f"Twin-UCB {OFUL} --worlds {NORMAL}",
                f"{MEAN} --table results/{name}.jsonl --worlds {NORMAL}",
            ),
            _policies("twin_ucb", "oful"),
        )
        for name, rounds, minutes in (("normal", 100000, 2), ("normal-sooner", 20000, 1))
    ),
    Part(
        "earned-figure",
        ("README.md", "docs/index.md"),
        1,
        ("python examples/earned_figure.py docs/assets/earned.png",),
        (
            *(f"heavytail.decider.{name}" for name in ("choosing", "model", "shape")),
            *_policies("twin_ucb"),
        ),
        writes=True,
    ),
    Part(
        "shop-figure",
        (PAGE, "docs/howto/zeros.md"),
        1,
        ("python examples/shop_figure.py docs/assets/shop.png",),
        (*PLAYED, "heavytail.environments.skewed_bandit"),
        writes=True,
    ),
    Part(
        "gallery",
        ("docs/start/gallery.md",),
        1,
        tuple(f"python examples/{name}.py docs/assets/gallery/{name}.png" for name in GALLERY),
        (*OF_THE_MEAN, "heavytail.estimators.one_pass_huber", "heavytail.tails.index"),
        writes=True,
    ),
    # How-to pages, and the policies that look for the mean.
    Part(
        "playground",
        ("docs/start/playground.md",),
        2,
        ("python -m benchmarks.playground",),
        PLAYED,
        writes=True,
    ),
    Part(
        "randhie",
        ("docs/howto/randhie.md",),
        2,
        ("python examples/randhie.py",),
        (*PLAYED, "heavytail.tails.index"),
    ),
    Part(
        "decider",
        ("docs/evidence/decider.md",),
        90,
        (
            "python -m benchmarks.decider --worlds reported,diabetes,digits --seed 1000 --players "
            "'linear,vw,vw squarecb,boosting 0.05,boosting each 0.05,decider,decider explore=0' "
            "--out results/decider.jsonl",
            "python -m benchmarks.decider --table results/decider.jsonl",
            "python -m benchmarks.decider --table results/decider.jsonl --summary",
        ),
        (
            *(f"heavytail.decider.{name}" for name in ("choosing", "model", "shape")),
            "heavytail.encoding",
            *_policies("twin_ucb"),
        ),
    ),
    _prints(
        "fleet",
        "docs/evidence/fleet.md",
        12,
        "fleet",
        *("benchmarks.fleet_network", "benchmarks.fleet_workers"),
        *("heavytail.ledger.commits", "heavytail.ledger.postgres", "heavytail.ledger.store"),
        "heavytail.ledger.transaction",
    ),
    _prints(*("fleet-shards", "docs/evidence/fleet.md", 6, "fleet_shards"), *_policies("twin_ucb")),
    _prints(
        "decider-speed",
        "docs/evidence/decider.md",
        4,
        "decider --speed",
        *("heavytail.decider", "heavytail.encoding"),
    ),
    _prints("real", "docs/howto/randhie.md", 6, "real", *PLAYED),
    _prints(
        *("peers", "docs/evidence/peers.md", 20, "peers"),
        *("benchmarks.peer_players", "benchmarks.peer_worlds"),
        *(f"heavytail.decider.{name}" for name in ("choosing", "model", "shape")),
        *("heavytail.encoding", "heavytail.estimators", "heavytail.logs"),
        *_policies("twin_ucb", "hvt_ucb"),
    ),
    *(
        Part(
            name,
            (PAGE,),
            minutes,
            (
                *(
                    f"{MEAN} {rounds}--out results/{name}.jsonl --trials {trials} "
                    f"--worlds '(3,10)' --policies {policies}"
                    for trials, policies in runs.items()
                ),
                f"{MEAN} --table results/{name}.jsonl",
            ),
            (*PLAYED, "heavytail.environments.skewed_bandit"),
        )
        for name, minutes, rounds, runs in (
            ("mean", 20, "", {200: f"Twin-UCB {UNTUNED}", 50: f"{OFUL} LinTS uniform"}),
            ("mean-long", 20, "--rounds 100000 ", {100: "Twin-UCB"}),
        )
    ),
    Part(
        *("frontier", (PAGE,), 1, ("python -m benchmarks.frontier docs/assets/frontier.png",)),
        code=(),
        writes=True,
    ),
    Part(
        "mean-beginning",
        (PAGE,),
        1,
        tuple(
            f'{MEAN} --rounds {rounds} --trials 200 --worlds "jackpot (3,10)" "rarely (3,10)" '
            "--policies Twin-UCB uniform"
            for rounds in (2000, 20000)
        ),
        (*_policies("twin_ucb", "uniform"), "heavytail.environments.skewed_bandit"),
    ),
    _prints("patience", PAGE, 3, "patience docs/assets/patience.png", *_policies("twin_ucb")),
    _prints("first-rewards", PAGE, 3, "first_rewards", *_policies("twin_ucb", "hvt_ucb")),
    *(
        Part(
            f"sharp-{name}",
            (
                *((GUARANTEES,) if name == "radius" else ()),
                "docs/mathematics/sharp.md",
            ),
            minutes,
            (f"python -m benchmarks.sharp {name}{options}",),
            ("benchmarks.sharp_attack", *_policies("hvt_ucb", *others)),
            gpu=name == "coverage",
        )
        for name, minutes, options, others in (
            ("radius", 1, "", ()),
            ("coverage", 6, f" --engine cuda --trials 1000000 --rounds 1000 {DIMS}", ()),
            ("regret", 30, " --trials 800", ("oful", "twin_ucb", "uniform")),
            ("growth", 60, " --trials 1600", ()),
        )
    ),
    _prints(
        "intervals",
        PAGE,
        2,
        "intervals --trials 40 --rounds 4000",
        *OF_THE_MEAN,
        "heavytail.policies.core.answers",
        "heavytail.policies.core.practice_report",
        "heavytail.environments.skewed_bandit",
    ),
    Part(
        "zeros",
        ("docs/howto/zeros.md",),
        4,
        (
            f"{MEAN} --trials 400 --seed 20991 --worlds {SHOPS} "
            "--policies Twin-UCB Hvt-UCB LinTS uniform",
        ),
        (*PLAYED, "heavytail.environments.skewed_bandit"),
    ),
    *(
        Part(
            f"moving{option.replace('--', '-').strip()}",
            ("docs/howto/moving.md",),
            minutes,
            (f"python -m benchmarks.moving {option}".strip(),),
            OF_THE_MEAN,
        )
        for option, minutes in (("", 30), ("--alarms", 20), ("--sizes", 5))
    ),
    _prints(
        "unknown",
        "docs/howto/unknown.md",
        10,
        "unknown",
        *_policies("hvt_ucb"),
        "heavytail.tails.index",
    ),
    _prints(
        "tails",
        "docs/howto/unknown.md",
        2,
        "tails",
        "heavytail.tails.index",
        "heavytail.tails.report",
    ),
    _prints(
        "regression", "docs/howto/regression.md", 5, "regression --quick", "heavytail.estimators"
    ),
    _prints(
        "regression-band",
        "docs/howto/regression.md",
        3,
        "regression_band docs/assets/regression_band.png",
        "heavytail.estimators.sharp",
        "heavytail.estimators.one_pass_huber",
    ),
    Part(
        "glb",
        ("docs/howto/clicks.md",),
        20,
        ("heavytail reproduce glb",),
        (
            *_policies("glb_omd", "glm_ucb", "eco_log", "ol2m", "gloc", "hvt_glb", "twin_ucb"),
            "heavytail.reproduction.glb",
        ),
    ),
    _prints(
        "links",
        "docs/howto/clicks.md",
        1,
        "links",
        *_policies("glb_omd", "glm_ucb", "eco_log", "ol2m", "gloc", "hvt_glb", "oful"),
    ),
    _prints(
        "growth-links",
        "docs/howto/clicks.md",
        5,
        "growth --longest 1000000 GLB-OMD Hvt-GLB GLOC OFUL GLM-UCB",
        *_policies("glb_omd", "hvt_glb", "gloc", "oful", "glm_ucb"),
    ),
    Part(
        "lowrank",
        ("docs/howto/pairs.md",),
        30,
        ("heavytail reproduce lowrank",),
        (
            *_policies("hvt_low_rank", "hvt_ucb", "oful", "low_estr", "lotus"),
            "heavytail.reproduction.lowrank",
        ),
    ),
    _prints("lowrank-time", "docs/howto/pairs.md", 1, "low_rank", *_policies("hvt_low_rank")),
    # Logs, and what a rank, a link and a wider grid are worth.
    *(
        Part(
            name,
            (page,),
            minutes,
            (f"python -m benchmarks.logs --part {name} --trials {trials} --seed {seed}",),
            ("heavytail.logs", "heavytail.tails", f"benchmarks.{script}", "benchmarks.log_laws"),
        )
        for name, page, minutes, trials, seed, script in (
            ("soft", "docs/mathematics/logs.md", 5, 200, 7300, "log_bounds"),
            ("few", "docs/mathematics/logs.md", 2, 100, 7950, "log_bounds"),
            ("judges", "docs/mathematics/logs.md", 20, 40, 4023, "log_truth"),
            ("pairs", "docs/howto/logs.md", 10, 100, 7400, "log_bounds"),
            ("jackpots", "docs/howto/logs.md", 2, 200, 7900, "log_bounds"),
            ("values", "docs/howto/logs.md", 5, 300, 7500, "log_truth"),
            ("sentences", "docs/howto/logs.md", 5, 400, 7600, "log_truth"),
            ("words", "docs/howto/logs.md", 2, 300, 7700, "log_words"),
        )
    ),
    _prints(
        "tails-slow", "docs/howto/unknown.md", 5, "tails --slow --trials 240", "heavytail.tails"
    ),
    _prints(
        "tails-words", "docs/howto/unknown.md", 3, "tails --words --trials 400", "heavytail.tails"
    ),
    _prints(
        "skew-slopes",
        "docs/howto/regression.md",
        4,
        "regression --quick --only skewed",
        "heavytail.estimators",
    ),
    _prints(
        "adaptive-intervals",
        "docs/howto/regression.md",
        1,
        "regression --quick --only adaptive",
        "heavytail.estimators",
    ),
    _prints(
        "moving-slopes",
        "docs/howto/regression.md",
        3,
        "regression --quick --only moving",
        "heavytail.estimators",
    ),
    _prints("ranks", "docs/howto/pairs.md", 20, "ranks", *_policies("hvt_low_rank", "twin_ucb")),
    _prints(
        "link-regret",
        "docs/howto/clicks.md",
        10,
        "link_regret",
        *_policies("glb_omd", "hvt_glb", "twin_ucb", "oful"),
    ),
    _prints("linked-radius", "docs/howto/clicks.md", 10, "linked_radius", *_policies("glb_omd")),
    Part(
        "wider-grid",
        ("docs/evidence/where_it_loses.md", "docs/evidence/reproduction.md"),
        20,
        ("python -m benchmarks.wider_grid",),
        PAPERS,
    ),
    # Linear MDPs, control, and growth with t.
    Part(
        "mdp",
        ("docs/mathematics/linear_mdp.md",),
        10,
        ("heavytail reproduce mdp", "heavytail reproduce mdp --seed 2802"),
        ("heavytail.mdp", "heavytail.reproduction.mdp"),
    ),
    _prints("mdp-time", "docs/mathematics/linear_mdp.md", 1, "mdp", "heavytail.mdp"),
    _prints("mdp-gain", "docs/mdps/linear_mdps.md", 3, "mdp --gain", "heavytail.mdp"),
    Part(
        "control",
        ("docs/mathematics/control.md",),
        5,
        ("python -m benchmarks.control marks", "python -m benchmarks.control runs"),
        ("heavytail.control",),
    ),
    Part(
        "control-regret",
        ("docs/mathematics/control.md",),
        10,
        ("heavytail reproduce control",),
        ("heavytail.control", "heavytail.reproduction.control"),
    ),
    _prints(
        "growth",
        "docs/algorithms/policies.md",
        10,
        "growth",
        *PAPERS,
        *_policies("ada_oful", "huber_bandit", "tofu", "btc", "menu", "crt", "mom"),
    ),
    # Evidence.
    Part(
        "calibration",
        ("docs/evidence/calibration.md",),
        6,
        ("heavytail calibrate --write docs/evidence/calibration.md",),
        ("heavytail.reproduction.calibration", *_policies("hvt_ucb", "oful")),
        writes=True,
    ),
    Part(
        "coverage",
        ("docs/evidence/reproduction.md",),
        25,
        ("heavytail coverage --trials 2000 --record",),
        PAPERS,
        writes=True,
    ),
    Part(
        "speedup",
        ("docs/evidence/reproduction.md",),
        60,
        ("heavytail reproduce speedup",),
        _policies("hvt_ucb", "heavy_oful"),
        writes=True,
    ),
    Part(
        "reproduction",
        ("docs/evidence/reproduction.md", "docs/evidence/where_it_loses.md"),
        60,
        ("heavytail reproduce --docs docs/evidence/reproduction.md",),
        PAPERS,
        writes=True,
    ),
    Part(
        "second-seed",
        ("docs/evidence/where_it_loses.md",),
        15,
        ("heavytail reproduce --seed 7 --out results/second",),
        PAPERS,
    ),
    Part(
        "untuned-defaults",
        ("docs/evidence/untuned_defaults.md",),
        60,
        ("python -m heavytail.reproduction.untuned_defaults --write",),
        _policies(
            *("heavy_oful", "ada_oful", "huber_bandit", "tofu", "btc", "oful", "crtm", "crmm"),
            *("menu", "crt", "mom", "bmm", "lin_ts", "epsilon_greedy", "robust_ucb"),
        ),
        writes=True,
    ),
    Part(
        "benchmarks-gpu",
        ("docs/evidence/benchmarks.md",),
        2,
        ("python -m benchmarks.gpu",),
        (
            *PAPERS,
            *_policies("menu", "crt", "mom", "bmm", "lin_ts", "epsilon_greedy", "robust_ucb"),
        ),
        gpu=True,
        file="docs/evidence/benchmarks_gpu.txt",
    ),
    Part(
        "benchmarks",
        ("docs/evidence/benchmarks.md",),
        15,
        ("python -m benchmarks --page docs/evidence/benchmarks.md",),
        _policies("hvt_ucb", "oful"),
        writes=True,
    ),
)
