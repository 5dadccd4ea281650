from . import tables as tables
from .keys import Row as Row
from .keys import params as params
from .keys import row_key as row_key
from .keys import setting_key as setting_key
from .tables import Tables as Tables
