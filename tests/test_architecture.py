"""Tiers of packages, import cycles, and who may know what."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "combopeps"
ALLOWED_CYCLES = frozenset()
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, config_filename=sys.argv[1]))"


def lint(config):
    return subprocess.run(
        [sys.executable, "-c", LINT, str(config)], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_no_import_goes_up_a_layer():
    done = lint(ROOT / "pyproject.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_linter_sees_an_import_that_does(tmp_path):
    upside_down = tmp_path / "upside_down.toml"
    upside_down.write_text(
        '[tool.importlinter]\nroot_package = "combopeps"\n'
        '[[tool.importlinter.contracts]]\nname = "upside down"\ntype = "layers"\n'
        'layers = ["combopeps.errors", "combopeps.oracles"]\n'
    )
    done = lint(upside_down)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 broken" in done.stdout


def test_nobody_outside_asks_what_kind_of_posterior_it_is():
    """Diagonal or dense is decided once, in posterior/: elsewhere a posterior answers for itself."""
    asks = re.compile(r"isinstance\([^()]*(Diagonal|Dense)Posterior|(Diagonal|Dense)Posterior\b.*\bis\b")
    package = ROOT / "combopeps"
    guilty = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in package.rglob("*.py")
        if path.parent.name != "posterior"
        for line in path.read_text().splitlines()
        if asks.search(line)
    ]
    assert not guilty
    assert asks.search("    if isinstance(posterior, DiagonalPosterior):")


def modules():
    """Modules of the package and their files."""
    names = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports_of(module, path, known):
    """Modules of the package that a module imports anywhere but for type checkers, inside functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in typing_only and node.module:
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                found.add(target if target in known else node.module)
    return found & known.keys() - {module}


def import_cycles(graph):
    """Sets of modules that import each other (strongly connected components)."""
    cycles = nx.strongly_connected_components(nx.DiGraph([(a, b) for a, targets in graph.items() for b in targets]))
    return {frozenset(cycle) for cycle in cycles if len(cycle) > 1}


def test_no_import_cycle_is_hidden_in_functions():
    known = modules()
    packages = {module for module, path in known.items() if path.name == "__init__.py"}
    graph = {
        module: imports_of(module, path, known) - packages for module, path in known.items() if module not in packages
    }
    found = {cycle - ALLOWED_CYCLES for cycle in import_cycles(graph)}
    assert {tuple(sorted(cycle)) for cycle in found if cycle} == set()


def test_a_hidden_cycle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert import_cycles(graph) == {frozenset("abc")}
    known = modules()
    assert "combopeps.viz.curves" in imports_of("combopeps.session.plan", known["combopeps.session.plan"], known)
