"""The builder's parts that need no network: the public wheel, Pyodide's lock, the swap."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tools.site import build, environment, fetch, lite, runtime, wheel
from tools.site.errors import SiteError

ROOT = Path(__file__).resolve().parents[2]
INFO = {"arch": "wasm32", "platform": "emscripten", "python": "3.14.2", "version": "314.0.6"}


def make_wheel(folder: Path, name: str, *needs: str, modules: tuple[str, ...] = ()) -> Path:
    """A wheel with nothing in it but its metadata and empty modules."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for module in modules or (f"{name}/__init__.py",):
            archive.writestr(module, "")
        requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}"
        archive.writestr(f"{name}-1.0.dist-info/METADATA", metadata)
    return path


def make_tarball(folder: Path, *left_out: str) -> Path:
    path = folder / "pyodide-314.0.6.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name in (*runtime.INTERPRETER, runtime.LOCK):
            if name in left_out:
                continue
            lock = {"info": INFO, "packages": {"numpy": {"file_name": "numpy.whl"}}}
            content = json.dumps(lock).encode() if name == runtime.LOCK else name.encode()
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


# ── the lock that the kernel reads ──────────────────────────────────────────────────────────────


def test_the_lock_names_exactly_the_wheels_that_are_there(tmp_path):
    wheels = [
        make_wheel(tmp_path, "shown", "told_to>=1", 'colorama; sys_platform == "win32"'),
        make_wheel(tmp_path, "told_to", "psutil; extra == 'speed'", modules=("told.py",)),
    ]
    target = tmp_path / "pyodide"
    assert runtime.assemble(target, make_tarball(tmp_path), wheels) == ["shown", "told-to"]
    lock = json.loads((target / runtime.LOCK).read_text(encoding="utf-8"))
    assert lock["info"] == INFO
    assert sorted(lock["packages"]) == ["shown", "told-to"]  # none of Pyodide's own list
    assert lock["packages"]["shown"]["depends"] == ["told-to"]
    assert lock["packages"]["told-to"]["depends"] == []
    assert lock["packages"]["told-to"]["imports"] == ["told"]
    for package in lock["packages"].values():
        file = target / package["file_name"]
        assert runtime.sha256(file) == package["sha256"]


def test_what_only_emscripten_needs_is_needed(tmp_path):
    wheels = [make_wheel(tmp_path, "shown", "pexpect; sys_platform != 'emscripten'", "told")]
    with pytest.raises(SiteError, match=r"shown-1\.0.* needs told, not in downloads\.lock"):
        runtime.pyodide_lock(INFO, wheels)


def test_a_tarball_without_the_interpreter_is_named(tmp_path):
    with pytest.raises(SiteError, match=r"has no file package/pyodide\.asm\.wasm"):
        runtime.assemble(tmp_path / "out", make_tarball(tmp_path, "pyodide.asm.wasm"), [])


def test_an_environment_without_the_kernels_wheels_is_one_sentence(tmp_path):
    with pytest.raises(SiteError, match="extension has no wheels"):
        runtime.kernel_wheels(tmp_path)


def test_of_two_versions_the_kernel_gets_the_newest(tmp_path):
    folder = tmp_path / "static" / "pypi"
    folder.mkdir(parents=True)
    for name in ("stub-3.6.999", "stub-4.0.999", "stub-4.0.1000", "other-1.0"):
        (folder / f"{name}-py3-none-any.whl").touch()
    names = sorted(path.name for path in runtime.kernel_wheels(tmp_path))
    assert names == ["other-1.0-py3-none-any.whl", "stub-4.0.1000-py3-none-any.whl"]


def test_what_only_the_page_needs_is_not_in_the_kernel(tmp_path):
    page = make_wheel(tmp_path, "jupyterlab_widgets")
    shown = make_wheel(tmp_path, "shown", "jupyterlab_widgets~=3.0")
    assert runtime.assemble(tmp_path / "out", make_tarball(tmp_path), [page, shown]) == ["shown"]


def test_of_jedi_only_what_completes_python_is_kept(tmp_path):
    stub = "jedi/third_party/typeshed/stubs/yaml/yaml/__init__.pyi"
    kept = ("jedi/__init__.py", "jedi/third_party/typeshed/stdlib/os.pyi")
    full = make_wheel(tmp_path, "jedi", modules=(*kept, stub))
    record = "".join(f"{name},,\n" for name in (*kept, stub))
    with zipfile.ZipFile(full, "a") as archive:
        archive.writestr("jedi-1.0.dist-info/RECORD", record)
    slim = zipfile.ZipFile(runtime.copy_wheel(full, tmp_path / "slim-1.0-py3-none-any.whl"))
    assert set(zipfile.ZipFile(full).namelist()) - set(slim.namelist()) == {stub}
    assert slim.read("jedi-1.0.dist-info/RECORD").decode() == record.replace(f"{stub},,\n", "")
    assert slim.testzip() is None


# ── our own wheel ───────────────────────────────────────────────────────────────────────────────


def test_solutions_and_hidden_checks_never_get_in(tmp_path):
    wheel.copy_public(ROOT, tmp_path)
    there = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert {"minillm/core/engine.py", "widgets/timeline.py", "grading/__init__.py"} <= there
    private = tuple(f"grading/{name}" for name in wheel.PRIVATE)
    assert not [path for path in there if path.startswith(private) or "__pycache__" in path]
    for name in wheel.PRIVATE:
        assert (ROOT / "grading" / name).is_dir(), f"grading/{name} is gone: tell wheel.py"


def test_the_exercises_on_the_site_hold_no_solution():
    """What marks a solution in the sources (grading.build's marks) is in no notebook."""
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        assert "BEGIN SOLUTION" not in path.read_text(encoding="utf-8").upper(), path.name


def test_modes_of_the_copy_do_not_depend_on_the_checkouts(tmp_path):
    wheel.copy_public(ROOT, tmp_path)
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert modes == {0o644}


# ── settings, dates, the swap ───────────────────────────────────────────────────────────────────


def test_the_lab_asks_the_network_nothing(tmp_path):
    lite.configure(tmp_path, [tmp_path / "anywidget.whl"], ["minillm"])
    settings = json.loads((tmp_path / "jupyter-lite.json").read_text(encoding="utf-8"))
    kernel = settings["jupyter-config-data"]["litePluginSettings"][lite.KERNEL_PLUGIN]
    assert kernel["disablePyPIFallback"] is True
    assert kernel["pyodideUrl"].startswith("./")
    assert kernel["loadPyodideOptions"]["packages"] == ["minillm"]
    build_settings = json.loads((tmp_path / "jupyter_lite_config.json").read_text("utf-8"))
    assert build_settings["LiteBuildConfig"]["federated_extensions"] == [
        str(tmp_path / "anywidget.whl")
    ]
    overrides = json.loads((tmp_path / "overrides.json").read_text(encoding="utf-8"))
    notification = overrides["@jupyterlab/apputils-extension:notification"]
    assert notification == {"checkForUpdates": False, "fetchNews": "false"}


def test_the_date_is_the_environments_or_the_last_commits(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert build.source_date(ROOT) == 1_700_000_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # a zip file's dates begin in 1980
    assert build.source_date(ROOT) == build.EPOCH
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(SiteError, match="'yesterday'; it has to be a number"):
        build.source_date(ROOT)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert build.source_date(tmp_path) == build.EPOCH  # no repository
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    dated = dict(os.environ, GIT_COMMITTER_DATE="1700000001 +0000")
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(
        [*git, "commit", "-q", "--allow-empty", "-m", "a"], cwd=tmp_path, check=True, env=dated
    )
    assert build.source_date(tmp_path) == 1_700_000_001


def test_the_new_site_takes_the_old_ones_place_whole(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.html").write_text(name)
    target = tmp_path / "dist" / "site"
    build.swap(tmp_path / "old", target)
    build.swap(tmp_path / "new", target)
    assert [path.name for path in target.iterdir()] == ["new.html"]
    assert [path.name for path in target.parent.iterdir()] == ["site"]
    assert build.weigh(target) == (3, 1)


def test_a_build_that_breaks_off_leaves_the_old_site_alone(tmp_path, monkeypatch):
    (tmp_path / "build").mkdir()
    (tmp_path / "dist" / "site").mkdir(parents=True)
    (tmp_path / "dist" / "site" / "index.html").write_text("the old one")
    monkeypatch.setattr(build.fetch, "fetch", lambda *_: [])

    def broken(*_: object) -> Path:
        raise SiteError("JupyterLite's build failed.")

    monkeypatch.setattr(build, "assemble", broken)
    with pytest.raises(SiteError):
        build.build_site(tmp_path, tmp_path / "venv", tmp_path / "dist" / "site")
    assert (tmp_path / "dist" / "site" / "index.html").read_text() == "the old one"
    assert list((tmp_path / "build").iterdir()) == []


# ── what is pinned, and who publishes ───────────────────────────────────────────────────────────


def test_every_package_of_the_builds_environment_is_pinned_with_hashes():
    text = environment.REQUIREMENTS.read_text(encoding="utf-8")
    entries = [entry for entry in text.replace("\\\n", "").splitlines() if entry[:1].isalnum()]
    assert {"jupyterlite-core", "jupyterlite-pyodide-kernel", "setuptools", "packaging"} <= {
        entry.split("==")[0] for entry in entries
    }
    for entry in entries:
        assert "==" in entry, entry
        assert "--hash=sha256:" in entry, entry


def test_the_site_has_the_installed_courses_widgets():
    course = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for wheel_name in fetch.read_lock():
        if wheel_name.startswith(("anywidget-", "ipywidgets-", "jupyterlab_widgets-")):
            assert f"\n{fetch.requirement(wheel_name)}\n" in course


def test_the_workflow_publishes_what_make_site_builds():
    path = ROOT / ".github" / "workflows" / "pages.yml"
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    steps = jobs["build"]["steps"]
    built = next(index for index, step in enumerate(steps) if step.get("run") == "make site")
    uploaded = steps[built + 1]
    assert uploaded["uses"].startswith("actions/upload-pages-artifact@")
    assert uploaded["with"]["path"] == "dist/site"
    assert jobs["deploy"]["needs"] == "build"
