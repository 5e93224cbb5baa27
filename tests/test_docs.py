"""README and documentation stay true: links resolve, commands exist, nothing names one machine."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.cli.calling import call

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]

# Each word is written apart, so that this file does not find itself.
INDEXES = (
    "py|pi.org",
    "python|hosted.org",
    "download.py|torch.org",
    "ana|conda.org",
    "find|-links",
    "index|-url",
)
FOLDERS = ("wo|rk", "ro|ot", "ho|me", "tm|p/w")
OF_ONE_MACHINE = re.compile(
    "|".join(re.escape(word.replace("|", "")) for word in INDEXES)
    + r"|(?<![\w.*])/(?:"
    + "|".join(word.replace("|", "") for word in FOLDERS)
    + r")\b",
    re.IGNORECASE,
)


def tracked() -> list[Path]:
    """Return the files under version control, or every file of an unpacked source distribution."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return sorted(path for folder in ("src", "tests", "docs") for path in (ROOT / folder).rglob("*.*"))
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def prose(page: Path) -> str:
    """Return a page without its fenced and inline code."""
    text = re.sub(r"^(\s*)(```|~~~).*?^\1\2\s*$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def fences(page: Path, language: str) -> list[str]:
    """Return the bodies of a page's fenced blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def is_generated(link: str) -> bool:
    """Return whether the site makes the page that is linked to: one for each package and for the errors."""
    page = re.search(r"(?:^|/)reference/(\w+)\.md$", link)
    package = ROOT / "src" / "hiddenfield"
    return page is not None and ((package / page[1]).is_dir() or (package / f"{page[1]}.py").is_file())


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_relative_links_resolve(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", prose(page))
    local = [
        link.split("#")[0] for link in links if not re.match(r"[a-z]+:", link) and not link.startswith("#")
    ]
    assert [link for link in local if not (page.parent / link).exists() and not is_generated(link)] == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_examples_are_doctests(page: Path) -> None:
    """A block that calls itself ``python`` runs with the tests; what cannot run is ``python title=...``."""
    assert [block for block in fences(page, "python") if ">>> " not in block] == []


def test_readme_example_is_short() -> None:
    lines = [line for block in fences(ROOT / "README.md", "python") for line in block.splitlines()]
    assert sum(line.startswith((">>> ", "... ")) for line in lines) <= 15


def test_make_targets_in_the_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    named = {word for page in PAGES for word in re.findall(r"\bmake ([a-z]+)\b", "".join(fences(page, "sh")))}
    assert named <= targets


def first_column(page: Path, heading: str) -> set[str]:
    """Return the code words in the first column of the table whose first heading is `heading`."""
    table = re.search(
        rf"^\| {heading} .*\n\|[-|]+\n((?:\|.*\n)+)", page.read_text(encoding="utf-8"), flags=re.M
    )
    assert table, f"{page.name} has no table of {heading}"
    return {word for row in table[1].splitlines() for word in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_tables_are_those_of_the_registries() -> None:
    from tools.tables import pages, rewrite

    old = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in pages()}
    assert [name for name, text in old.items() if rewrite(text) != text] == [], "run make format"


def test_inference_page_names_only_builders_that_exist() -> None:
    import hiddenfield as hf

    assert first_column(ROOT / "docs" / "inference.md", "builder") <= set(hf.fields.__all__)


def test_readme_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    lines = re.findall(r"`(hiddenfield [^`]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [line for line in lines if not re.search(r"\b[A-Z]{2,}\b", line)]  # FILE, NAME: to be filled in
    assert lines, "the README shows the command line"
    monkeypatch.chdir(tmp_path)
    for command in [part for line in lines for part in line.split("&&")]:
        code, _, err = call(capsys, *shlex.split(command)[1:])
        assert code == 0, f"{command}: {err}"


def test_every_pinned_version_is_plain() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", pin)] == []


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    wanted += [line for lines in project["project"]["optional-dependencies"].values() for line in lines]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    plain = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"^([\w.-]+)==", pins, flags=re.M)}
    names = {re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", line)[0]).lower() for line in wanted}
    assert names - plain == set()


def test_nothing_names_one_machine_or_package_index() -> None:
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if OF_ONE_MACHINE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []
