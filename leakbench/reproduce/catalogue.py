"""The recipes by name."""

from __future__ import annotations

from leakbench.base.errors import UnknownName, among
from leakbench.reproduce import (
    fedaa,
    fedaa_captions,
    fedaa_loss,
    fedaa_names,
    fedaa_variance,
    fedhide,
    fedhide_identities,
    fedhide_inversion,
    fedmetric,
    findings,
    flea,
    like_clients,
)
from leakbench.reproduce.recipe import Recipe

_FEDHIDE = (fedhide_inversion.RECIPE, *fedhide.RECIPES, fedhide_identities.RECIPE)
_FEDAA = (
    *fedaa.RECIPES,
    *fedaa_captions.RECIPES,
    fedaa_loss.RECIPE,
    fedaa_variance.RECIPE,
    fedaa_names.RECIPE,
)
RECIPES: dict[str, Recipe] = {
    r.name: r
    for r in (
        *_FEDHIDE,
        *fedmetric.RECIPES,
        *findings.RECIPES,
        like_clients.RECIPE,
        *flea.RECIPES,
        *_FEDAA,
    )
}


def find_recipe(name: str) -> Recipe:
    """The recipe ``name``.

    Raises:
        UnknownName: there is none; says which was probably meant.
    """
    found = among(name, RECIPES)
    if found not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    return RECIPES[found]
