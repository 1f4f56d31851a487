"""How Azure's store is reached: what each client is given, by keys and by what the environment has."""

from __future__ import annotations

import pytest

from lakehouse_cdc.lake.bare import is_openable_path, is_plain_path
from lakehouse_cdc.lake.stores import azure
from lakehouse_cdc.model.place import Storage, address, as_hadoop, is_url, store_of
from lakehouse_cdc.runtime.object_store import azure_configuration

URL = "abfss://lake@ourstore.dfs.core.windows.net/shop/a"
HOST = "ourstore.dfs.core.windows.net"
VARIABLES = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE")
OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2."


def set_only(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name in (*VARIABLES, "AZURE_AUTHORITY_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(f"AZURE_{name}", value)


def said(storage: Storage) -> dict[str, str]:
    """Hadoop's configuration, without the account's host, and what is not set."""
    given = azure_configuration(address(URL), storage)
    of_account = {name.removesuffix(f".{HOST}"): value for name, value in given.items() if name.endswith(HOST)}
    return {name.removeprefix("fs.azure."): value for name, value in of_account.items() if value}


def test_a_key_is_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    set_only(monkeypatch, CLIENT_SECRET="of somebody else")
    storage = Storage(account_key="a2V5")
    assert azure_configuration(address(URL), storage) == {
        f"fs.azure.account.auth.type.{HOST}": "SharedKey",
        f"fs.azure.account.key.{HOST}": "a2V5",
        "fs.azure.metrics.collection.enabled": "false",
    }
    url, options = azure.table(address(URL), storage)
    assert url == "az://lake/shop/a"
    assert options["azure_storage_endpoint"] == "https://ourstore.blob.core.windows.net"
    assert (options["azure_storage_account_name"], options["azure_storage_account_key"]) == ("ourstore", "a2V5")
    assert "azure_allow_http" not in options


@pytest.mark.parametrize(
    ("variables", "provider", "more"),
    [
        ({}, "MsiTokenProvider", {}),
        ({"CLIENT_ID": "c"}, "MsiTokenProvider", {"client.id": "c"}),
        (
            {"CLIENT_ID": "c", "TENANT_ID": "t", "CLIENT_SECRET": "s"},
            "ClientCredsTokenProvider",
            {"client.id": "c", "client.secret": "s", "client.endpoint": "https://login.microsoftonline.com/t/oauth2/token"},
        ),
        (
            {"CLIENT_ID": "c", "TENANT_ID": "t", "FEDERATED_TOKEN_FILE": "/f", "AUTHORITY_HOST": "https://login.other/"},
            "WorkloadIdentityTokenProvider",
            {"client.id": "c", "msi.tenant": "t", "token.file": "/f", "msi.authority": "https://login.other/"},
        ),
    ],
)  # fmt: skip
def test_without_keys_the_environment_says_who_asks(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], provider: str, more: dict[str, str]
) -> None:
    set_only(monkeypatch, **variables)
    assert said(Storage()) == {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{OAUTH}{provider}",
        **{f"account.oauth2.{name}": value for name, value in more.items()},
    }


def test_an_endpoint_is_an_emulator_s() -> None:
    storage = Storage(endpoint="http://127.0.0.1:10000", account_key="a2V5")
    given = azure_configuration(address(URL), storage)
    assert given["fs.azure.abfs.endpoint"] == "127.0.0.1:10000"
    assert given["fs.azure.always.use.https"] == "false"
    options = azure.table(address(URL), storage)[1]
    assert options["azure_storage_endpoint"] == "http://127.0.0.1:10000/ourstore"
    assert options["azure_allow_http"] == "true"


def test_both_schemes_are_one_place() -> None:
    plain = URL.replace("abfss", "abfs")
    assert is_url(URL)
    assert store_of(URL) == store_of(plain) == f"abfs://lake@{HOST}"
    assert store_of("s3://lake/a") == store_of("s3a://lake/b") != store_of(URL)
    assert (as_hadoop(f"{URL}/"), as_hadoop("s3://lake/a/")) == (URL, "s3a://lake/a")
    assert is_plain_path(URL)
    assert is_openable_path(URL)
    assert not is_plain_path("gs://lake/a")


def test_no_key_is_shown() -> None:
    assert "a2V5" not in repr(Storage(account_key="a2V5"))
