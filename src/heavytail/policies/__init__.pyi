# The policies, in the order of the table. A new one is listed here and nowhere else: its name, its
# row in every table, its page and its part of the conformance tests follow from this line.
from .twin_ucb import TwinUCB as TwinUCB
from .hvt_ucb import HvtUCB as HvtUCB
from .heavy_oful import HeavyOFUL as HeavyOFUL
from .ada_oful import AdaOFUL as AdaOFUL
from .huber_bandit import HuberBandit as HuberBandit
from .tofu import TOFU as TOFU
from .btc import BTC as BTC
from .oful import OFUL as OFUL
from .crtm import CRTM as CRTM
from .crmm import CRMM as CRMM
from .menu import MENU as MENU
from .crt import CRT as CRT
from .mom import MoM as MoM
from .bmm import BMM as BMM
from .lin_ts import LinTS as LinTS
from .epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from .robust_ucb import RobustUCB as RobustUCB
from .uniform import Uniform as Uniform
from .glb_omd import GLBOMD as GLBOMD
from .hvt_glb import HvtGLB as HvtGLB
from .glm_ucb import GLMUCB as GLMUCB
from .ol2m import OL2M as OL2M
from .gloc import GLOC as GLOC
from .eco_log import ECOLog as ECOLog
from .hvt_low_rank import HvtLowRank as HvtLowRank
from .low_estr import LowESTR as LowESTR
from .lotus import LOTUS as LOTUS

# What policies are made of, and made by.
from .build import make_policy as make_policy
from .core.base import PackedPolicy as PackedPolicy
from .core.decisions import Decision as Decision
from .core.diagnostics import Diagnostics as Diagnostics
from .core.info import Info as Info
from .core.low_rank import pairs as pairs
from .core.policy import Policy as Policy
from .core.pool import Pool as Pool
from .core.sharing import Shared as Shared

NAMES: tuple[str, ...]
ALL: tuple[type[Policy], ...]
