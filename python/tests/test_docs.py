"""Every example in a docstring and in docs/python.md runs and gives what it says; every public name is in the stubs."""

import ast
import doctest
import importlib
import inspect
import pathlib

import numpy as np
import pytest

import betz
from betz import _core

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def documented():
    """Docstrings of the compiled part by name; those in Python files pytest collects itself."""
    for module in (_core, _core.look, _core.simulate, _core.sort):
        for name, thing in vars(module).items():
            if name.startswith("_") or inspect.ismodule(thing):
                continue
            yield name, thing.__doc__
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                for member, of in vars(thing).items():
                    if not member.startswith("_"):
                        yield f"{name}.{member}", of.__doc__


@pytest.mark.parametrize("name, text", list(documented()), ids=lambda value: value if len(str(value)) < 40 else "")
def test_docstring(name, text):
    assert text and text.strip(), f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    said = []
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append).failed == 0, "".join(said)


def test_the_page(tmp_path, monkeypatch):
    page = pathlib.Path(__file__).parents[2] / "docs" / "python.md"
    if not page.exists():
        pytest.skip("no docs beside the package")
    pytest.importorskip("pandas", reason="the page shows a table of pandas")
    monkeypatch.chdir(tmp_path)  # It writes a recording.
    result = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, globs={"np": np, "betz": betz})
    assert result.failed == 0 and result.attempted > 10


def test_stubs_name_what_there_is():
    stubs = pathlib.Path(_core.__file__).parent / "_core.pyi"
    classes = {n.name: n for n in ast.parse(stubs.read_text()).body if isinstance(n, ast.ClassDef)}
    functions = {n.name for n in ast.parse(stubs.read_text()).body if isinstance(n, ast.FunctionDef)}
    for name, thing in vars(_core).items():
        if name.startswith("__") or inspect.ismodule(thing):
            continue
        if not inspect.isclass(thing):
            assert name in functions, name
        elif not issubclass(thing, Exception):
            there = {member for member in vars(thing) if not member.startswith("__")}
            stubbed = {n.name for n in classes[name].body if isinstance(n, ast.FunctionDef)}
            assert there == {member for member in stubbed if not member.startswith("__")}, name


def defaults(function):
    """Defaults of a stub's parameters, as text and as the values that `ast` knows."""
    names = [a.arg for a in function.args.posonlyargs + function.args.args]
    given = dict(zip(names[len(names) - len(function.args.defaults) :], function.args.defaults))
    given |= {a.arg: d for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults) if d is not None}
    return {name: eval(compile(ast.Expression(value), "stub", "eval")) for name, value in given.items()}


def signatures(stub, module):
    """Name, stub and thing of every function and method that both have."""
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, getattr(module, node.name)
        elif isinstance(node, ast.ClassDef):
            of = getattr(module, node.name)
            for inner in ast.walk(node):
                # Python gives the parameters of operators names of its own.
                if isinstance(inner, ast.FunctionDef) and hasattr(of, inner.name) and (inner.name == "__init__" or inner.name[0] != "_"):
                    yield f"{node.name}.{inner.name}", inner, of if inner.name == "__init__" else getattr(of, inner.name)


@pytest.mark.parametrize("stub", ["_core", "_decoder", "_classes", "_clusterless", "_som"])
def test_stubs_have_the_defaults_and_parameters_that_there_are(stub):
    module, compared = importlib.import_module(f"betz.{stub}"), 0
    for name, node, thing in signatures(pathlib.Path(betz.__file__).parent / f"{stub}.pyi", module):
        try:
            parameters = inspect.signature(thing).parameters
        except (TypeError, ValueError):
            continue  # properties
        there = {p.name: p.default for p in parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        stubbed = [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs if a.arg not in ("self", "cls")]
        if name.startswith("Recording.from_") and "channel_names" in stubbed:
            assert set(there) <= set(stubbed), name
        else:
            assert stubbed == [n for n in there if n not in ("self", "cls")], name
        known = defaults(node)
        # Overloads leave out the default of what tells them apart.
        for parameter, value in known.items():
            # The compiled part shows some values as ... alone.
            assert value == there[parameter] or there[parameter] is ..., f"{name}({parameter}={value!r}): the function has {there[parameter]!r}"
            compared += 1
        missing = {n for n, d in there.items() if d is not inspect.Parameter.empty} - set(known)
        assert not missing - {"shard"}, f"{name}: {missing}"
    assert compared >= 9


def test_the_estimators_stub_names_what_there_is():
    stub = pathlib.Path(betz.__file__).parent / "_decoder.pyi"
    (stubbed,) = [n for n in ast.parse(stub.read_text()).body if isinstance(n, ast.ClassDef)]
    methods = {n.name: [a.arg for a in n.args.args + n.args.kwonlyargs] for n in stubbed.body if isinstance(n, ast.FunctionDef)}
    there = {n: f for n, f in vars(betz.Decoder).items() if inspect.isfunction(f) and f.__module__ == "betz._decoder"}
    public = {n: f for n, f in there.items() if n == "__init__" or not n.startswith("_")}
    of_stub = methods | {"session": methods["session"] + ["config"]}
    assert of_stub == {n: list(inspect.signature(f).parameters) for n, f in public.items()}
