"""What a learner is told by its pod's environment, and what its program is told in turn."""

from __future__ import annotations

import json
import os

__all__ = ["Learner", "Peer", "WrongEnvironment", "program_environment"]

_OURS = "FFDL_"
_SHARED = ("FFDL_ATTEMPT", "FFDL_RESTORED_STEP", "FFDL_RESTORED_GENERATION")
# The log first: the others may fail, which is then told there.
_DIRECTORIES = ("LOG_DIR", "RESULT_DIR", "CHECKPOINT_DIR", "MODEL_DIR", "JOB_STATE_DIR")


class WrongEnvironment(Exception):
    """The pod's environment can't be used; the message names the variable, its value and what it should be."""


class Peer:
    """One rank's address in the rendezvous."""

    def __init__(self, rank: int, ip: str, port: int) -> None:
        self.rank = rank
        self.ip = ip
        self.port = port

    @property
    def address(self) -> str:
        """`ip:port`, as the frameworks write it; an IPv6 address in brackets."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class Learner:
    """One learner of one attempt, as its environment describes it. Times are in seconds.

    Raises `WrongEnvironment` when a variable has no usable value.
    """

    def __init__(self, env: dict[str, str]) -> None:
        self.env = dict(env)
        self.learners = _whole(env, "NUM_LEARNERS", 1, least=1)
        self.rank = _whole(env, "FFDL_RANK", 0, least=0)
        self.learner_id = _whole(env, "LEARNER_ID", self.rank + 1, least=1)
        self.attempt = _whole(env, "FFDL_ATTEMPT", 1, least=1)
        self.base_port = _whole(env, "FFDL_BASE_PORT", 20000, least=1)
        self.grace_s = _seconds(env, "FFDL_GRACE_SECONDS", 30.0)
        self.rendezvous_s = _seconds(env, "FFDL_START_TIMEOUT_SECONDS", 120.0)
        self.pod_name = env.get("POD_NAME", "")
        self.pod_ip = env.get("POD_IP") or "127.0.0.1"
        self.command = env.get("TRAINING_COMMAND", "")
        self.code_dir = env.get("MODEL_DIR") or os.getcwd()
        self.log_dir = env.get("LOG_DIR") or os.getcwd()
        self.state_dir = env.get("JOB_STATE_DIR") or os.getcwd()
        self.termination_log = env.get("FFDL_TERMINATION_LOG", "")
        if self.rank >= self.learners:
            raise WrongEnvironment(f"FFDL_RANK={self.rank} must be less than NUM_LEARNERS={self.learners}")
        if not self.command.strip():
            raise WrongEnvironment("TRAINING_COMMAND is empty: it must hold the shell command that runs the program")

    @property
    def log_path(self) -> str:
        """Where this learner's lines are kept."""
        return os.path.join(self.log_dir, f"learner-{self.learner_id}.log")

    @property
    def report_path(self) -> str:
        """Where this learner's exit report is kept."""
        return os.path.join(self.log_dir, f"learner-{self.learner_id}.exit.json")

    @property
    def progress_path(self) -> str:
        """Where the program may write its progress, as `{"step": 3}`."""
        return os.path.join(self.state_dir, f"progress-{self.learner_id}.json")

    def make_directories(self) -> None:
        """Make the directories that a program may expect. Raises `OSError` when one can't be made."""
        for name in _DIRECTORIES:
            if self.env.get(name):
                os.makedirs(self.env[name], exist_ok=True)


def program_environment(learner: Learner, peers: list[Peer]) -> dict[str, str]:
    """The program's environment: FfDL's variables, the pod's own, and the rendezvous in both frameworks' words.

    Of the platform's variables it sees the attempt and what was restored; credentials never.
    """
    env = {name: value for name, value in learner.env.items() if name in _SHARED or not name.startswith(_OURS)}
    env.update(rendezvous_variables(learner.rank, peers), PYTHONUNBUFFERED="1")
    if learner.pod_ip.startswith("127."):
        # Gloo would look up the host's name and may take an address that the other learners don't share.
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return env


def rendezvous_variables(rank: int, peers: list[Peer]) -> dict[str, str]:
    """What a rank finds the others by: as torchrun sets it, and, when there are several, as TensorFlow reads it."""
    found = {
        "RANK": str(rank), "WORLD_SIZE": str(len(peers)), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": peers[0].ip, "MASTER_PORT": str(peers[0].port),
    }  # fmt: skip
    if len(peers) > 1:
        cluster = {"worker": [peer.address for peer in peers]}
        found["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
    return found


def _whole(env: dict[str, str], name: str, default: int, least: int) -> int:
    text = env.get(name) or str(default)
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise WrongEnvironment(f"{name}={text!r} must be a whole number from {least} on")
    return value


def _seconds(env: dict[str, str], name: str, default: float) -> float:
    text = env.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise WrongEnvironment(f"{name}={text!r} must be a number of seconds")
    return value
