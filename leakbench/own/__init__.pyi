from .clients import ClientData as ClientData
from .own_task import OwnTask as OwnTask
from .own_task import make_task as make_task
