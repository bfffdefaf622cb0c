"""Send each request to one of five servers; the cost is the latency, which has heavy tails.

python examples/latency.py [latency.png]
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import heavytail as ht

REQUESTS = 10_000
SERVERS = {  # usual milliseconds, how often it stalls, and milliseconds of a stall
    "a": (20.0, 0.000, 0.0),
    "b": (30.0, 0.000, 0.0),
    "c": (12.0, 0.030, 1500.0),  # the quickest, until it stalls
    "d": (25.0, 0.005, 400.0),
    "e": (40.0, 0.000, 0.0),
}
usual, often, stall = np.array(list(SERVERS.values())).T
arms = np.eye(len(SERVERS))  # one feature a server

rng = np.random.default_rng(3)
jitter = rng.pareto(1.6, (REQUESTS, 1)) * 0.6  # of mean 1 and infinite variance
stalls = rng.random((REQUESTS, 1)) < often
latency = usual * (0.5 + 0.5 * jitter) + stalls * stall * rng.exponential(size=(REQUESTS, 1))
mean, median = usual + often * stall, np.median(latency, axis=0)

policies = {
    "Twin-UCB, the mean": ht.TwinUCB(len(arms)),
    'target="typical"': ht.TwinUCB(len(arms), target="typical"),
    "in turn": None,
}
sent = {}
for name, policy in policies.items():
    sent[name] = np.arange(REQUESTS) % len(arms)
    for request in range(REQUESTS if policy else 0):
        sent[name][request] = server = policy.select(arms)
        policy.update(arms[server], -latency[request, server])  # a cost is a negative reward
    print(f"{name:<20} {mean[sent[name]].mean():5.1f} ms a request on average", end="")
    print(f", half of them below {np.median(latency[np.arange(REQUESTS), sent[name]]):4.1f} ms")
print(f"always the best server: {mean.min():.1f} ms")

figure = Figure(figsize=(6.4, 3.6), layout="constrained")
axes = figure.subplots()
looks = [("#0072b2", ""), ("#cc79a7", "//"), ("#bbbbbb", "..")]  # Okabe and Ito, and hatches
for k, ((name, servers), (colour, hatch)) in enumerate(zip(sent.items(), looks, strict=True)):
    share = np.bincount(servers, minlength=len(arms)) / REQUESTS
    at = np.arange(len(arms)) + 0.27 * (k - 1)
    axes.bar(at, share, 0.25, color=colour, hatch=hatch, edgecolor="white", label=name)
rows = zip(SERVERS, mean, median, strict=True)
labels = [f"{name}\nmean {m:.0f} ms\nmedian {half:.0f} ms" for name, m, half in rows]
axes.set_xticks(range(len(arms)), labels, fontsize=9)
axes.set(ylabel="share of the requests", ylim=(0, 1))
axes.set_title("Server c is the quickest most of the time, and not on average", fontsize=10)
axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
axes.legend()
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "latency.png", dpi=120)
