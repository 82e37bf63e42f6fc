"""`ffdl simulate`."""

from __future__ import annotations

import json

import pytest

from ffdl_ops.lab.traces.philly_table import COLUMNS

ROWS = (
    "0,2017-10-01 00:00:00,8,8,1,600,,a",
    "1,2017-10-01 00:01:00,8,8,1,60,,a",
    "2,2017-10-01 00:02:00,1,1,1,60,,b",
    "3,2017-10-02 00:00:00,1,1,1,60,,",
)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([",".join(COLUMNS), *ROWS]) + "\n")
    return str(path)


def test_policies_are_compared_for_programs(cli, trace):
    done = cli.ok("simulate", "--trace", trace, "--nodes", "1", "--vc", "a", "--policy", "fifo,sjf", "--strict", "--json")
    found = json.loads(done.stdout)
    assert {name: found[name] for name in ("jobs", "skipped", "nodes", "gpus", "tenants", "strict")} == {
        "jobs": 2, "skipped": 0, "nodes": 1, "gpus": 8, "tenants": 1, "strict": True,
    }  # fmt: skip
    fifo, sjf = found["policies"]
    assert (fifo["policy"], sjf["policy"]) == ("fifo", "sjf")
    assert (fifo["jct_mean_s"], fifo["wait_mean_s"], fifo["utilisation"]) == (600, 270, 1.0)
    assert fifo["decisions"] == 2
    assert fifo["decisions_per_s"] > 0


def test_policies_are_compared_for_people(cli, trace):
    out = cli.ok("simulate", "--trace", trace, "--nodes", "1", "--policy", "fair").stdout
    assert "merged Philly table: 3 jobs of 2 tenants, 1 nodes, 8 GPUs; 1 more can't be replayed." in out
    assert "fair" in out
    assert "MEAN JCT" in out


def test_quotas_are_lent(cli, trace, tmp_path):
    quotas = tmp_path / "quotas.csv"
    quotas.write_text("vc,node num\na,1\nb,1\n")
    options = ("--trace", trace, "--nodes", "2", "--quotas", str(quotas), "--policy", "fifo", "--json")
    assert json.loads(cli.ok("simulate", *options).stdout)["policies"][0]["wait_mean_s"] < 60


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--policy", "shortest"), "--policy: there is no policy 'shortest'"),
        (("--nodes", "0"), "--nodes: '0' is neither a number of nodes from 1 nor a file"),
        (("--vc", "z"), "has no job to replay"),
        (("--stop-seconds", "7,30"), "--stop-seconds: '7,30' is not three numbers"),
        (("--since", "soon"), "Invalid value for '--since'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(cli, trace, options, expected):
    done = cli.run("simulate", "--trace", trace, "--nodes", "1", *options)
    assert done.exit_code == 2
    assert expected in done.stderr


def test_a_tenant_without_a_quota_is_named(cli, trace, tmp_path):
    quotas = tmp_path / "quotas.csv"
    quotas.write_text("vc,node num\na,1\n")
    done = cli.run("simulate", "--trace", trace, "--nodes", "1", "--quotas", str(quotas))
    assert done.exit_code == 2
    assert "has no line for b" in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"), [("a,b\n1,2\n", "line 1: this is neither Philly's cluster_job_log"), ("", "line 1: this is neither")]
)
def test_a_file_that_is_no_trace_ends_with_the_code_for_bad_data(cli, tmp_path, text, expected):
    path = tmp_path / "other.csv"
    path.write_text(text)
    done = cli.run("simulate", "--trace", str(path), "--nodes", "1")
    assert done.exit_code == 65
    assert expected in done.stderr
