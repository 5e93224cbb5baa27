"""The page: every panel is there, it stands alone, and nothing of the data gets out of its place."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import hiddenfield as hf
from hiddenfield.errors import InputError
from hiddenfield.estimators import StructureClassifier, StructureRegressor
from hiddenfield.report import build, collect, write_report

ATTACK = '<script>alert("x")</script>'
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """Reads a page as a browser would: checks that elements are closed in order, keeps names, texts and identifiers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.open, self.tags, self.identifiers, self.targets, self.headings = (
            text,
            [],
            set(),
            [],
            [],
            [],
        )
        self.shown = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.add(tag)
        self.identifiers += [values["id"]] if "id" in values else []
        self.targets += [values[name] for name in ("href", "xlink:href", "src") if name in values]
        self.targets += re.findall(r"url\((.*?)\)", " ".join(str(value) for value in values.values()))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if self.open and self.open[-1] != "style":
            self.shown += data


def checked(path) -> Page:
    """Read a page and check what holds of every one."""
    page = Page(path.read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert not re.search(r"https?:|file:|//", re.sub(r"data:image/png;base64,[\w+/=\s]+", "", page.text))
    assert len(set(page.identifiers)) == len(page.identifiers)
    local = {f"#{identifier}" for identifier in page.identifiers}
    assert [t for t in page.targets if t not in local and not t.startswith("data:image/png")] == []
    return page


def words(count, targets, **options):
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list("GAT"), size=generator.integers(1, 9))) for _ in range(count)]
    return hf.data.from_sequences(texts, targets=targets(texts), **options)


def test_numbers(tmp_path):
    pack = words(
        60,
        lambda texts: {"length $_{<b>": [float(len(text)) for text in texts]},
        ids=[f"{ATTACK}{k}" for k in range(60)],
    )
    model = StructureRegressor(dim=4, rounds=2, epochs=3, random_state=0, device="cpu").fit(pack[:40])
    results = build(model, pack[:40], pack[40:], tmp_path / "new" / "report.html", title=f"{ATTACK} words")
    page = checked(tmp_path / "new" / "report.html")
    assert page.headings == [
        "Comparison",
        "Leakage",
        "Training",
        "Predictions",
        "Map",
        "Best and worst",
        "Summary",
    ]
    (found,) = results.found.targets.values()
    assert list(found.baselines) == ["mean predictor", "labels + ridge", "WL-3 + ridge"]
    for name, entry in (*found.baselines.items(), (found.model, found)):
        assert name in page.shown
        assert f"{entry.metrics['mae']:.4f}" in page.shown
        assert f"{entry.num_parameters:,}" in page.shown
    assert found.num_parameters == sum(network.num_parameters for network in model.networks_)
    assert ATTACK in page.shown  # as text
    assert "length $_{<b>, true" in page.shown
    assert {"losses", "metric", "parity", "ranges", "map"} <= {i.split("-")[0] for i in page.identifiers}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["report.html"]


def test_classes_that_hold_markup(tmp_path):
    names = ["<b>&amp;", "\x00\N{SNOWMAN}", "c" * 200]
    pack = words(60, lambda texts: {"kind": [names[len(text) % 3] for text in texts]})
    model = StructureClassifier(dim=4, rounds=2, epochs=3, random_state=0, ensemble=2, device="cpu").fit(
        pack[:40]
    )
    build(model, pack[:40], pack[40:], tmp_path / "report.html", rounds=None)
    page = checked(tmp_path / "report.html")
    assert {"roc", "confusion"} <= {i.split("-")[0] for i in page.identifiers}
    assert "<b>&amp;" in page.shown
    assert "\x00" not in page.text
    assert "networks2" in page.shown.replace("\n", "")


def test_shares_on_the_page_add_up_to_the_prediction():
    pack = words(
        40, lambda texts: {"y": [float(len(t)) for t in texts], "z": [float(t.count("G")) for t in texts]}
    )
    options = {"dim": 4, "rounds": 2, "epochs": 2, "random_state": 0, "device": "cpu", "ensemble": 2}
    blended = StructureRegressor(**options, counts=True).fit(pack[:30])
    if blended.counting_ is not None:
        assert "of the networks' prediction" in collect(blended, pack[:30], pack[30:], rounds=None).base
    model = StructureRegressor(**options, counts=False).fit(pack[:30])
    results = collect(model, pack[:30], pack[30:], target="z", rounds=None)
    chosen = np.array([3, 0, 7])
    sums = np.array([own.sum() for own in results.shares(chosen)])
    less = results.shown.predicted[chosen] - sums
    assert np.allclose(less, less[0], atol=1e-4)
    assert float(re.search(r"less (\S+),", results.base)[1]) == pytest.approx(less[0], rel=1e-3)
    assert np.array_equal(results.shown.truth, pack.targets[30:, 1].numpy())
    with pytest.raises(InputError, match="does not predict 'w'; it predicts: y, z"):
        collect(model, pack, pack, target="w")


@pytest.mark.parametrize("new", ["new", "ab", "0"])
def test_a_class_that_the_model_has_not_seen_is_counted_as_wrong(new):
    """Wherever it comes in the order of the classes."""
    train = hf.data.from_sequences(["A", "B", "A", "B"], targets={"y": ["a", "b", "a", "b"]})
    test = hf.data.from_sequences(["A", "B", "A"], targets={"y": [new, "b", None]})
    model = StructureClassifier(
        dim=4, epochs=1, ensemble=1, validation_fraction=0, random_state=0, device="cpu"
    ).fit(train)
    results = collect(model, train, test)
    shown, (found,) = results.shown, results.found.targets.values()
    assert shown.classes == tuple(sorted(["a", "b", new]))
    assert [shown.classes[int(code)] for code in shown.truth] == [new, "b"]
    assert np.allclose(shown.predicted.sum(axis=1), 1.0)
    assert np.array_equal(shown.predicted[:, shown.classes.index(new)], [0.0, 0.0])
    b = shown.predicted[1].argmax() == shown.classes.index("b")
    assert found.mean == 0.5 * b
    assert all(baseline.mean <= 0.5 for baseline in found.baselines.values())


def test_without_test_targets_there_is_nothing_to_report(tmp_path):
    train = hf.data.from_sequences(["A", "B", "A", "B"], targets={"y": [1.0, 2.0, 1.0, 2.0]})
    model = StructureRegressor(
        dim=4, epochs=1, ensemble=1, validation_fraction=0, random_state=0, device="cpu"
    ).fit(train)
    with pytest.raises(InputError, match="no test structure has the target 'y'"):
        collect(model, train, train.replace(targets=train.targets * torch.nan))
    with pytest.raises(InputError, match="no target 'y', which the model predicts; they have: z"):
        collect(model, train, train.replace(target_names=("z",)))


def results(pack, values):
    """Return what the page of a small model shows on structures with these targets."""
    train = words(8, lambda texts: {"y": [float(len(text)) for text in texts]})
    options = {"epochs": 1, "ensemble": 1, "validation_fraction": 0, "counts": False}
    model = StructureRegressor(dim=4, random_state=0, device="cpu", **options).fit(train)
    return collect(
        model, train, pack.replace(targets=torch.tensor(values)[:, None], target_names=("y",)), rounds=None
    )


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0], [1.0, 5.0, 5.0]])
def test_few_or_equal_targets(tmp_path, values):
    pack = hf.data.from_sequences(["AG", "", "GA"][: len(values)])
    page = checked(write_report(tmp_path / "report.html", results(pack, values)))
    assert {"Comparison", "Predictions", "Best and worst"} <= set(page.headings)


def test_the_same_results_give_the_same_file(tmp_path):
    shown = results(hf.data.from_sequences(["AG", "G", "GA"]), [1.0, 2.0, 3.0])
    one, two = (write_report(tmp_path / name, shown) for name in ("a", "b"))
    assert one.read_bytes() == two.read_bytes()
