import dataclasses
import typing

import pytest

from continual_learning.agents.supervised.config import ClassifierConfig
from continual_learning.envs.catalog.dataset import DatasetTasks
from continual_learning.networks.catalog import MLPs
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import fields_of
from continual_learning.studies import methods, spec
from continual_learning.studies.experiment import Experiment, MethodSpec

CPR = MethodSpec(reset="cpr", clip=0.5, options={"max_reset": 0.01, "every": 100})


PARTS = {"stream": DatasetTasks, "agent": ClassifierConfig, "networks": MLPs}


def make(**changes) -> Experiment:
    values: dict[str, typing.Any] = {
        "name": "mine",
        "title": "A study of my own",
        "tasks": 10,
        "hidden": (128, 128),
        "methods": {"adam": MethodSpec(), "cpr": CPR},
        "scales": {"smoke": {"tasks": 2, "examples_per_task": 80}},
    } | changes
    for part, cls in PARTS.items():
        values[part] = cls(**{n: values.pop(n) for n in fields_of(cls) if n in values})
    return Experiment(**values)


def checked(experiment: Experiment) -> Experiment:
    """With what only the classes of reset methods know."""
    methods.check(experiment)
    return experiment


def test_file_and_back(tmp_path):
    spec.save(make(), tmp_path / "mine.toml")
    assert spec.load(tmp_path / "mine.toml") == make()


def test_what_may_be_none_is_none_by_default():
    """A file leaves None out, so that it must be what is read then."""
    for cls in (MethodSpec, Experiment, *PARTS.values()):
        defaults = {f.name: f.default for f in dataclasses.fields(cls)}
        assert all(defaults[f.name] is None for f in fields_of(cls).values() if f.optional)


def test_plain_data():
    data = spec.to_dict(make(classes_per_task=None))
    assert (data["stream"]["kind"], data["agent"]["kind"]) == ("dataset", "classifier")
    assert data["methods"]["adam"] == {"optimizer": "adam", "learning_rate": 1e-3}
    assert data["methods"]["cpr"]["options"] == {"max_reset": 0.01, "every": 100}
    assert data["networks"]["hidden"] == [128, 128]
    assert "classes_per_task" not in data["stream"]


def test_every_field_is_explained():
    for cls in (MethodSpec, Experiment, *PARTS.values()):
        assert all(f.help for f in fields_of(cls).values())


# Scales and overrides ----------------------------------------------------------------------------


def test_a_scale_changes_the_budget_alone():
    smoke = make().at_scale("smoke")
    assert (smoke.tasks, smoke.value("examples_per_task")) == (2, 80)
    assert smoke.override(tasks=10, examples_per_task=None) == make()
    assert make().at_scale("paper") == make()


def test_a_scale_may_change_options_of_a_reset_method():
    """Those of every method that has it; a method that is left out takes nothing with it."""
    study = make(scales={"smoke": {"tasks": 2, "cpr.every": 10, "redo.every": 5}})
    smoke = study.at_scale("smoke")
    assert smoke.tasks == 2
    assert smoke.methods["cpr"].options == {"max_reset": 0.01, "every": 10}
    assert smoke.methods["adam"] == study.methods["adam"]
    assert study.at_scale("paper").methods == study.methods
    assert spec.loads(spec.dumps(study)) == study
    alone = study.override(methods={"adam": MethodSpec()}).at_scale("smoke")
    assert alone.methods == {"adam": MethodSpec()}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"cpr.evry": 10}, "scales.smoke: .*'evry'. Did you mean 'every'"),
        ({"cpr.every": 0}, "scales.smoke: .*every must be at least 1"),
    ],
)
def test_bad_options_of_a_scale(entry, message):
    with pytest.raises(StudyError, match=message):
        checked(spec.loads(spec.dumps(make(scales={"smoke": entry}))))


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({"smoke": {"batch_size": 4}}, "batch_size is not part of the budget.*tasks, seeds"),
        ({"smoke": {"task": 4}}, "'task'. Did you mean 'tasks'"),
        ({"smoke": {"tasks": 0}}, "scales.smoke: tasks must be a whole number above 0; got 0"),
        ({"smoke": {"examples_per_task": None}}, "leave it out"),
        ({"paper": {"tasks": 3}}, "'paper' is the spec as it is"),
        ({"smoke": 3}, "scales.smoke must be a table"),
        (3, "scales must be a table"),
        ({"smoke": {"cpr.options.every": 10}}, "scales.smoke: write RESET.OPTION and its value"),
        ({"smoke": {"cpr.every": [10]}}, "scales.smoke: write RESET.OPTION and its value"),
    ],
)
def test_bad_scales(scales, message):
    with pytest.raises(StudyError, match=message):
        make(scales=scales)


def test_unknown_scale():
    with pytest.raises(StudyError, match=r"'smok'\. Did you mean 'smoke'.*Valid: paper, smoke"):
        make().at_scale("smok")


@pytest.mark.parametrize(
    "name", ["cpr.max_reset", "methods.cpr.max_reset", "methods.cpr.options.max_reset"]
)
def test_override_of_an_option(name):
    changed = make().override(tasks=3, **{name: 0.02})
    assert changed.tasks == 3
    assert changed.methods["cpr"].options == {"max_reset": 0.02, "every": 100}
    assert changed.methods["adam"] == MethodSpec()


def test_override_of_a_methods_field():
    changed = make().override(**{"cpr.learning_rate": 1, "cpr.clip": None, "cpr.every": None})
    assert changed.methods["cpr"] == MethodSpec(
        reset="cpr", learning_rate=1.0, options={"max_reset": 0.01}
    )
    assert type(changed.methods["cpr"].learning_rate) is float


def test_override_of_a_method_that_is_given_as_well():
    changed = make().override(methods={"new": CPR}, **{"new.every": 7})
    assert changed.methods["new"].options["every"] == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": 3}, "field of mine 'task'. Did you mean 'tasks'.*batch_size"),
        ({"crp.every": 3}, "method 'crp'. Did you mean 'cpr'.*adam, cpr"),
        ({"cpr.max_rest": 3}, "methods.cpr: .*'max_rest'. Did you mean 'max_reset'.*sharpness"),
        ({"cpr.max_reset": 3}, "methods.cpr: .*max_reset must be at least 0 and at most 1, got 3"),
        ({"cpr.max_reset": "big"}, "max_reset of cpr must be a number, got 'big'"),
        ({"cpr.max_reset": True}, "must be a number, got True"),
        ({"cpr.every": float("nan")}, "must be a number, got nan"),
        ({"cpr.reset_bias": 1}, "must be true or false, got 1"),
        ({"cpr.shape": "round"}, "shape must be one of"),
        ({"cpr.init": "zeros"}, "init must be .*he_uniform.*'zeros'"),
        ({"cpr.key": 1}, "option of cpr 'key'"),
        ({"cpr.reset": "redo"}, "methods.cpr: Unknown option of redo 'max_reset'"),
        ({"adam.max_reset": 0.1}, "methods.adam: Unknown field 'max_reset'"),
        ({"cpr.optimizer": "adm"}, "Unknown optimizer 'adm'. Did you mean 'adam'"),
        ({"a.b.c": 1}, "'a.b.c' is not a field.*cpr.max_reset"),
    ],
)
def test_bad_overrides(change, message):
    with pytest.raises(StudyError, match=message):
        checked(make().override(**change))


# Values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": 0}, "tasks must be a whole number above 0; got 0"),
        ({"tasks": 2.0}, "tasks must be a whole number above 0; got 2.0"),
        ({"tasks": True}, "got True"),
        ({"tasks": None}, "got None"),
        ({"title": 3}, "title must be text"),
        ({"redraw_head": 1}, "true or false"),
        ({"hidden": 128}, "hidden must be a list of whole numbers above 0"),
        ({"hidden": (128, -1)}, "hidden must be a list of whole numbers above 0"),
        ({"hidden": ()}, "at least one layer"),
        ({"activation": "rely"}, "activation 'rely'. Did you mean 'relu'"),
        ({"examples_per_task": -1}, "a whole number above 0, or none; got -1"),
        ({"examples_per_task": 7}, "batch_size must be at most .* 7; got 8"),
        ({"rows_per_task": 7}, "must divide the 7500 updates of a task, as 6 does; got 7"),
        ({"change": "split"}, "from 1 to 10 in a split stream, got None"),
        ({"change": "class_incremental", "classes_per_task": 11}, "from 1 to 10"),
        ({"classes_per_task": 2}, "a permuted stream has all classes"),
        ({"dataset": "digits", "data_folder": "x", "rows_per_task": 1}, "come with scikit-learn"),
        ({"name": "a/b"}, "name must be letters"),
        ({"methods": {}}, "at least one method"),
        ({"methods": {"a.b": CPR}}, "name of a method"),
        ({"methods": {"a": {"reset": "cpr"}}}, "methods.a must be a MethodSpec"),
    ],
)
def test_bad_values(change, message):
    with pytest.raises(StudyError, match=message):
        make(**change)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learning_rate": 0}, "learning_rate must be a number above 0; got 0"),
        ({"learning_rate": float("inf")}, "got inf"),
        ({"clip": -1.0}, "a number above 0, or none"),
        ({"reset": "crp"}, "Unknown reset method 'crp'. Did you mean 'cpr'.*shrink_perturb"),
        ({"options": {"every": 1}}, "without a reset method"),
        ({"reset": "cpr", "options": {"every": None}}, "must be a number, got None"),
        ({"reset": "cpr", "options": ["every"]}, "options must be a table"),
    ],
)
def test_bad_methods(values, message):
    with pytest.raises(StudyError, match=message):
        checked(make(methods={"mine": MethodSpec(**values)}))


def test_a_spec_keeps_its_own_copy_of_what_it_was_given():
    options: dict[str, typing.Any] = {"every": 5}
    method = MethodSpec(reset="cpr", options=options)
    options["every"] = -1
    assert method.options == {"every": 5}


@pytest.mark.parametrize(
    ("dataset", "examples", "epochs", "steps"),
    [
        ("mnist", None, 1, 7500),
        ("digits", None, 2, 358),
        ("digits", 10**6, 1, 179),
        ("mnist", 80, 3, 30),
    ],
)
def test_steps_per_task(dataset, examples, epochs, steps):
    each = make(dataset=dataset, examples_per_task=examples, epochs=epochs, rows_per_task=1)
    assert each.steps_per_task == steps


# Text --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "dataset"\n', "", "stream: `kind` is missing. Valid: robot, minatar"),
        ('kind = "dataset"', 'kind = "datset"', "Unknown kind of stream.*Did you mean 'dataset'"),
        ('kind = "dataset"', "kind = []", "Unknown kind"),
        ("[agent]", "[agnt]", "Unknown key 'agnt'. Did you mean 'agent'"),
        ("[stream]", "stream = 3\n[more]", "stream: must be a table"),
        ("batch_size = 8", "batch = 8", "agent: Unknown key 'batch'. Did you mean 'batch_size'"),
        ("tasks = 10", "task = 10", "Unknown key 'task'. Did you mean 'tasks'"),
        ("tasks = 10\n", "", "`tasks` is missing: number of tasks"),
        ("tasks = 10", 'tasks = "ten"', "tasks must be a whole number above 0; got 'ten'"),
        ("tasks = 10", "tasks = ten", "This is not TOML: .*line 3"),
        ("max_reset = 0.01", "max_rest = 0.01", "methods.cpr: .*Did you mean 'max_reset'"),
        ('reset = "cpr"', 'rest = "cpr"', "methods.cpr: Unknown key 'rest'"),
        ("[methods.adam]", "[methods]\nsgd = 3\n[methods.adam]", "methods.sgd: must be a table"),
    ],
)
def test_bad_files_are_named_with_the_key(tmp_path, old, new, message):
    path = tmp_path / "mine.toml"
    text = spec.dumps(make())
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(StudyError, match=message) as error:
        checked(spec.load(path))
    assert "max_reset" in message or str(error.value).startswith(str(path))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(StudyError, match=r"Cannot read .*no\.toml: No such file"):
        spec.load(tmp_path / "no.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StudyError, match="not a text file"):
        spec.load(tmp_path / "binary.toml")


# Earlier versions --------------------------------------------------------------------------------


def test_a_flat_file_of_gymnasium_goes_on_being_read():
    """It may leave out its environments, and it has MetaWorld's fields as they usually are."""
    methods = {"adam": {"clip": 0.5}}
    flat = {"kind": "host", "suite": "gymnasium", "name": "x", "title": "x", "tasks": 1}
    found = spec.from_dict({**flat, "goal": "shown", "one_hot": False, "methods": methods})
    assert (found.stream.kind, found.agent.kind) == ("gymnasium", "sac")
    assert found.value("sequence") == ("Pendulum-v1",)
    with pytest.raises(StudyError, match="Unknown key 'one_hot'"):
        spec.from_dict({**flat, "one_hot": True, "methods": methods})
