"""Servers that ``benchmarks.serve`` sends its load to, each in a process of its own.

``empty`` reads the same bodies and answers ``{}``; ``vw`` decides with Vowpal Wabbit, keeps nothing
and learns nothing; ``ours`` is the service, on the store that it is given. ``--skew`` sets the wall
clock that this process sees forwards or back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def empty() -> Starlette:
    """Read the body, answer {}."""

    async def answer(request: Request) -> Response:
        await request.body()
        return Response(b"{}", media_type="application/json")

    return everywhere(answer)


def vw() -> Starlette:
    """Decide as Vowpal Wabbit does, of arms that are told in JSON."""
    import msgspec
    from vowpalwabbit import Workspace

    workspace = Workspace("--cb_explore_adf --squarecb --quiet")
    decoder = msgspec.json.Decoder()

    def decided(asked: dict) -> dict:
        lines = [
            "| " + " ".join(f"{i}:{value:.9g}" for i, value in enumerate(arm))
            for arm in asked["arms"]
        ]
        chances = workspace.predict(lines)
        arm = max(range(len(chances)), key=chances.__getitem__)
        return {"arm": arm, "probability": chances[arm]}

    async def answer(request: Request) -> Response:
        body = await request.body()
        asked = decoder.decode(body) if body else {}
        if isinstance(asked, list):
            found = [decided(one) for one in asked]
        else:
            found = decided(asked) if "arms" in asked else {}
        return Response(json.dumps(found), media_type="application/json")

    return everywhere(answer)


def everywhere(answer) -> Starlette:
    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "PUT", "POST"])])


def ours(where: str) -> Starlette:
    """The service."""
    from heavytail.ledger.opening import opened
    from heavytail.serve.app import build

    return build(opened(where), local=True, alone=True)


def serve(app: Starlette, port: int, server: str) -> None:
    if server == "granian":
        from granian.constants import Interfaces
        from granian.server.embed import Server

        asyncio.run(Server(app, port=port, interface=Interfaces.ASGI).serve())
    else:
        import uvicorn

        uvicorn.run(app, port=port, log_level="warning", access_log=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=("empty", "vw", "ours"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--server", choices=("uvicorn", "granian"), default="uvicorn")
    parser.add_argument("--store", default="")
    parser.add_argument("--skew", type=float, default=0.0, help="seconds")
    args = parser.parse_args()
    if args.skew:
        wall = time.time
        time.time = lambda: wall() + args.skew
    app = ours(args.store) if args.kind == "ours" else {"empty": empty, "vw": vw}[args.kind]()
    serve(app, args.port, args.server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
