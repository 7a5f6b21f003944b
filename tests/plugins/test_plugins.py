"""Files and packages of users: what is loaded, what is recorded, and what is never run unasked."""

import dataclasses
import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from continual_learning import cli, plugins
from continual_learning.analysis import style
from continual_learning.optim import registry as methods
from continual_learning.schema.errors import StudyError
from continual_learning.studies import registry
from continual_learning.studies.experiment import MethodSpec
from continual_learning.studies.methods import check_options
from continual_learning.studies.study import Study

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
METHOD, EXPERIMENT = HERE / "my_method.py", HERE / "my_experiment.py"


def file_of(tmp_path, text, name="mine.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_file_is_run_once_for_its_content(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "runs", 0, raising=False)
    text = "from continual_learning import plugins\nplugins.runs += 1\n"
    first = plugins.load(file_of(tmp_path, text))
    assert plugins.load(tmp_path / "mine.py") == first
    assert plugins.load(file_of(tmp_path, text, "copy.py")) == first
    assert plugins.runs == 1 and plugins.loaded() == (first,)  # pyright: ignore
    assert first.file == str(tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    file_of(tmp_path, text + "#")
    with pytest.raises(StudyError, match=rf"{tmp_path}/mine.py has changed since this process"):
        plugins.load("mine.py")


def test_what_a_file_defines_can_be_pickled_and_read():
    plugins.load(METHOD)
    cls = methods.get("random_resets")
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert "Replace each unit with probability" in inspect.getsource(cls)
    assert [f.name for f in dataclasses.fields(cls)][-2:] == ["rate", "every"]


BROKEN = {
    "x = 1\nraise KeyError('no')\n": r"mine.py, line 2, fails: KeyError: 'no'",
    "x = 1\nimport sys\nsys.exit(0)\n": r"mine.py, line 3, fails: SystemExit: 0",
    "x = 1\ndef f(:\n": r"mine.py, line 2, is not valid Python: invalid syntax",
    "x = '\0'": r"mine.py.*null bytes",
    "import helper_of_mine\n": r"line 1, fails: ModuleNotFoundError: No module named 'helper_of",
    "from continual_learning.optim import CPR, register\n\nregister('redo', CPR)\n": (
        r"line 3, fails: RegistryError: There is a reset method 'redo' already"
    ),
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_that_fails_is_told_with_its_line(tmp_path, text):
    with pytest.raises(StudyError, match=BROKEN[text]):
        plugins.load(file_of(tmp_path, text))
    assert plugins.loaded() == () and not (tmp_path / "state").exists()
    assert not any(name.startswith("continual_learning_plugin_mine") for name in sys.modules)


def make_not_text(path):
    path.write_bytes(b"x = 1\n\xff\n")


def make_loop(path):
    path.symlink_to(path)


def make_large(path):
    path.write_bytes(b"#" * (2**20 + 1))


UNREADABLE = {
    make_not_text: r"is not UTF-8 text \(byte 6\)",
    Path.mkdir: "cannot be read: it is not a regular file",
    os.mkfifo: "cannot be read: it is not a regular file",
    make_loop: "cannot be read: Too many levels of symbolic links",
    make_large: "cannot be read: it has more than 1,048,576 bytes",
    lambda path: None: "cannot be read: No such file or directory",
}


@pytest.mark.parametrize("make", UNREADABLE)
def test_what_is_no_program_is_refused(tmp_path, make):
    make(tmp_path / "mine.py")
    with pytest.raises(StudyError, match=rf"mine.py {UNREADABLE[make]}"):
        plugins.load(tmp_path / "mine.py")


def test_an_unwritable_state_does_not_stop_who_names_a_file(tmp_path, monkeypatch):
    file_of(tmp_path, "", "state")  # no folder can be made there
    assert plugins.load(METHOD) in plugins.loaded()
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    plugin = plugins.load(METHOD)
    named = tmp_path / "home/.local/state/continual_learning/plugins" / plugin.sha256
    assert named.read_bytes() == b""


# What a study records ----------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path):
    """A study as plain data, made with a copy of the file."""
    plugins.load(file_of(tmp_path, METHOD.read_text()))
    experiment = registry.get("permuted_digits", "smoke", ["random_resets"])
    return Study(experiment, ["adam", "random_resets"], [0]).to_dict()


def to_run(study):
    """As `contents.load_plugins` does for a folder that is run."""
    plugins.need(plugins.from_dict(study))
    return Study.from_dict(study)


def test_a_study_loads_what_was_named_here(tmp_path, another_process, study):
    [recorded] = study["plugins"]
    assert recorded["file"] == str(tmp_path / "mine.py")
    assert study["looks"] == {"random_resets": {"label": "Random Resets", "color": "#123456"}}
    another_process()
    again = to_run(study)
    assert methods.get("random_resets").__name__ == "RandomResets"
    assert again.to_dict() == study


def remove(path):
    path.unlink()


def change(path):
    path.write_text(path.read_text() + "\n")


def forget(path):
    [named] = path.parent.glob("state/*/*/*")
    named.unlink()


LOST = {
    remove: r"mine.py, which cannot be read \(No such file or directory\).*: --plugin FILE",
    change: r"mine.py, which has changed since \(its SHA-256 was \w{12}… and is \w{12}…\)",
    forget: r"mine.py, which was never named on this machine.*name it: --plugin /.*mine.py",
}


@pytest.mark.parametrize("lose", LOST)
def test_what_is_not_known_is_never_run(tmp_path, another_process, study, lose):
    lose(tmp_path / "mine.py")
    another_process()
    with pytest.raises(StudyError, match=LOST[lose]):
        to_run(study)
    assert "random_resets" not in methods.registered() and plugins.loaded() == ()
    plugins.load(METHOD)  # the same content by another name
    assert to_run(study).to_dict() == study


@pytest.mark.parametrize(
    "entry",
    [
        "mine.py",
        {"file": "/mine.py", "sha256": "0" * 64},
        ["/mine.py"],
        [{"file": "/mine.py"}],
        [{"file": "mine.py", "sha256": "0" * 64}],
        [{"file": "/mine\0.py", "sha256": "0" * 64}],
        [{"file": "/mine.py", "sha256": "../" * 21 + "a"}],
        [{"file": 5, "sha256": "0" * 64}],
    ],
)
def test_a_record_that_is_none(study, entry):
    with pytest.raises(StudyError, match="plugins must list tables of a `file`, an absolute path"):
        Study.from_dict({**study, "plugins": entry})


# Registries --------------------------------------------------------------------------------------


def test_a_method_without_options_has_its_defaults():
    plugins.load(METHOD)
    experiment = registry.get("slippery_ant")
    made = experiment.with_methods(["cpr", "random_resets"])
    assert list(made.methods) == [*experiment.methods, "random_resets"]
    assert made.methods["random_resets"] == MethodSpec(
        learning_rate=1e-3, clip=0.5, reset="random_resets"
    )
    assert experiment.with_methods(["cpr"]) is experiment
    muon = experiment.override(methods={"cpr": MethodSpec(reset="cpr", optimizer="muon")})
    assert muon.with_methods(["redo"]).methods["redo"].optimizer == "muon"
    scaled = registry.get("slippery_ant_kappa", "paper")
    with pytest.raises(StudyError, match=r"lanes.*numbers of the only method, but there are cpr"):
        scaled.with_methods(["random_resets"])
    with pytest.raises(StudyError, match=r"Did you mean 'random_resets'.*Valid: adam, .*random_re"):
        experiment.with_methods(["random_reset"])


def test_errors_say_where_a_method_comes_from():
    plugins.load(METHOD)
    with pytest.raises(methods.RegistryError, match=rf"random_resets \(from {METHOD}\).*--plugin"):
        methods.get("unheard_of")
    with pytest.raises(StudyError, match=r"from .*my_method.py\)"):
        check_options("unheard_of", {})


def test_registered_experiments(capsys):
    plugins.load(EXPERIMENT)
    assert registry.names()[-1] == "few_digits"
    mine = registry.get("few_digits", methods=["cpr"])
    assert list(mine.methods) == ["adam", "cpr"]
    registry.register(registry.get("few_digits"))  # the same again
    with pytest.raises(StudyError, match=r"'few_digits' already, from .*my_experiment.py; choose"):
        registry.register(mine)
    for taken in ("permuted_digits", "slippery_ant_kappa"):
        with pytest.raises(StudyError, match=f"'{taken}' already, from this package"):
            registry.register(mine.override(name=taken))
    with pytest.raises(TypeError, match="must be an Experiment, got 'few'"):
        registry.register("few")  # pyright: ignore
    with pytest.raises(StudyError, match=r"Did you mean 'few_digits'"):
        registry.get("few_digit")
    registry.register(mine.override(name="slippery_ant_of_mine"))
    assert registry.base_of("slippery_ant_of_mine") == "slippery_ant_of_mine"
    assert registry.get("slippery_ant_of_mine").agent.kind == "classifier"
    assert cli.main(["list"]) == 0
    assert f"Three permutations of 256 digits (from {EXPERIMENT})" in capsys.readouterr().out


def test_looks():
    plugins.load(METHOD)
    assert style.name("random_resets") == "Random Resets"
    assert list(style.colors(["a", "random_resets", "adam"]).items()) == [
        ("adam", "#D55E00"),
        ("random_resets", "#123456"),
        ("a", style.OTHERS[0]),
    ]
    methods.register("plain", type("Plain", (methods.get("cpr"),), {}), color=style.OTHERS[0])
    methods.register("free", type("Free", (methods.get("cpr"),), {}))
    assert style.colors(["plain", "free"]) == {"plain": style.OTHERS[0], "free": style.OTHERS[1]}


@pytest.mark.parametrize(
    ("looks", "name"),
    [
        ({"mine": {"label": "Mine", "color": "#123456"}}, "Mine"),
        ({"mine": {"label": "Mine", "color": "red;}"}}, "Mine"),
        ({"mine": {"label": "CPR"}}, "mine"),  # that is another one's
        ({"mine": {"label": "a\nb"}}, "mine"),
        ({"mine": {"label": "a" * 65}}, "mine"),
        ({"mine": ["Mine"]}, "mine"),
        ({"mine": "Mine"}, "mine"),
        (["mine"], "mine"),
    ],
)
def test_looks_that_a_study_recorded(looks, name):
    style.note({"looks": looks})
    assert style.name("mine") == name
    color = "#123456" if "#123456" in str(looks) else style.OTHERS[0]
    assert style.colors(["mine"]) == {"mine": color}
    style.note({"looks": {"cpr": {"label": "Not CPR"}}})
    assert style.name("cpr") == "CPR"


# Installed packages ------------------------------------------------------------------------------


def test_an_installed_package_is_asked_for_when_names_are(install):
    install(METHOD.read_text() + EXPERIMENT.read_text().partition("\n")[2])
    assert "my_module_of_a_test" not in sys.modules
    assert registry.get("few_digits").with_methods(["random_resets"])
    assert methods.registered()["random_resets"].origin == "the package my_package"
    assert registry.origin("few_digits") == "the package my_package"
    assert plugins.loaded() == ()  # nothing to name again: it is installed


def test_a_broken_package_is_told_and_hides_nothing(install, capsys):
    install("import no_such_module\n", "broken_one", "broken_of_a_test")
    install("import sys\nsys.exit(1)\n", "quitter", "quitter_of_a_test")
    install(METHOD.read_text())
    assert {"cpr", "random_resets"} <= methods.registered().keys()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2  # once
    assert any(
        "'of_broken_one' of the package broken_one (broken_of_a_test) is left out: "
        "ModuleNotFoundError: No module named 'no_such_module'" in line
        for line in said
    )
    assert methods.registered() and not capsys.readouterr().err


def test_listing_imports_no_jax():
    code = "import sys; from continual_learning import cli; cli.main(['list'])\n"
    code += "print('jax' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("False\n")
