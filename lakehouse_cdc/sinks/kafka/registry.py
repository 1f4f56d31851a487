"""A schema registry that answers as Confluent's does: its client, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.options.kafka import WithRegistry
from lakehouse_cdc.options.measures import seconds
from lakehouse_cdc.runtime.extras import installing

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

NOT_THERE = 404  # of HTTP
_REFUSED, _BUSY, _FAILED = 400, (408, 425, 429), 500


@dataclass(frozen=True)
class Registry:
    """How a registry is reached, with the password as it is, so that tasks can; `timeout` is in seconds."""

    url: str
    username: str | None
    password: str = field(repr=False)
    ca: str | None
    timeout: float

    @classmethod
    def of(cls, config: WithRegistry) -> Registry | None:
        """That of a configuration, None where it names none. Raises ConfigError for a secret that cannot be read."""
        if config.registry is None:
            return None
        return cls(
            config.registry, config.registry_username, config.registry_password.reveal(), config.registry_ca,
            seconds(config.timeout),
        )  # fmt: skip

    def client(self) -> SchemaRegistryClient:
        """A client, which remembers schemas. Raises ConfigError without the package, or for what it refuses."""
        _require_package()
        from confluent_kafka.schema_registry import SchemaRegistryClient

        given: dict[str, Any] = {"url": self.url, "timeout": self.timeout}
        if self.username is not None:
            given["basic.auth.user.info"] = f"{self.username}:{self.password}"
        if self.ca is not None:
            given["ssl.ca.location"] = self.ca
        try:
            return SchemaRegistryClient(given)
        except (ValueError, TypeError, OSError) as error:
            raise codes.KAFKA_SETTING_REFUSED.error(f"cannot make the registry's client: {error}") from error


def _require_package() -> None:
    try:
        import confluent_kafka.schema_registry.avro  # noqa: F401
        import fastavro  # noqa: F401
    except ImportError as error:
        raise codes.PACKAGE_MISSING.error(
            "the format debezium-avro needs fastavro and the registry's client", hint=installing("avro")
        ) from error


@contextmanager
def asking(about: str) -> Iterator[None]:
    """Whatever the registry answers inside is an error of ours; `about` is what is asked for."""
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    try:
        yield
    except SchemaRegistryError as error:
        status = error.http_status_code
        refused = _REFUSED <= status < _FAILED and status not in _BUSY
        code = codes.SCHEMA_REGISTRY_REFUSED if refused else codes.SCHEMA_REGISTRY_UNAVAILABLE
        raise code.error(f"the registry answers {status}: {error.error_message}", where=about) from error
    except _transport_error() as error:
        what = f"the registry does not answer: {error}"
        raise codes.SCHEMA_REGISTRY_UNAVAILABLE.error(what, where=about) from error


def _transport_error() -> type[Exception]:
    """What the registry's client raises where it has no answer: of the library of HTTP that it uses."""
    error: type[Exception] = import_module("httpx2" if find_spec("httpx2") else "httpx").TransportError
    return error
