"""The sections of the page, and what its template is given."""
