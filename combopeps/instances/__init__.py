"""Problems to try things on: stored ones, ones made to order, and people's own files."""

from combopeps.instances.items import read_items, read_table
from combopeps.instances.library import list_instances, load_instance, save_instance
from combopeps.instances.model import Instance
from combopeps.instances.networks import read_network, read_tree

__all__ = [
    "Instance",
    "list_instances",
    "load_instance",
    "read_items",
    "read_network",
    "read_table",
    "read_tree",
    "save_instance",
]
