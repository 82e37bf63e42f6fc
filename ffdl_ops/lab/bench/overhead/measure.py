"""One pair: all arms of a configuration, measured against each other; whatever happens, nothing of it is left afterwards.

On the embedded cluster all arms are started once and then train by turns on the same CPUs, so that what compares is neighbours in
time. Elsewhere, with several learners, on real GPUs or with a user's own program each arm runs from its start to its end, in
random order (`whole`).
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ffdl_ops.core.errors import TemporaryError, UserError
from ffdl_ops.lab.bench.overhead import machine
from ffdl_ops.lab.bench.overhead.arms import PROGRAM, Setting
from ffdl_ops.lab.bench.overhead.cpus import Partition
from ffdl_ops.lab.bench.overhead.records import Arm, Configuration, Pair
from ffdl_ops.lab.bench.overhead.rounds import by_turns
from ffdl_ops.lab.bench.overhead.started import Started, only_one
from ffdl_ops.lab.bench.overhead.turns import ArmFailed

if TYPE_CHECKING:
    from ffdl_ops.adapters.settings import Settings

__all__ = ["MEMORY", "PairFailed", "clean_up", "measure_pair"]

MEMORY = "8Gi"
_TOLD = 4000


class PairFailed(TemporaryError):
    """A pair could not be measured; the message names the arm and shows the end of its log."""


def measure_pair(
    settings: Settings,
    configuration: Configuration,
    arms: Collection[Arm],
    *,
    number: int,
    seed: int,
    rounds: int,
    save_rounds: int,
    turn_s: float,
    tenant: str,
    say: Callable[[str], None] = lambda line: None,
    memory: str = MEMORY,
    program: str = PROGRAM,
    data: str | None = None,
    partition: Partition | None = None,
) -> Pair:
    """Measure all arms of a configuration against each other once.

    :param number: of the pair, from 1.
    :param seed: of the order of the arms.
    :param rounds: turns of each arm.
    :param save_rounds: further turns of the arms that save, each with one checkpoint.
    :param turn_s: seconds of a turn.
    :param tenant: whose DAG, namespace and data.
    :param memory: of each learner.
    :param program: how the program is called, instead of ours.
    :param data: ``bucket/prefix`` of its data; by default shards that are made for the configuration.
    :param partition: the CPUs as they are divided already, for a sweep; by default for this pair.
    :raises PairFailed: when an arm can't be measured; nothing of the pair is left.
    :raises UserError: for arms or a configuration that can't be measured here.
    """
    from ffdl_ops.lab.bench.overhead import whole

    wanted = _checked(settings, arms, rounds, save_rounds, turn_s)
    with ExitStack() as stack:
        stack.enter_context(only_one(settings))
        setting = _setting(settings, configuration, tenant, number, memory, program)
        if setting.started.end_all(setting.airflow, setting.cluster):
            say("Ended what an earlier measurement had left.")
        in_turn = configuration.learners == 1 and configuration.manifest is None and setting.admin is not None
        in_turn = in_turn and not (configuration.gpus and _has_real_gpus(setting))
        if partition is None:
            partition = stack.enter_context(Partition(settings))
        else:
            partition.close()
        divided = partition.split
        setting = replace(setting, training=divided.training if divided else None, data=data or _seeded(setting))
        stack.callback(setting.started.end_all, setting.airflow, setting.cluster)
        rng, began = random.Random(seed), time.time()
        before = machine.facts(setting.training) if setting.training else {}
        try:
            if in_turn:
                runs = by_turns(setting, partition, wanted, rng, rounds, save_rounds, turn_s, say)
            else:
                runs = whole.measure(setting, wanted, rng, rounds * turn_s, say)
        except ArmFailed as failed:
            raise PairFailed(f"{configuration.key}: {failed}"[:_TOLD]) from None
        after = machine.facts(setting.training) if setting.training else {}
        found = {**before, "after": after, "control_cpus": list(divided.control) if divided else [], "turns": in_turn}
        found["simulated_gpus"] = bool(configuration.gpus) and not _has_real_gpus(setting)
        return Pair(configuration, number, seed, tuple(runs), found, began, time.time())


def clean_up(settings: Settings) -> int:
    """End what a killed measurement has left, and give all CPUs back; how many things lived.

    :raises TemporaryError: while another process measures.
    """
    from ffdl_ops.adapters.airflow_api import AirflowApi
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.lab.bench.overhead.cpus import restore

    with only_one(settings):
        restore(settings)
        return Started(settings).end_all(AirflowApi.from_settings(settings), Cluster(settings.kubeconfig))


def _setting(
    settings: Settings, configuration: Configuration, tenant: str, number: int, memory: str, program: str
) -> Setting:
    from ffdl_ops.adapters.airflow_api import AirflowApi
    from ffdl_ops.adapters.cluster.client import Cluster
    from ffdl_ops.adapters.cluster.embedded import AdminClient
    from ffdl_ops.core.jobs.manifest import load_manifest

    if tenant not in [one.name for one in settings.tenants]:
        raise UserError(
            f"tenant: there is no tenant {tenant!r}; there are {', '.join(one.name for one in settings.tenants)}."
        )
    framework = {"name": configuration.framework, "command": "true"}
    wanted = configuration.manifest or {"name": "x", "framework": framework}
    image = settings.platform.find_image(load_manifest(wanted))
    if image is None:
        raise UserError(f"framework: platform.yaml has no image for {configuration.framework!r}.")
    embedded = settings.platform.profile == "embedded" and settings.kubeconfig is not None
    return Setting(
        settings, configuration, tenant, f"oh-{uuid.uuid4().hex[:8]}-{number}", memory, None, program, None, image,
        AirflowApi.from_settings(settings, budget_s=120), Cluster(settings.kubeconfig), Started(settings),
        AdminClient.from_kubeconfig(str(settings.kubeconfig)) if embedded else None,
    )  # fmt: skip


def _seeded(setting: Setting) -> str | None:
    """Where the configuration's shards are, made if they were missing; ``None`` when it reads none."""
    one = setting.configuration
    if one.data != "jpeg" or one.manifest is not None:
        return None
    from ffdl_ops.adapters.storage.store import ObjectStore
    from ffdl_ops.lab.bench.overhead.data import seed_shards  # type: ignore[import-not-found,unused-ignore]

    bucket = setting.settings.tenants[setting.tenant].bucket
    prefix = f"bench/overhead/jpeg-{_SHARD_IMAGES}x{_SHARD_SIZE}"
    seed_shards(ObjectStore(setting.settings.store_config(setting.tenant)), bucket, prefix, _SHARD_IMAGES, _SHARD_SIZE)
    return f"{bucket}/{prefix}"


_SHARD_IMAGES, _SHARD_SIZE = 256, 256


def _checked(settings: Settings, arms: Collection[Arm], rounds: int, save_rounds: int, turn_s: float) -> list[Arm]:
    wanted = [arm for arm in Arm if arm in set(arms)]
    if not wanted:
        raise UserError("arms: there is none to measure.")
    for name, value, least in (("rounds", rounds, 1), ("save_rounds", save_rounds, 0)):
        if value < least:
            raise UserError(f"{name}: {value} must be {least} or more.")
    if not 0 < turn_s <= 3600:
        raise UserError(f"turn_s: {turn_s} must be above 0 and at most 3600 s.")
    return wanted


def _has_real_gpus(setting: Setting) -> bool:
    nodes = setting.cluster.nodes()
    marks = [(node.metadata.annotations or {}).get("ffdl.dev/gpus", "") for node in nodes]
    return not all(mark.startswith("simulated") for mark in marks if mark) or not any(marks)
