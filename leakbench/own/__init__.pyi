from .clients import Clients as Clients
from .own_task import OwnTask as OwnTask
from .own_task import own_task as own_task
