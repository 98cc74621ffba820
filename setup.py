"""Maps klamm's packages, the folders at the top of the checkout, to `klamm.*` for setuptools.

Everything else about the build is in pyproject.toml.
"""

from pathlib import Path
from typing import Final

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

_EDITABLE: Final = Path(".editable")


class BuildPy(build_py):
    """Leave this file out of the wheel, although it lies in the folder of the package klamm."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return package, module and file of each module of a package."""
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if Path(module[2]).name != "setup.py"]


class EditableWheel(editable_wheel):
    """Install the checkout as a folder on Python's path, in which `klamm` links to the checkout.

    By default setuptools installs an import hook, because the folder of the checkout may have any
    name. mypy, pyright and editors do not run import hooks; they do read the path.
    """

    def finalize_options(self) -> None:
        """Create the link, and name its folder as the one with all packages."""
        _EDITABLE.mkdir(exist_ok=True)
        link = _EDITABLE / "klamm"
        if not link.is_symlink():
            link.symlink_to("..")
        self.distribution.package_dir = {"": str(_EDITABLE)}
        super().finalize_options()


setup(
    packages=["klamm", *(f"klamm.{name}" for name in find_packages())],
    package_dir={"klamm": "."},
    cmdclass={"build_py": BuildPy, "editable_wheel": EditableWheel},
)
