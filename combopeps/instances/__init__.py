"""Problems to try things on: stored ones, ones made to order, and people's own files."""

from combopeps.instances.items import read_groups, read_items, read_knapsack, read_table
from combopeps.instances.library import list_instances, load_instance, save_instance
from combopeps.instances.model import Instance
from combopeps.instances.networks import read_network, read_tree
from combopeps.instances.programs import read_program

__all__ = [
    "Instance",
    "list_instances",
    "load_instance",
    "read_groups",
    "read_items",
    "read_knapsack",
    "read_network",
    "read_program",
    "read_table",
    "read_tree",
    "save_instance",
]
