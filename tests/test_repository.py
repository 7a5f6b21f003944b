"""What must hold of the repository as a whole."""

import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from docs import import_graph
from tests.installation import locks

ROOT = Path(__file__).parents[1]
# No path of somebody's machine, no address that ties the lock to one package registry.
PRIVATE = re.compile(
    r"(?<![\w.~-])/(?:home|Users|root|work|scratch|opt)/"
    r"|pypi\.org|pythonhosted\.org|--(?:extra-)?index-url|--find[-]links"
)

COMMIT = re.compile(r"(?<![\w.#/])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\+?(?![\w.-])")
"""An abbreviated hash: digits and letters, and a `+` after it where files were changed."""

ELSEWHERE = {
    "docs/paper_and_code.md": "0795e27 ca3772c d2533e8 c90854d 5095c34 85fdcd7 a23fec4 decaab0 "
    "4e8ed9d 85f2e47 3ded7d2 9fb24d5 c1cf8a5 16c1df0 8b70857",
    "results/permuted_mnist/README.md": "d2533e8 c90854d",
    "docs/units.md": "fe8d8a03 31756b1 f22a46e 18f8f311 f4d858a 9336d82",
}
"""Commits of other projects: of the paper's code, and of the models that were traced."""


def repository_files() -> list[Path]:
    """Tracked files, and new ones that are not ignored."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = [ROOT / line for line in listing.stdout.splitlines()]
    return [file for file in files if file.is_file()]


def private_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if PRIVATE.search(line)]


@pytest.mark.parametrize(
    "line",
    [
        "see " + "/home" + "/ada/data",
        "numpy @ https://files." + "pythonhosted" + ".org/numpy.whl",
        "--index" + "-url https://example.com/simple",
    ],
)
def test_private_lines_are_found(line):
    assert private_lines(line) == [line]


def test_no_machine_paths_or_registry_hosts():
    files = repository_files()
    assert ROOT / "requirements.lock" in files
    found = {
        str(file.relative_to(ROOT)): lines
        for file in files
        if (lines := private_lines(file.read_text(encoding="utf-8", errors="ignore")))
    }
    assert not found


@pytest.mark.parametrize("lock", locks.LOCKS)
def test_every_locked_requirement_has_a_hash(lock):
    text = (ROOT / lock).read_text()
    requirements = re.findall(r"^[a-z].*?(?=^[a-z]|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert len(requirements) > 50
    assert all("==" in each and "--hash=sha256:" in each for each in requirements)


def test_import_contracts_hold():
    linter = Path(sys.executable).with_name("lint-imports")
    check = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_optim_imports_only_jax_optax_and_numpy():
    graph = grimp.build_graph("continual_learning", include_external_packages=True)
    optim = {"continual_learning.optim"} | graph.find_descendants("continual_learning.optim")
    imported = set().union(*(graph.find_modules_directly_imported_by(m) for m in optim))
    outside = {module.split(".")[0] for module in imported} - {"continual_learning"}
    assert outside - set(sys.stdlib_module_names) <= {"jax", "numpy", "optax"}
    assert "jax" in outside


def test_importing_starts_no_backend():
    """A backend started by an import would take memory, and ignore later settings of the user."""
    code = (
        "import continual_learning.optim, continual_learning.diagnostics, continual_learning.utils;"
        "from jax._src import xla_bridge;"
        "assert not xla_bridge.backends_are_initialized()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_picture_of_imports_is_of_the_code():
    assert import_graph.OUT.read_text() == import_graph.draw()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("at commit `1aab58c`, two cores", ["1aab58c"]),
        ('"commit": "f722bf4a4f55fff3b4190fd1c39c9e46142b4e80"', ["f722bf4a4f55"]),
        ('itself as "44fb254+",', ["44fb254"]),
        ("1234567 of 0.1234567e-05 defaced", []),
    ],
)
def test_commits_are_found_in_texts(text, found):
    assert [each[:12] for each in commits(text)] == found


def commits(text: str) -> list[str]:
    return [each.rstrip("+") for each in COMMIT.findall(text)]


def test_every_commit_that_is_named_is_in_the_history():
    """A reader who wants to measure again has to find the code."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout

    if git("rev-parse", "--is-shallow-repository").strip() != "false":
        pytest.skip("the history is not here")
    history = git("log", "--format=%H").split()
    known = {commit[:length] for commit in history for length in range(7, 41)}
    texts = [file for file in repository_files() if file.suffix in {".md", ".json"}]
    missing = {
        f"{name}: {commit}"
        for file in texts
        for name in [str(file.relative_to(ROOT))]
        for commit in commits(file.read_text())
        if commit not in known and commit not in ELSEWHERE.get(name, "").split()
    }
    assert not missing
