# The names a user meets first; each is listed here and nowhere else.
from . import checks as checks
from . import confidence as confidence
from . import control as control
from . import encoding as encoding
from . import environments as environments
from . import estimators as estimators
from . import links as links
from . import mdp as mdp
from . import noise as noise
from . import policies as policies
from . import simulation as simulation
from . import tails as tails
from ._load import load as load
from .encoding import Arms as Arms
from .encoding import Encoder as Encoder
from .environments import LinearBandit as LinearBandit
from .environments import LinkBandit as LinkBandit
from .environments import LowRankBandit as LowRankBandit
from .environments import SkewedBandit as SkewedBandit
from .estimators import AdaptiveHuberRegressor as AdaptiveHuberRegressor
from .estimators import OnePassHuberRegressor as OnePassHuberRegressor
from .estimators import OnlineRidge as OnlineRidge
from .policies import *  # every policy, by its name
from .policies import OFUL as OFUL
from .policies import HurdleUCB as HurdleUCB
from .policies import HvtUCB as HvtUCB
from .policies import Policy as Policy
from .policies import Pool as Pool
from .policies import TwinUCB as TwinUCB
from .policies import make_policy as make_policy
from .policies import pairs as pairs
from .simulation import Results as Results
from .simulation import distribution as distribution
from .simulation import simulate as simulate
from .tails import MomentBound as MomentBound

__version__: str
