"""Instances, bundled and generated, and readers of files: networks, items, tables and integer programs."""

from combopeps.io.instance import Instance
from combopeps.io.instance_files import list_instances, load_instance, save_instance
from combopeps.io.items import read_groups, read_items, read_knapsack, read_table
from combopeps.io.networks import read_network, read_tree
from combopeps.io.programs import read_program

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
