"""Run pykka's own test suite over our actors: `python tests/pykka_suite/run.py [pytest arguments]`.

The suite comes from pykka's source distribution, which pip downloads into a
temporary folder; nothing of it is kept here. Exit status 75 says that it could
not be had, which is no verdict on the actors.
"""

import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

UNAVAILABLE = 75
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

USE_OUR_RUNTIMES = """

from callboard_runtime import runtimes


@pytest.fixture(scope="session", params=runtimes(), ids=lambda r: r["name"])
def runtime(request):
    return Runtime(**request.param)
"""


def pip(*arguments: str) -> None:
    """Run pip quietly. Raises subprocess.CalledProcessError."""
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=300,
    )


def fetch(folder: Path) -> Path:
    """Download the suite of the pykka that is installed, and pytest-mock, which it needs."""
    pykka = f"pykka=={version('pykka')}"
    pip("download", "--no-binary", "pykka", "--no-deps", "-d", str(folder), pykka)
    pip("install", "--no-deps", "--target", str(folder / "extra"), "pytest-mock")
    with tarfile.open(next(folder.glob("pykka-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.glob("pykka-*") if path.is_dir())


def main(arguments: list[str]) -> int:
    """Fetch, adapt and run the suite; return the exit status."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            suite = fetch(folder)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            sys.stderr.write(f"pykka's suite could not be downloaded: {error}\n")
            return UNAVAILABLE
        with (suite / "tests" / "conftest.py").open("a", encoding="utf-8") as conftest:
            conftest.write(USE_OUR_RUNTIMES)
        paths = [str(folder / "extra"), str(HERE), str(ROOT)]
        script = f"import sys; sys.path[:0] = {paths!r}; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
        command = [sys.executable, "-c", script, "-c", str(suite / "none.ini"), "--rootdir", str(suite)]
        (suite / "none.ini").write_text("[pytest]\n", encoding="utf-8")
        return subprocess.run(
            [*command, "-p", "no:asyncio", "-p", "no:cacheprovider", "-q", *arguments, "tests"],
            cwd=suite,
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
