#!/usr/bin/env python3
"""Checks that the package descriptions agree with the workspace: versions, ABI, licences, file names.

    packaging/check.py

Needs nothing. Where the Python package py-rattler-build is installed the conda recipe is also parsed and rendered by
rattler-build's own code, for four platforms. Nothing is built: that do scripts/wheel.sh, scripts/deb.sh and rattler-build.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECIPE = ROOT / "packaging" / "conda" / "recipe.yaml"
failed = []


def expect(what, expected, got):
    if expected != got:
        failed.append(f"{what}: expected {expected!r}, got {got!r}")


def toml(path):
    return tomllib.loads((ROOT / path).read_text())


def check_recipe(workspace):
    text = RECIPE.read_text()
    context = dict(re.findall(r'^  (version|abi): "(.*)"$', text, re.M))
    header = (ROOT / "ffi/include/betz.h").read_text()
    expect("recipe: version", workspace["version"], context.get("version"))
    expect("recipe: abi", re.search(r"^#define BETZ_ABI_VERSION (\d+)", header, re.M)[1], context.get("abi"))
    expect("recipe: licences", {workspace["license"]}, set(re.findall(r"^ +license: (.*)$", text, re.M)))
    named = re.findall(r"^ +- ((?:scripts/\S+\.(?:py|sh)|LICENSE-\w+))", text, re.M)
    expect("recipe: files that are not there", [], [file for file in named if not (ROOT / file).is_file()])
    python = toml("python/pyproject.toml")
    for requirement in python["build-system"]["requires"] + python["project"]["dependencies"]:
        name, bounds = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()
        expect(f"recipe: {name}", True, f"- {name} {bounds}" in text)
    expect("recipe: Python", True, f"- python {python['project']['requires-python']}" in text)
    expect("pyproject.toml: licence", workspace["license"], python["project"]["license"])


def render_recipe():
    try:
        import rattler_build as rattler
    except ImportError:
        return "rattler-build's code is not installed: not rendered"
    recipe = rattler.Stage0Recipe.from_file(RECIPE)
    variants = rattler.VariantConfig({name: [value] for name, value in {
        "c_compiler": "gcc", "rust_compiler": "rust", "c_stdlib": "sysroot", "c_stdlib_version": "2.17",
        "python": "3.12.* *_cpython"}.items()})
    rendered = []
    everywhere, linux = ["betz", "py-betz"], ["betz", "libbetz", "py-betz"]
    platforms = {"linux-64": linux, "linux-aarch64": linux, "osx-arm64": everywhere, "win-64": everywhere}
    for platform, expected in platforms.items():
        config = rattler.RenderConfig(platform=rattler.PlatformConfig(target_platform=platform))
        names = sorted(variant.recipe.package.name for variant in recipe.render(variants, config))
        expect(f"recipe, rendered for {platform}", expected, names)
        rendered.append(platform)
    return f"rendered by rattler-build {rattler.rattler_build_version()} for {', '.join(rendered)}"


def check_scripts():
    for script in ("wheel.sh", "deb.sh", "install.sh", "targets.sh"):
        path = ROOT / "scripts" / script
        expect(f"{script}: may be run", True, path.stat().st_mode & 0o111 == 0o111)
        expect(f"{script}: syntax", "", subprocess.run(["bash", "-n", path], capture_output=True, text=True).stderr)
    for script in ("check_wheel.py", "notices.py", "pack_wheel.py"):
        compile((ROOT / "scripts" / script).read_text(), script, "exec")


def check_notices(workspace):
    """The notices name a package that is linked, and none that only tests use."""
    told = subprocess.run([ROOT / "scripts/notices.py", "betz-runtime"], capture_output=True, text=True)
    expect("notices.py", (0, True, False), (told.returncode, "\nringbuf " in told.stdout, "\nproptest " in told.stdout))
    for package in ("cli", "python"):
        for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
            expect(f"{package}/{licence}", True, (ROOT / package / licence).is_file())
    expect("workspace: licence", "MIT OR Apache-2.0", workspace["license"])


if __name__ == "__main__":
    package = toml("Cargo.toml")["workspace"]["package"]
    check_recipe(package)
    check_scripts()
    check_notices(package)
    said = render_recipe()
    print(f"packaging: {said}")
    sys.exit("\n".join(failed) if failed else 0)
