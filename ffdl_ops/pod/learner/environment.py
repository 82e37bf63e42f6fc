"""What a learner is told by its pod's environment, and what its program is told in turn."""

from __future__ import annotations

import json
import os
import sys

__all__ = ["Learner", "Peer", "program_environment"]

_OURS = ("FFDL_S3_", "FFDL_DATA_S3_")


class Peer:
    """One rank's address in the rendezvous."""

    def __init__(self, rank, ip, port):  # type: (int, str, int) -> None
        self.rank = rank
        self.ip = ip
        self.port = port

    @property
    def address(self):  # type: () -> str
        """`ip:port`, as the frameworks write it."""
        return "%s:%d" % (self.ip, self.port)


class Learner:
    """One learner of one attempt, as its environment describes it."""

    def __init__(self, env):  # type: (dict[str, str]) -> None
        self.env = dict(env)
        self.rank = int(env.get("FFDL_RANK", "0"))
        self.learner_id = int(env.get("LEARNER_ID", "1"))
        self.learners = int(env.get("NUM_LEARNERS", "1"))
        self.attempt = int(env.get("FFDL_ATTEMPT", "1"))
        self.pod_name = env.get("POD_NAME", "")
        self.pod_ip = env.get("POD_IP") or "127.0.0.1"
        self.base_port = int(env.get("FFDL_BASE_PORT", "20000"))
        self.grace_s = float(env.get("FFDL_GRACE_SECONDS", "30"))
        self.rendezvous_s = float(env.get("FFDL_START_TIMEOUT_SECONDS", "120"))
        self.command = env.get("TRAINING_COMMAND", "")
        self.code_dir = env.get("MODEL_DIR", ".")
        self.log_dir = env.get("LOG_DIR", ".")
        self.state_dir = env.get("JOB_STATE_DIR", ".")
        self.termination_log = env.get("FFDL_TERMINATION_LOG", "")

    @classmethod
    def from_environment(cls, env):  # type: (object) -> Learner
        """The learner of this process; ends it with a clear message when a variable is no number."""
        try:
            return cls(dict(env))  # type: ignore[call-overload]
        except ValueError as error:
            sys.exit("The learner's environment is wrong: %s" % error)

    def make_directories(self):  # type: () -> None
        """The directories that a program may expect."""
        for name in ("RESULT_DIR", "CHECKPOINT_DIR", "MODEL_DIR", "LOG_DIR", "JOB_STATE_DIR"):
            if self.env.get(name):
                os.makedirs(self.env[name], exist_ok=True)


def program_environment(learner, peers):  # type: (Learner, list[Peer]) -> dict[str, str]
    """The user's environment: FfDL's variables, the rendezvous in both frameworks' words, and none of our secrets."""
    env = {name: value for name, value in learner.env.items() if not name.startswith(_OURS)}
    master = peers[0]
    env.update(
        RANK=str(learner.rank),
        WORLD_SIZE=str(len(peers)),
        LOCAL_RANK="0",
        LOCAL_WORLD_SIZE="1",
        MASTER_ADDR=master.ip,
        MASTER_PORT=str(master.port),
        PYTHONUNBUFFERED="1",
    )
    if len(peers) > 1:
        cluster = {"worker": [peer.address for peer in peers]}
        env["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": learner.rank}})
    if learner.pod_ip.startswith("127."):
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return env
