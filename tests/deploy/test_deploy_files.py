"""Dockerfile, .dockerignore, compose.yaml and the template of nginx: what they name exists, and they agree."""

import re
from fnmatch import fnmatch
from ipaddress import ip_address, ip_network

import pytest
from dockerfile import Instruction, instructions, literal_paths, parsed
from proxied import ROOT, compose, interpolated, server_command, substituted

from combopeps.cli.parser import parser
from combopeps.server.auth import MAX_BODY_BYTES

STEPS = instructions()
TEMPLATE = (ROOT / "docs" / "deploy" / "nginx.conf.template").read_text()


def of(name):
    return [step for step in STEPS if step.name == name]


def sources():
    """What COPY takes from the checkout."""
    return [source for step in of("COPY") if "from" not in step.options for source in step.words[:-1]]


def is_ignored(path, rules):
    """By .dockerignore: the last rule that fits counts."""
    ignored = False
    for rule in rules:
        pattern = rule.removeprefix("!")
        parts = path.split("/")
        prefixes = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        if pattern.startswith("**/"):
            fits = any(fnmatch(part, pattern[3:]) for part in parts)
        else:
            fits = any(prefix.count("/") == pattern.count("/") and fnmatch(prefix, pattern) for prefix in prefixes)
        if fits:
            ignored = not rule.startswith("!")
    return ignored


RULES = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]


def test_the_parser_reads_continued_lines_options_and_comments():
    text = 'FROM a AS b\n# no\nCOPY --from=b x \\\n    y\nHEALTHCHECK --interval=1s CMD ["z", "1"]\n'
    assert list(parsed(text)) == [
        Instruction("FROM", {}, "a AS b"),
        Instruction("COPY", {"from": "b"}, "x y"),
        Instruction("HEALTHCHECK", {"interval": "1s"}, 'CMD ["z", "1"]'),
    ]


@pytest.mark.parametrize("source", sources())
def test_what_is_copied_exists_and_is_sent_to_docker(source):
    assert (ROOT / source).exists()
    assert not is_ignored(source, RULES)


def test_nothing_else_is_sent_to_docker():
    assert {rule[1:] for rule in RULES if rule.startswith("!")} == set(sources())
    for path in ("secrets/tokens", ".env", ".git/config", "tests/conftest.py", "combopeps/run/__pycache__/x.pyc"):
        assert is_ignored(path, RULES)


def test_stages_that_are_copied_from_come_first():
    stages = []
    for step in STEPS:
        if step.name == "FROM":
            stages.append(step.text.partition(" AS ")[2])
        assert step.options.get("from", stages[0] if stages else None) in [*stages[:-1], *stages[:1], None]


def test_run_steps_name_no_directory_of_this_machine():
    assert [path for step in of("RUN") for path in literal_paths(step.text)] == []
    assert literal_paths('cp "$PREFIX/lib" /etc/x && y --to=/srv') == ["/etc", "/srv"]


def test_images_have_short_names_and_a_version():
    names = [step.text.partition(" AS ")[0] for step in of("FROM")]
    names += [service["image"] for service in compose()["services"].values() if "build" not in service]
    assert len(names) == 5
    for name in names:
        assert re.fullmatch(r"[a-z]+:(\$\{PYTHON_VERSION\}-slim|\d+(\.\d+)?)", name)
    assert of("ARG")[0].text == "PYTHON_VERSION=3.11"


def test_the_image_runs_as_an_ordinary_user_and_says_how_it_is():
    last = STEPS[max(i for i, step in enumerate(STEPS) if step.name == "FROM") :]
    said = {step.name: step for step in last}
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", said["USER"].text)
    entrypoint = ROOT / "docs" / "deploy" / "entrypoint.sh"
    assert said["ENTRYPOINT"].words == ["combopeps-entrypoint"]
    assert entrypoint.stat().st_mode & 0o111 == 0o111
    args = parser().parse_args(said["CMD"].words)
    assert (args.command, args.host, str(args.port)) == ("serve", "0.0.0.0", said["EXPOSE"].text)
    assert f"'127.0.0.1', {args.port}," in said["HEALTHCHECK"].text
    order = [step.name for step in last]
    assert max(i for i, name in enumerate(order) if name == "RUN") < order.index("USER")


def test_secrets_are_files_that_neither_git_nor_docker_take():
    settings = [step.text for step in STEPS if step.name in ("ENV", "ARG")]
    for service in compose()["services"].values():
        settings += [f"{key}={value}" for key, value in service.get("environment", {}).items()]
    for text in settings:
        key, _, value = text.partition("=")
        if re.search("PASSWORD|TOKEN|SECRET|KEY", key):
            assert value.startswith("/run/secrets/")
    declared = compose()["secrets"]
    assert {name for service in compose()["services"].values() for name in service["secrets"]} == set(declared)
    assert all(secret["file"].startswith("./secrets/") for secret in declared.values())
    assert {"/secrets/", "/.env"} <= set((ROOT / ".gitignore").read_text().split())


def test_the_parts_of_compose_fit_together():
    services, networks = compose()["services"], compose()["networks"]
    args = parser().parse_args(server_command())
    front = ip_network(networks["front"]["ipam"]["config"][0]["subnet"])
    proxy, server = (services[name]["networks"]["front"]["ipv4_address"] for name in ("proxy", "server"))
    assert args.proxy == [proxy]
    assert args.root_path == ""
    assert {ip_address(proxy), ip_address(server)} < set(front.hosts()) - {front.network_address + 1}  # the gateway
    assert services["proxy"]["environment"]["COMBOPEPS_SERVER"] == f"{server}:{args.port}"
    assert services["server"]["ports"] == [f"127.0.0.1:{args.port}:{args.port}"]
    assert args.token_file == "/run/secrets/tokens"
    assert args.state == "postgresql://combopeps@db/combopeps"
    assert services["db"]["environment"]["POSTGRES_USER"] == services["db"]["environment"]["POSTGRES_DB"] == "combopeps"
    mounted = services["proxy"]["volumes"][0].partition(":")[0]
    assert (ROOT / mounted).read_text() == TEMPLATE
    assert set(compose()["volumes"]) == {"database"}
    moved = server_command(COMBOPEPS_ROOT_PATH="/roads", COMBOPEPS_STATE="postgresql://combopeps@db/combopeps#roads")
    assert parser().parse_args(moved).root_path == "/roads"


def test_the_template_of_nginx_has_all_variables_and_allows_what_the_server_does():
    environment = compose()["services"]["proxy"]["environment"]
    variables = {key: interpolated(value) for key, value in environment.items()}
    assert set(re.findall(r"\$\{(\w+)\}", TEMPLATE)) == set(variables)
    site = substituted(TEMPLATE, variables)
    assert "${" not in site
    (megabytes,) = re.findall(r"client_max_body_size (\d+)m;", site)
    assert int(megabytes) * 2**20 >= MAX_BODY_BYTES


def test_the_guide_shows_the_same_settings_of_nginx():
    guide = (ROOT / "docs" / "deploy.md").read_text()
    settings = re.findall(r"^ +((?:proxy|client|keepalive)\w* [^;]+;)", TEMPLATE, re.MULTILINE)
    assert len(settings) > 8
    assert [line for line in settings if line not in guide] == []


def test_the_guide_names_every_variable_of_compose():
    guide, text = (ROOT / "docs" / "deploy.md").read_text(), (ROOT / "compose.yaml").read_text()
    for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", text):
        assert f"| `{name}` | {f'`{default}`' if default else 'empty'} |" in guide
