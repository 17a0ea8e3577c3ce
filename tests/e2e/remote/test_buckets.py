"""Buckets: a real S3 interface that checks signatures, and the signed requests for GCS and Azure."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.remote.address import parse
from gdal_mcp.remote.signing import place, signed
from gdal_mcp.settings.remote import RemoteSource
from sandbox.questions import Status
from tests.e2e.remote.conftest import DATA, WHO, Make, Opened

POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


@dataclass(frozen=True)
class Store:
    """An S3 service with the buckets `maps` and `other`, and the keys of a user who may read."""

    endpoint: str
    key: str
    secret: str

    def source(self, at: str = "s3://maps/", **more: Any) -> dict[str, Any]:
        keys = {"access_key": "env:S3_KEY", "secret_key": "env:S3_SECRET"}
        return {"at": at, "endpoint": self.endpoint, **keys, **more}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """moto in server mode. Once it is filled, it accepts only requests with a correct signature."""
    import boto3
    import requests
    from moto.server import ThreadedMotoServer

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_S3_CUSTOM_ENDPOINTS", "")
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"

        def client(name: str) -> Any:
            keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
            return boto3.client(name, endpoint_url=endpoint, region_name="us-east-1", **keys)

        s3, iam = client("s3"), client("iam")
        for bucket in ("maps", "other"):
            s3.create_bucket(Bucket=bucket)
            for key in ("cog/x.tif", "cog/a b+ü%41.tif", "cog/deep/y.tif"):
                s3.put_object(Bucket=bucket, Key=key, Body=DATA[:200_000])
            for key in ("tree/a/0", "tree/a/1", "tree/zarr"):
                s3.put_object(Bucket=bucket, Key=key, Body=b"chunk")
        iam.create_user(UserName="reader")
        iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(POLICY))
        keys = iam.create_access_key(UserName="reader")["AccessKey"]
        requests.post(f"{endpoint}/moto-api/reset-auth", data="0", timeout=10)
        yield Store(endpoint, keys["AccessKeyId"], keys["SecretAccessKey"])
        # its contents belong to this process
        requests.post(f"{endpoint}/moto-api/reset-auth", data="inf", timeout=10)
        requests.post(f"{endpoint}/moto-api/reset", timeout=10)
        server.stop()


@pytest.fixture(autouse=True)
def keys(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_KEY", store.key)
    monkeypatch.setenv("S3_SECRET", store.secret)


def test_key_is_read_with_a_verified_signature(make, opened, store, monkeypatch):
    gateway = make(store.source())
    for key in ("cog/x.tif", "cog/a b+ü%41.tif"):
        call = opened(gateway, f"s3://maps/{key}")
        assert call.read((100_000, 50)).body == DATA[100_000:100_050]
        assert call.reading.record()[0].address == f"s3://maps/{key}"
    second = opened(gateway, "s3://maps/cog/x.tif")
    second.read((100_000, 50))
    assert second.reading.record()[0].bytes == 0
    monkeypatch.setenv("S3_SECRET", "wrong")
    with pytest.raises(ToolError) as caught:
        opened(make(store.source()), "s3://maps/cog/x.tif")
    assert caught.value.code is Code.REMOTE_ERROR
    assert "403" in caught.value.message
    with pytest.raises(ToolError):  # and none without keys
        opened(make({"at": "s3://maps/", "endpoint": store.endpoint}), "s3://maps/cog/x.tif")


def test_missing_key_and_unlisted_bucket_are_distinguished(make: Make, opened: Opened, store: Store):
    gateway = make(store.source("s3://maps/cog/"))
    with pytest.raises(ToolError) as caught:
        opened(gateway, "s3://maps/cog/none.tif")
    assert caught.value.code is Code.NOT_FOUND
    for text in ("s3://other/cog/x.tif", "s3://maps/tree/zarr", "s3://maps/cog/../tree/zarr"):
        with pytest.raises(ToolError) as caught:
            gateway.address(text, WHO)
        assert caught.value.code in (Code.NETWORK_BLOCKED, Code.INVALID_ARGUMENT)


def test_tree_has_the_keys_its_bucket_lists(make: Make, opened: Opened, store: Store):
    call = opened(make(store.source()), "s3://maps/tree/")
    name = call.name
    assert call.list(name).body.split() == [b"a", b"zarr"]
    assert call.list(f"{name}/a").body.split() == [b"0", b"1"]
    assert call.look(f"{name}/a").body[:1] == b"\x02"
    assert call.read((0, 5), name=f"{name}/a/1").body == b"chunk"
    for below in ("a/2", "../cog/x.tif", "a/", "b"):
        assert call.look(f"{name}/{below}").status is Status.ENOENT, below
    assert call.reading.failure is None
    assert call.reading.record()[0].files == 1


def test_requester_pays_only_where_it_is_said(monkeypatch: pytest.MonkeyPatch):
    address = parse("s3://maps/x.tif")
    for pays in (False, True):
        source = RemoteSource.model_validate({"at": "s3://maps", "requester_pays": pays})
        target = signed(source, address, place(source, address), {})
        assert ("x-amz-request-payer" in target.headers) is pays


def test_where_buckets_are_asked_for():
    for text, more, host, path in (
        ("s3://maps/a b.tif", {"region": "eu-central-1"}, "maps.s3.eu-central-1.amazonaws.com", "/a%20b.tif"),
        ("s3://dotted.maps/a.tif", {}, "s3.us-east-1.amazonaws.com", "/dotted.maps/a.tif"),
        ("gs://maps/a/b.tif", {}, "storage.googleapis.com", "/maps/a/b.tif"),
        ("az://account/box/a.tif", {}, "account.blob.core.windows.net", "/box/a.tif"),
    ):
        source = RemoteSource.model_validate({"at": text.rpartition("/")[0] + "/", **more})
        target = place(source, parse(text))
        assert (target.scheme, target.host, target.path) == ("https", host, path)


def test_a_service_account_signs_for_itself(tmp_path: Path):
    """No server issues a token: it is checked with the public half of the key."""
    import jwt

    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path / "account.json"
    file.write_text(
        json.dumps({"private_key": private.decode(), "private_key_id": "1", "client_email": "a@b.test"})
    )
    source = RemoteSource.model_validate({"at": "gs://maps", "service_account": str(file)})
    address = parse("gs://maps/x.tif")
    target = signed(source, address, place(source, address), {})
    token = target.headers["Authorization"].removeprefix("Bearer ")
    claims = jwt.decode(token, key.public_key(), algorithms=["RS256"])
    assert claims["iss"] == claims["sub"] == "a@b.test"
    assert claims["scope"].endswith("devstorage.read_only")
    assert claims["exp"] - claims["iat"] <= 3600
    assert token not in repr(target)


def test_azure_gets_a_signature_for_reading_one_blob(monkeypatch: pytest.MonkeyPatch):
    key = base64.b64encode(b"secret-of-the-account").decode()
    monkeypatch.setenv("AZ", key)
    source = RemoteSource.model_validate({"at": "az://account/box/", "account_key": "env:AZ"})
    address = parse("az://account/box/a.tif")
    target = signed(source, address, place(source, address), {})
    rows = parse_qs(target.query)
    assert rows["sp"] == ["r"]
    assert rows["sr"] == ["b"]
    assert rows["sig"]
    assert key not in target.resource
    listing = signed(source, address.bucket, place(source, address.bucket), {})
    assert (parse_qs(listing.query)["sp"], parse_qs(listing.query)["sr"]) == (["l"], ["c"])
    monkeypatch.setenv("SAS", "?sv=1&sig=abc")
    ready = RemoteSource.model_validate({"at": "az://account/box/", "sas": "env:SAS"})
    assert signed(ready, address, place(ready, address), {}).query == "sv=1&sig=abc"
