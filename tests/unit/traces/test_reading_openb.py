"""Alibaba's GPU trace of 2023."""

from __future__ import annotations

from collections import Counter

import pytest

from ffdl_ops.lab.traces.openb import NODE_COLUMNS, POD_COLUMNS, pod_jobs, read_nodes, read_pods
from ffdl_ops.lab.traces.reading import TraceError
from tests.support.traces import trace_file

PODS = ",".join(POD_COLUMNS)
NODES = ",".join(NODE_COLUMNS) + "\nn0,64000,1024,2,P100\nn1,64000,1024,4,T4\nn2,64000,1024,8,G2\nn3,64000,1024,0,\n"


def pods(tmp_path, *rows):
    path = tmp_path / "pods.csv"
    path.write_text("\n".join([PODS, *rows]) + "\n")
    return path


def test_the_published_tables_are_read_whole():
    nodes = read_nodes(trace_file("openb_node_list_gpu_node.csv"))
    found = read_pods(trace_file("openb_pod_list_default.csv"))
    assert (len(nodes), len({node.name for node in nodes}), len(found)) == (1_213, 1_213, 8_152)
    assert Counter(pod.phase for pod in found) == {"Running": 5_193, "Failed": 1_870, "Pending": 897, "Succeeded": 192}
    assert sum(1 for pod in found if pod.scheduled_s is None) == 897
    assert len(pod_jobs(found, nodes)) == 8_152 - 897
    assert Counter(node.gpu_type for node in nodes)["T4"] == 404


def test_a_pod_becomes_a_gang_of_one(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    nodes = read_nodes(path)
    rows = (
        "p0,12000,16384,1,460,,LS,Running,5,100,10",
        "p1,4000,100,0,0,,BE,Failed,7,9,8",
        "p2,1,1,1,1000,,BE,Pending,0,9,",
    )
    first, second = pod_jobs(read_pods(pods(tmp_path, *rows)), nodes)
    assert (first.request.gpus, first.request.cpu_millis, first.request.memory_bytes) == (1, 12_000, 16 << 30)
    assert (first.request.gpu_type, first.duration_s) == (None, 90.0)
    assert (second.request.gpus, second.duration_s) == (0, 1.0)
    assert (nodes[3].gpu_type, nodes[3].gpus) == (None, 0)


def test_a_pod_that_names_gpu_models_gets_no_others(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text(NODES)
    rows = ("p0,1,1,1,1000,T4,LS,Running,0,1,0", "p1,1,1,1,1000,T4|G2,LS,Running,0,1,0")
    first, second = pod_jobs(read_pods(pods(tmp_path, *rows)), read_nodes(path))
    assert (first.request.gpu_type, first.request.excluded_nodes) == ("T4", frozenset())
    assert (second.request.gpu_type, second.request.excluded_nodes) == (None, {"n0", "n3"})


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("p,1,1,1,1001,,LS,Running,0,1,0", "line 2, field gpu_milli is '1001'; it must be what 1 GPUs can have"),
        ("p,1,1,2,500,,LS,Running,0,1,0", "field gpu_milli is '500'"),
        ("p,1,1,1,500,,LS,Running,5,9,4", "field scheduled_time is '4'; it must be between creation (5) and deletion (9)"),
        ("p,x,1,1,500,,LS,Running,5,9,6", "field cpu_milli is 'x'; it must be a whole number"),
    ],
)
def test_a_wrong_pod_is_named_by_file_line_field_and_value(tmp_path, row, expected):
    with pytest.raises(TraceError) as caught:
        read_pods(pods(tmp_path, row))
    assert "pods.csv" in str(caught.value)
    assert expected in str(caught.value)
