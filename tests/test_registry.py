"""Adding a thing is adding a file: what a module registers is found, chosen, run and listed."""

from __future__ import annotations

import importlib
import sys
import textwrap

import pytest

import hiddenfield as hf
from hiddenfield.data.formats import FORMATS
from hiddenfield.embedding import EMBEDDINGS
from hiddenfield.errors import InputError
from hiddenfield.inference import METHODS
from hiddenfield.registry import Registry


@pytest.fixture
def module_from(tmp_path, monkeypatch):
    """Return a function that writes one module and imports it, forgotten after the test."""

    def make(name: str, text: str):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    before = [(registry, set(registry)) for registry in (METHODS, EMBEDDINGS, FORMATS)]
    yield make
    for registry, names in before:
        for name in set(registry) - names:
            registry.unregister(name)


def test_modules_of_a_package_register_themselves(tmp_path, monkeypatch):
    package = tmp_path / "some_family"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from hiddenfield.registry import Registry\nTHINGS = Registry('thing', 'some_family')\n"
    )
    (package / "first.py").write_text(
        "from some_family import THINGS\n@THINGS.register(reference='Pearl 1988')\ndef first(): return 1\n"
    )
    (package / "second.py").write_text(
        "from some_family import THINGS\n@THINGS.register('another')\nclass Second: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    things = importlib.import_module("some_family").THINGS
    assert sorted(things) == ["another", "first"]
    assert things["first"]() == 1
    assert things.facts("first") == {"reference": "Pearl 1988"}
    with pytest.raises(
        InputError, match="unknown thing 'frist' \\(did you mean 'first'\\?\\); choose from: "
    ):
        things.choose("frist")


def test_a_name_is_taken_once():
    things: Registry[object] = Registry("thing")
    things.register("one")(len)
    things.register("one")(len)  # the same module, imported again
    with pytest.raises(ValueError, match="two entries of the thing registry are named 'one'"):
        things.register("one")(max)


def test_an_inference_algorithm_from_a_single_file(module_from):
    module_from(
        "uniform_guess",
        '''
        """Every state is equally likely."""
        import torch

        from hiddenfield.inference import METHODS, Posterior, mean_field


        @METHODS.register(guarantee="estimate", reference="nobody")
        def uniform_guess(field):
            """Return uniform marginals."""
            return mean_field(field, max_iterations=0)
        ''',
    )
    field = hf.fields.ising_grid(3, 3, 0.0)
    posterior = hf.infer(field, "uniform_guess")
    assert posterior.marginals.tolist() == [[0.5, 0.5]] * 9
    with pytest.raises(InputError, match="uniform_guess"):
        hf.infer(field, "uniform_gess")


def test_an_embedding_from_a_single_file(module_from):
    module_from(
        "own_labels",
        '''
        """Embed every node by its own label alone."""
        import torch

        from hiddenfield.embedding import EMBEDDINGS, Embedding


        @EMBEDDINGS.register("own_labels", summary="nothing", reference="nobody")
        class OwnLabels(Embedding):
            """Node embeddings without messages."""

            def make_weights(self):
                self.project = self.node_projection(bias=True)

            def forward(self, structures, *prepared, every_round=False):
                return torch.relu(self.project(self.node_inputs(structures)))
        ''',
    )
    words = hf.data.from_sequences(["AAB", "BBA", "AB", "BA"] * 5)
    model = hf.StructureRegressor(model="own_labels", dim=4, epochs=2, rounds=1, random_state=0)
    assert model.fit(words, list(range(20))).predict(words).shape == (20,)


def test_a_format_from_a_single_file(module_from, tmp_path):
    module_from(
        "rings",
        '''
        """One ring per line, given by its size."""
        from hiddenfield.data import Structures
        from hiddenfield.data.formats import FORMATS, Format


        def read(path):
            bounds = [0]
            pairs = []
            for line in path.read_text().split():
                ring = range(bounds[-1], bounds[-1] + int(line))
                pairs += zip(ring, [*ring[1:], ring[0]], strict=True)
                bounds.append(ring.stop)
            return Structures.from_edges(*zip(*pairs, strict=True), node_ptr=bounds)


        FORMATS.register("rings")(
            Format("rings", "one ring per line", recognises=lambda path: path.suffix == ".rings", read=read)
        )
        ''',
    )
    path = tmp_path / "some.rings"
    path.write_text("5\n6\n")
    assert hf.read(path).num_nodes.tolist() == [5, 6]
