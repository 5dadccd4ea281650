"""The recipes by name: a file of ``recipes/`` each."""

from __future__ import annotations

from pathlib import Path

from leakbench.base.errors import UnknownName, among
from leakbench.reproduce.printed import EVERYTHING
from leakbench.reproduce.recipe import Recipe
from leakbench.reproduce.recipe_file import read_recipe

FOLDER = Path(__file__).with_name("recipes")


def _in_order() -> list[str]:
    """Their names as the papers print what they make, and then what no paper prints."""
    printed = [name for p in EVERYTHING for name in p.recipes]
    return list(dict.fromkeys([*printed, *sorted(p.stem for p in FOLDER.glob("*.toml"))]))


RECIPES: dict[str, Recipe] = {name: read_recipe(FOLDER / f"{name}.toml") for name in _in_order()}


def find_recipe(name: str) -> Recipe:
    """The recipe ``name``.

    Raises:
        UnknownName: there is none; says which was probably meant.
    """
    found = among(name, RECIPES)
    if found not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    return RECIPES[found]
