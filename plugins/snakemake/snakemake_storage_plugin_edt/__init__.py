"""Snakemake storage through edt: what a scheduling round needs moves as one tuned, verified and resumable transfer.

Every Snakemake process imports every plugin, so nothing is started or loaded here: `edt` comes with the first transfer.
"""

from snakemake_storage_plugin_edt.provider import StorageProvider
from snakemake_storage_plugin_edt.settings import StorageProviderSettings
from snakemake_storage_plugin_edt.storage_object import StorageObject

__all__ = ["StorageObject", "StorageProvider", "StorageProviderSettings"]
