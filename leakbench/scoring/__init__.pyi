from .truth import Truth as Truth
