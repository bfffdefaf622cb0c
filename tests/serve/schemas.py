"""Calls made from the OpenAPI document: ``python -m tests.serve.schemas --cases 10000`` counts."""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.serve.conftest import serving

import heavytail as ht

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis


def run(cases: int, number: int = 0) -> tuple[Counter, list[str]]:
    """So many calls, spread over all operations: statuses, and answers that are no good."""
    found, bad = Counter(), []
    with tempfile.TemporaryDirectory() as folder, serving(folder) as client:
        key = client.post("/v1/keys", json={"name": "own", "scopes": ["admin"]}).json()["key"]
        client.headers["Authorization"] = f"Bearer {key}"  # calls make keys, and then all need one
        client.put("/v1/models/shop", json={"policy": "TwinUCB", "dim": 2})
        told = client.get("/openapi.json").json()
        operations = [one.ok() for one in schemathesis.openapi.from_dict(told).get_all_operations()]
        for operation in operations:
            _each(client, operation, max(cases // len(operations), 1), number, found, bad)
            client.put("/v1/models/shop", json={"policy": "TwinUCB", "dim": 2})
    return found, bad


def _each(client, operation, cases, number, found, bad) -> None:
    """Calls of one operation."""
    known = {*operation.definition.raw["responses"], "405"}

    @seed(number)
    @settings(
        max_examples=cases, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def call(case):
        asked = case.as_transport_kwargs(base_url="http://testserver")
        asked.pop("cookies", None)
        if isinstance(asked.get("data"), bytes):  # a file, which may be a good one
            data = asked.pop("data")
            asked["content"] = ht.TwinUCB(2).to_bytes() if found.total() % 2 else data
            asked["params"] = {"learn": "shop"} if found.total() % 3 else asked.get("params")
        if found.total() % 8:  # else with whatever key it made up
            asked["headers"]["Authorization"] = client.headers["Authorization"]
        parts = asked["url"].split("/")
        if parts[3:5] == ["v1", "models"] and len(parts) > 5 and found.total() % 4:
            parts[5] = "shop"  # mostly of a model that is there
            asked["url"] = "/".join(parts)
        try:
            answer = client.request(**asked)
        except (ValueError, UnicodeError):  # what no client can send
            return
        found[answer.status_code] += 1
        if answer.status_code >= 500 or str(answer.status_code) not in known:
            bad.append(f"{answer.status_code} {asked} {answer.text[:300]}")

    call()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    found, bad = run(args.cases, args.seed)
    counts = ", ".join(f"{n:,} of {status}" for status, n in sorted(found.items()))
    print(f"{found.total():,} calls: {counts}; {len(bad)} bad")
    print(*bad[:5], sep="\n")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
