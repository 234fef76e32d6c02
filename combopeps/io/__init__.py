"""Instances, bundled and generated, and readers of files: networks, items, tables and integer programs."""

from typing import TYPE_CHECKING

from combopeps.utils import import_on_first_use

if TYPE_CHECKING:
    from combopeps.io.bundled import list_instances
    from combopeps.io.instance import Instance
    from combopeps.io.instance_files import load_instance, save_instance
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

# `combopeps list` needs the index only.
if not TYPE_CHECKING:
    __getattr__ = import_on_first_use(
        __name__,
        {
            "bundled": "list_instances",
            "instance": "Instance",
            "instance_files": "load_instance save_instance",
            "items": "read_groups read_items read_knapsack read_table",
            "networks": "read_network read_tree",
            "programs": "read_program",
        },
    )
