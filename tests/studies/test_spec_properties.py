from hypothesis import given
from hypothesis import strategies as st

from continual_learning.agents.supervised.config import ClassifierConfig
from continual_learning.envs.catalog.dataset import DatasetTasks
from continual_learning.networks.catalog import MLPs
from continual_learning.schema.fields import fields_of
from continual_learning.studies import spec
from continual_learning.studies.experiment import Experiment, MethodSpec

names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True)
numbers = st.floats(1e-12, 1e12)
counts = st.integers(1, 2**31 - 1)
few = st.integers(1, 100)
sizes = st.integers(1, 2**14)
shares = st.floats(0, 1, width=32, allow_subnormal=False)
maybe_number = st.none() | numbers
inits = st.sampled_from(["he_uniform", "lecun_normal", "as_initialized"])
OPTIONS = {
    "cpr": st.fixed_dictionaries(
        {},
        optional={
            "max_reset": shares,
            "sharpness": st.just(float("inf")) | numbers,
            "every": counts,
            "shape": st.sampled_from(["sigmoid", "exp", "softplus", "linear"]),
            "reset_bias": st.booleans(),
            "init": inits,
        },
    ),
    "cbp": st.fixed_dictionaries(
        {}, optional={"replacement_rate": shares, "accumulate": st.booleans()}
    ),
    "redo": st.fixed_dictionaries(
        {"threshold": numbers, "every": counts}, optional={"max_reset_fraction": shares}
    ),
    "regrama": st.fixed_dictionaries({"threshold": numbers, "every": counts}),
    "shrink_perturb": st.fixed_dictionaries(
        {"shrink": shares, "perturb": numbers, "every": counts}
    ),
}


@st.composite
def method_specs(draw) -> MethodSpec:
    reset = draw(st.none() | st.sampled_from(sorted(OPTIONS)))
    return MethodSpec(
        optimizer=draw(st.sampled_from(["adam", "adamw", "muon"])),
        learning_rate=draw(numbers),
        clip=draw(maybe_number),
        reset=reset,
        options={} if reset is None else draw(OPTIONS[reset]),
    )


@st.composite
def specs(draw) -> Experiment:
    fields = fields_of(DatasetTasks) | fields_of(MLPs)
    dataset = draw(st.sampled_from(fields["dataset"].choices))
    change = draw(st.sampled_from(fields["change"].choices))
    budget = st.fixed_dictionaries({}, optional={"tasks": few, "seeds": few, "epochs": few})
    return Experiment(
        name=draw(names),
        title=draw(st.text()),
        tasks=draw(few),
        seeds=draw(st.integers(1, 100_000)),
        methods=draw(st.dictionaries(names, method_specs(), min_size=1, max_size=4)),
        scales=draw(st.dictionaries(names.filter(lambda n: n != "paper"), budget, max_size=3)),
        stream=DatasetTasks(
            dataset=dataset,
            change=change,
            classes_per_task=None
            if change in ("permuted", "random_labels")
            else draw(st.integers(1, 10)),
            examples_per_task=draw(st.none() | st.integers(64, 10**6)),
            data_folder=draw(st.none() | st.text()) if dataset == "mnist" else None,
        ),
        agent=ClassifierConfig(
            epochs=draw(few),
            batch_size=draw(st.integers(1, 64)),
            redraw_head=draw(st.booleans()),
            rows_per_task=1,
            diagnostics=draw(st.booleans()),
        ),
        networks=MLPs(
            hidden=tuple(draw(st.lists(sizes, min_size=1, max_size=4))),
            activation=draw(st.sampled_from(fields["activation"].choices)),
            init=draw(st.sampled_from(fields["init"].choices)),
        ),
    )


@given(specs())
def test_text_and_back(each):
    assert spec.loads(spec.dumps(each)) == each
    assert spec.from_dict(spec.to_dict(each)) == each
