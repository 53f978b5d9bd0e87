"""Trace folders of each format, for tests."""

import gzip
from pathlib import Path

import numpy as np

from equipoise.lab.model.trace import (
    Trace,
    TraceWorkload,
)

ALIBABA = {
    "nodes": "node_id,cpu_milli,memory_mib,disk_gib\n"
    "machine_1,32000,65536,9\nmachine_2,92000,294912,9\nmachine_3,32000,65536,9\n",
    "pods": "pod_id,app_id,node_id\ni1,app_1,machine_1\ni2,app_1,machine_2\ni3,app_2,machine_2\ni4,app_2,\n",
    "app_cpu_milli": "app_id,t0,t1\napp_1,500,4500\napp_2,,300\napp_3,1,1\n",
    "app_memory_mib": "app_id,t0,t1\napp_1,100,200\napp_2,50,50\napp_3,1,1\n",
    "anti_affinity": "app_a,app_b,max_b\napp_1,app_1,1\napp_1,app_2,0\napp_3,app_1,0\n",
}

BITBRAINS = {
    "pods": "pod_id,cpu_provisioned_milli,memory_provisioned_mib,mhz_per_core\n"
    "vm1,2000,1000,2926\nvm2,1000,3000,2600\nvm3,8000,64000,2600\n",
    "cpu_milli": "time,vm1,vm2,vm3\n1375308000,100,50,\n1375308300,,150,\n1375308600,1000,100,\n",
    "memory_mib": "time,vm1,vm2,vm3\n1375308000,10,20,5\n1375308300,30,20,5\n1375308600,20,20,5\n",
}

OPENB = {
    "openb_nodes": "node_id,cpu_milli,memory_mib,gpu,gpu_model\nn1,8000,16384,2,T4\nn2,4000,8192,0,\n",
    "openb_pods": "pod_id,cpu_request_milli,memory_request_mib,num_gpu,gpu_milli,qos,phase\n"
    "p1,6000,2048,2,1000,LS,Running\np2,1000,1024,1,500,BE,Failed\n"
    "p3,500,512,0,0,Burstable,Running\np4,250,0,0,0,Guaranteed,Running\n",
}

OPENB_PUBLISHED = {
    "openb_node_list_gpu_node": "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,16384,2,T4\nn2,4000,8192,0,\n",
    "openb_pod_list_default": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "p1,6000,2048,2,1000,,LS,Running,0,12537496,0\np2,1000,1024,1,500,T4|P100,BE,Pending,5,9,\n"
    "p3,500,512,0,0,,Burstable,Running,1,2,1\np4,250,0,0,0,,Guaranteed,Running,1,2,1\n",
}
"""The same cluster as `OPENB`, in the columns of the published files."""

ALIBABA_PUBLISHED = {
    "scheduling_preliminary_b_machine_resources_20180726": "machine_1,32,64,9,7,3,7\n"
    "machine_2,92,288,9,7,7,9\nmachine_3,32,64,9,7,3,7\n",
    "scheduling_preliminary_b_instance_deploy_20180726": "i1,app_1,machine_1\ni2,app_1,machine_2\n"
    "i3,app_2,machine_2\ni4,app_2,\n",
    "scheduling_preliminary_b_app_resources_20180726": "app_1,0.5|4.5,0.09765625|0.1953125,60,0,0,0\n"
    "app_2,|0.3,0.048828125|0.048828125,60,0,0,0\napp_3,0.001|0.001,0.0009765625|0.0009765625,60,0,0,0\n",
    "scheduling_preliminary_b_app_interference_20180726": "app_1,app_1,1\napp_1,app_2,0\napp_3,app_1,0\n",
}
"""The same cluster as `ALIBABA`."""

_BITBRAINS_HEADER = (
    "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\t"
    "Memory capacity provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s]\n"
)
BITBRAINS_PUBLISHED = {
    "1": f"{_BITBRAINS_HEADER}"
    "1375308001;\t2;\t5852.0;\t292.6;\t5.0;\t1024000.0;\t10240.0;\t0.0\n"
    "1375308302;\t2;\t5852.0;\t;\t;\t1024000.0;\t30720.0;\t0.0\n"
    "1375308604;\t2;\t5852.0;\t2926.0;\t50.0;\t1024000.0;\t20480.0;\t0.0\n",
    "2": f"{_BITBRAINS_HEADER}"
    "1375308000;\t1;\t2600.0;\t130.0;\t5.0;\t3072000.0;\t20480.0;\t0.0\n"
    "1375308300;\t1;\t2600.0;\t390.0;\t15.0;\t3072000.0;\t20480.0;\t0.0\n"
    "1375308899;\t1;\t2600.0;\t260.0;\t10.0;\t3072000.0;\t20480.0;\t0.0\n",
    "10": f"{_BITBRAINS_HEADER}",
}
"""The first two machines of `BITBRAINS`, and one without readings."""

OWN = {
    "nodes": "name,cpu_milli,memory_mib\nn1,4000,8192\nn2,4000,8192\n",
    "workloads": "name,request_cpu_milli,request_memory_mib\nweb,100,200\njob,0,0\n",
    "pods": "name,workload,node\nweb-1,web,n1\nweb-2,web,\njob-1,job,n1\n",
    "cpu_milli": "workload,t0,t1,t2\nweb,10,,30\njob,5,5.5,6\n",
    "memory_mib": "workload,t0,t1,t2\nweb,100,110,120\njob,1,1,1\n",
    "anti_affinity": "beside,limited,most\nweb,web,2\n",
}

ABOUT = b'{"format": "equipoise.dev/trace/v1", "name": "small", "seconds_per_step": 900}'


def write_folder(folder: Path, tables: dict[str, str], about: bytes | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in tables.items():
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    if about is not None:
        (folder / "trace.json").write_bytes(about)
    return folder


def assert_same(expected: Trace, actual: Trace) -> None:
    for field in expected.__struct_fields__:
        one, other = getattr(expected, field), getattr(actual, field)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, field


def by_name(trace: Trace) -> dict[str, TraceWorkload]:
    return {workload.name: workload for workload in trace.workloads}
