"""Where a store is and what opens it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ffdl_ops.adapters.storage.errors import BadSpec

__all__ = ["StoreConfig", "from_env"]


@dataclass(frozen=True)
class StoreConfig:
    """A store's endpoint and one account's credentials.

    :param endpoint_url: the S3 endpoint; ``None`` for Amazon's own.
    :param secret_key: never shown by `repr` and never put on a command line.
    """

    endpoint_url: str | None
    access_key: str
    secret_key: str = field(repr=False)
    region: str = "us-east-1"

    def environment(self) -> dict[str, str]:
        """The credentials as S3 tools read them from their environment."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    def redact(self, text: str) -> str:
        """The text with this account's secrets blotted out."""
        for secret in (self.secret_key, self.access_key):
            if secret:
                text = text.replace(secret, "***")
        return text


def from_env(prefix: str = "FFDL_S3_", environ: Mapping[str, str] | None = None) -> StoreConfig:
    """The store that the environment names.

    :param prefix: "FFDL_S3_" for the tenant's store, "FFDL_DATA_S3_" for the manifest's own data store.
    :raises BadSpec: when a variable is missing; it names the variable, never a value.
    """
    env = os.environ if environ is None else environ
    missing = [prefix + name for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY") if not env.get(prefix + name)]
    if missing:
        raise BadSpec(f"{' and '.join(missing)} must be set in the environment (the tenant's storage secret gives them).")
    return StoreConfig(
        endpoint_url=env.get(prefix + "ENDPOINT") or None,
        access_key=env[prefix + "ACCESS_KEY_ID"],
        secret_key=env[prefix + "SECRET_ACCESS_KEY"],
        region=env.get(prefix + "REGION") or "us-east-1",
    )
