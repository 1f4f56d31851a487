"""Classes of Java, and the jar that is made of them (see `build`): Delta's log in stores, and long ones in folders; and
checkpoints of streams in stores."""

from __future__ import annotations

from pathlib import Path

JAR = Path(__file__).with_name("lakehouse-cdc-store.jar")
FOLDER_LOG_STORE = "lakehouse_cdc.store.FolderLogStore"
CHECKPOINT_FILES = "lakehouse_cdc.store.ConditionalPutCheckpointFiles"
