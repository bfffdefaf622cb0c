"""The files of deploy/ fit the service, the project and each other."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.hooks.examples import on_page_markdown
from tests.deploy.dockerfile import instructions

import heavytail
from heavytail.commands import serve, warm
from heavytail.serve.handlers import ROUTES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
PAGE = ROOT / "docs" / "howto" / "deploy.md"
UNIT = DEPLOY / "heavytail.service"
IMAGE = f"heavytail:{heavytail.__version__}"
USER = 10001
OPEN = {route.path for route in ROUTES if route.method == "GET" and not route.scope}  # need no key

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of systemd and containers")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def resources() -> dict[str, Any]:
    """The manifests by file, without what kustomize reads."""
    paths = sorted(KUBERNETES.glob("*.yaml"))
    return {path.name: read(path) for path in paths if path.name != "kustomization.yaml"}


def container(name: str) -> dict[str, Any]:
    """The only container of a Deployment or Job."""
    (only,) = resources()[name]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def dockerfile(name: str) -> list[str]:
    """The arguments of every instruction of one name."""
    return [rest for word, rest in instructions(DEPLOY / "Dockerfile") if word == name]


def compose() -> dict[str, Any]:
    return dict(read(DEPLOY / "compose.yaml")["services"])


def page_commands() -> list[list[str]]:
    """The lines of the page's blocks of shell, as words."""
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [shlex.split(line, comments=True) for line in "\n".join(blocks).splitlines() if line]


def serve_commands() -> dict[str, list[str]]:
    """The options of every ``heavytail serve`` in deploy/ and on the page, by where it stands."""
    (entrypoint,), (command,) = dockerfile("ENTRYPOINT"), dockerfile("CMD")
    assert json.loads(entrypoint) == ["heavytail", "serve"]
    service = compose()["service"]
    assert service["entrypoint"][:2] == ["heavytail", "serve"]
    store = service["entrypoint"][2:]
    found = {
        "image": json.loads(command),
        "compose": [*store, *service["command"]],
        "deployment": container("deployment.yaml")["args"],
        "job": container("first-key.yaml")["args"],
    }
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    found["unit"] = shlex.split(line)[2:]
    for words in page_commands():
        if "heavytail" in " ".join(words) and "serve" in words:
            found[" ".join(words)] = words[words.index("serve") + 1 :]
        if words[:2] == ["docker", "run"]:
            found[" ".join(words)] = words[words.index(IMAGE) + 1 :] or json.loads(command)
        if "compose.yaml run --rm service" in " ".join(words):
            found[" ".join(words)] = [*store, *words[words.index("service") + 1 :]]
    for line in re.findall(r"^ExecStart=(.+)$", PAGE.read_text(), re.MULTILINE):
        found["page: " + line] = shlex.split(line)[2:]
    assert len(found) == 10
    return found


def parsed(options: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    serve.add_arguments(parser)
    return parser.parse_args(options)


def test_every_command_has_options_that_the_service_has() -> None:
    for where, options in serve_commands().items():
        args = parsed([option.replace("$(STORE)", "postgresql://u@h/d") for option in options])
        serve._check_workers(args)
        assert args.store, where
        assert not any(re.search(r":[^/@]+@", option) for option in options), "a password"


def test_a_service_that_others_reach_listens_on_every_address_of_the_port_that_is_named() -> None:
    commands = serve_commands()
    (exposed,) = dockerfile("EXPOSE")
    port = int(exposed)
    for where in ("image", "compose", "deployment"):
        args = parsed(commands[where])
        assert (args.host, args.port) == ("0.0.0.0", port), where
    assert parsed(commands["unit"]).port == port
    (published,) = compose()["service"]["ports"]
    assert published == f"127.0.0.1:{port}:{port}"
    assert container("deployment.yaml")["ports"] == [{"name": "http", "containerPort": port}]
    (at,) = resources()["service.yaml"]["spec"]["ports"]
    assert (at["port"], at["targetPort"]) == (port, "http")
    (rule,) = resources()["network-policy.yaml"]["spec"]["ingress"]
    assert [one["port"] for one in rule["ports"]] == [port]


def test_a_key_is_made_before_anything_listens() -> None:
    """On the page, and with every scope: it makes the others."""
    page = PAGE.read_text()
    order = ["--new-key ops", "systemctl enable", "--new-key ops", "up --detach"]
    order += ["first-key.yaml", "apply -k", "--new-key ops", "docker run --detach"]
    at = 0
    for words in order:
        at = page.index(words, at)
    keys = [args for args in map(parsed, serve_commands().values()) if args.new_key]
    assert len(keys) == 4
    assert {(args.new_key, args.scopes) for args in keys} == {("ops", "read,decide,admin")}


def test_every_probe_asks_a_path_that_answers_without_a_key() -> None:
    spec = container("deployment.yaml")
    asked = {kind: spec[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")}
    paths = {kind: probe["path"] for kind, probe in asked.items()}
    assert paths == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}
    assert set(paths.values()) <= OPEN
    assert {probe["port"] for probe in asked.values()} == {"http"}
    (health,) = dockerfile("HEALTHCHECK")
    assert set(re.findall(r"'(/\w+)'", health)) == {"/healthz"}


def test_images_and_the_page_have_the_version_of_the_library() -> None:
    images = [container(name)["image"] for name in ("deployment.yaml", "first-key.yaml")]
    images += [compose()["service"]["image"]]
    texts = "".join(path.read_text() for path in (PAGE, DEPLOY / "Dockerfile"))
    images += re.findall(r"[\w./]*heavytail:\d[\w.]*", texts)
    assert {image.rpartition("/")[2] for image in images} == {IMAGE}, "write the new version there"
    assert {image for image in images if "/" in image} == {f"registry.example/{IMAGE}"}


def test_the_image_is_made_of_the_lock_file_and_extras_that_exist() -> None:
    runs = "\n".join(dockerfile("RUN"))
    assert "--require-hashes --requirement requirements.lock" in runs
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    texts = runs + PAGE.read_text()
    named = {name for group in re.findall(r"\.\[([\w,]+)\]", texts) for name in group.split(",")}
    assert named == {"serve", "postgres"}
    assert named <= extras
    assert len(set(re.findall(r"python:([\d.]+)-slim", " ".join(dockerfile("FROM"))))) == 1


def test_the_image_stops_and_runs_as_the_pods_say() -> None:
    assert dockerfile("STOPSIGNAL") == ["SIGTERM"]
    assert dockerfile("USER") == [f"{USER}:{USER}"]
    assert f"--uid {USER}" in "\n".join(dockerfile("RUN"))
    for name in ("deployment.yaml", "first-key.yaml"):
        context = resources()[name]["spec"]["template"]["spec"]["securityContext"]
        assert context["runAsNonRoot"]
        assert (context["runAsUser"], context["runAsGroup"]) == (USER, USER)
        own = container(name)["securityContext"]
        assert own["readOnlyRootFilesystem"]
        assert not own["allowPrivilegeEscalation"]
        assert own["capabilities"] == {"drop": ["ALL"]}


def test_the_build_sees_what_the_wheel_is_made_of(tmp_path: Path) -> None:
    """The wheel is built of exactly the files that the Dockerfile copies."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    copied = [line.split()[:-1] for line in dockerfile("COPY") if not line.startswith("--from")]
    names = [name for group in copied for name in group]
    assert set(names) == let_through
    for name in names:
        path = ROOT / name
        if path.is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, tmp_path / "context" / name, ignore=skip)
        else:
            (tmp_path / "context").mkdir(exist_ok=True)
            shutil.copy(path, tmp_path / "context")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=tmp_path / "context", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "heavytail/serve/page.html" in archive.namelist()


def test_policies_that_are_warmed_exist() -> None:
    (policies,) = [line for line in dockerfile("ARG") if line.startswith("POLICIES=")]
    assert dockerfile("RUN")[-1] == "heavytail warm $POLICIES"
    named = [*shlex.split(policies.partition("=")[2])[0].split(), "GLBOMD"]
    assert {"TwinUCB", "HvtUCB", warm.DECIDER} < set(named)
    for name in set(named) - {warm.DECIDER}:
        assert name in heavytail.policies.NAMES
    (on_page,) = [words for words in page_commands() if "warm" in words]
    assert on_page[on_page.index("warm") + 1 :] == named[:-1]


# Compose.


def test_compose_has_no_password_and_nothing_to_write_on() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    for key in ("PGPASSWORD", "POSTGRES_PASSWORD"):
        assert re.search(rf"{key}: \$\{{HEAVYTAIL_PASSWORD:\?", text)
    assert text.count("PASSWORD: ") == 2
    service, database = compose()["service"], compose()["database"]
    assert service["read_only"]
    assert [entry.partition(":")[0] for entry in service["tmpfs"]] == ["/tmp"]
    assert service["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert "healthcheck" in database
    assert {one["restart"] for one in (service, database)} == {"unless-stopped"}
    (volume,) = database["volumes"]
    assert volume.partition(":")[0] in read(DEPLOY / "compose.yaml")["volumes"]
    build = service["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_git_ignores_the_files_with_passwords() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/deploy/.env", "/deploy/kubernetes/secret.yaml"} <= set(ignored)
    assert resources()["secret.example.yaml"]["stringData"] == {"PGPASSWORD": ""}


# Kubernetes.

REQUIRED = {
    "ConfigMap": ["data"],
    "Secret": ["stringData"],
    "Deployment": ["spec.replicas", "spec.selector.matchLabels", "spec.template.spec.containers"],
    "Service": ["spec.selector", "spec.ports"],
    "PodDisruptionBudget": ["spec.maxUnavailable", "spec.selector.matchLabels"],
    "NetworkPolicy": ["spec.podSelector", "spec.policyTypes", "spec.ingress", "spec.egress"],
    "Job": ["spec.backoffLimit", "spec.template.spec.containers"],
}
VERSIONS = {
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
}


def test_there_is_one_manifest_of_each_kind() -> None:
    assert sorted(manifest["kind"] for manifest in resources().values()) == sorted(REQUIRED)


@pytest.mark.parametrize("name", resources())
def test_a_manifest_has_what_its_kind_requires(name: str) -> None:
    manifest = resources()[name]
    kind = manifest["kind"]
    assert manifest["apiVersion"] == VERSIONS.get(kind, "v1")
    assert manifest["metadata"]["name"].startswith("heavytail")
    for path in REQUIRED[kind]:
        value: Any = manifest
        for key in path.split("."):
            assert key in value, path
            value = value[key]
        assert value is not None


def test_selectors_find_the_pods_of_the_service_and_not_that_of_the_job() -> None:
    named = resources()
    labels = named["deployment.yaml"]["spec"]["template"]["metadata"]["labels"]
    job = named["first-key.yaml"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        named["deployment.yaml"]["spec"]["selector"]["matchLabels"],
        named["service.yaml"]["spec"]["selector"],
        named["disruption-budget.yaml"]["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not selector.items() <= job.items()
    policy = named["network-policy.yaml"]["spec"]["podSelector"]["matchLabels"]
    assert policy.items() <= labels.items()
    assert policy.items() <= job.items()


def test_pods_read_the_address_and_the_password_that_there_are() -> None:
    named = resources()
    holders = {"configMapKeyRef": named["store.yaml"], "secretKeyRef": named["secret.example.yaml"]}
    for name in ("deployment.yaml", "first-key.yaml"):
        sources = {entry["name"]: entry["valueFrom"] for entry in container(name)["env"]}
        assert set(sources) == {"STORE", "PGPASSWORD"}
        for source in sources.values():
            ((kind, place),) = source.items()
            assert place["name"] == holders[kind]["metadata"]["name"]
            assert place["key"] in holders[kind].get("data", holders[kind].get("stringData"))
    assert named["store.yaml"]["data"]["STORE"].startswith("postgresql://")
    ports = [
        port for rule in named["network-policy.yaml"]["spec"]["egress"] for port in rule["ports"]
    ]
    assert 5432 in [port["port"] for port in ports]


def test_volumes_are_mounted_and_stopping_has_the_time_that_it_takes() -> None:
    spec = resources()["deployment.yaml"]["spec"]["template"]["spec"]
    mounts = {
        mount["name"]: mount["mountPath"] for mount in container("deployment.yaml")["volumeMounts"]
    }
    assert mounts == {volume["name"]: "/tmp" for volume in spec["volumes"]}
    graceful = serve._config(None, parsed([])).timeout_graceful_shutdown
    pause = int(container("deployment.yaml")["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["terminationGracePeriodSeconds"] >= pause + 2 * graceful
    assert compose()["service"]["stop_grace_period"] == f"{3 * graceful}s"
    assert f"TimeoutStopSec={3 * graceful}\n" in UNIT.read_text()


def test_kustomize_applies_all_but_the_password_and_the_job() -> None:
    listed = read(KUBERNETES / "kustomization.yaml")["resources"]
    assert {*listed, "secret.example.yaml", "first-key.yaml"} == set(resources())
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    command = ["kubectl", "kustomize", str(KUBERNETES)]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kinds = [manifest["kind"] for manifest in yaml.safe_load_all(made)]
    assert sorted(kinds) == sorted(resources()[name]["kind"] for name in listed)


# The page.


def test_the_page_shows_the_files_themselves_and_names_the_others() -> None:
    shown = on_page_markdown(PAGE.read_text())
    for name in ("heavytail.service", "compose.yaml"):
        assert (DEPLOY / name).read_text().strip() in shown
    assert "<!--" not in shown
    for name in resources():
        assert f"`{name}`" in shown
    with pytest.raises(FileNotFoundError):
        on_page_markdown("<!-- deploy: gone.yaml -->")


def test_files_that_the_page_names_exist() -> None:
    for words in page_commands():
        for word in words:
            if re.fullmatch(r"deploy/[\w./-]+", word) and word != "deploy/.env":
                assert (ROOT / word).exists(), word
            if re.fullmatch(r"[\w.-]+\.yaml", word) and word != "secret.yaml":
                assert (KUBERNETES / word).exists(), word


# The tools of others, where they are.


def test_systemd_takes_the_unit_and_finds_little_to_shut_off(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this machine")
    text = UNIT.read_text()
    text = text.replace("/opt/heavytail/bin/heavytail", shutil.which("true") or "/bin/true")
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"^(User|Group)=.*\n", "", text, flags=re.MULTILINE))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True)
    about = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, about) == (0, []), done.stderr
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze judges no files")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_docker_finds_nothing_to_say_about_the_dockerfile() -> None:
    _needs_docker("buildx", "version")
    _needs_docker("info")
    command = ["docker", "build", "--check", "--file", str(DEPLOY / "Dockerfile"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_reads_its_file() -> None:
    _needs_docker("compose", "version")
    command = ["docker", "compose", "--file", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HEAVYTAIL_PASSWORD": "x"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _needs_docker(*words: str) -> None:
    if shutil.which("docker") is None:
        pytest.skip("no docker on this machine")
    done = subprocess.run(["docker", *words], capture_output=True, text=True)
    if done.returncode != 0:
        why = (done.stderr.strip() or "it fails").splitlines()[0]
        pytest.skip(f"docker {' '.join(words)}: {why}")
