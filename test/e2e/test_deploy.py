"""The files of deploy/ for clusters of machines: the Kubernetes files are compared with each other, with the Dockerfile and
with the keys of p2pml-node; the Slurm script runs with a stand-in for srun, up to a trained model."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import plain_yaml
from cluster import free_block, python_with

NODE = os.environ["P2PML_E2E_NODE"]
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KUBERNETES = os.path.join(SOURCE, "deploy/kubernetes")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("P2PML_", "SLURM_"))}


def read(*parts):
    with open(os.path.join(SOURCE, *parts), encoding="utf-8") as f:
        return f.read()


def keys():
    """Every key of a node, with the variable that sets it."""
    told = subprocess.run([NODE, "--help"], check=True, stdout=subprocess.PIPE, text=True, env=CLEAN).stdout
    return {"P2PML_" + key.upper().replace(".", "_"): key for key in re.findall(r"^([a-z][a-z_.]*) = ", told, re.M)}


class PlainYaml(unittest.TestCase):
    def test_the_yaml_of_deployments_is_read(self):
        text = 'a: {b: [1, "x: y"], c/d: e}  # f\nlist:\n  - k: v\n    l:\n      - m\n  - plain\nnull:\n---\n- x\n'
        self.assertEqual(plain_yaml.documents(text),
                         [{"a": {"b": ["1", "x: y"], "c/d": "e"}, "list": [{"k": "v", "l": ["m"]}, "plain"], "null": None}, ["x"]])

    def test_other_yaml_is_refused(self):
        for wrong in ("a: &b c", "a: 1\na: 2", "a: [1", "a: {b}", "a:\n    b: 1\n  c: 2", "a\tb: 1", "a: b: c", "just text", "a: |"):
            with self.assertRaises((plain_yaml.Broken, IndexError), msg=wrong):
                plain_yaml.documents(wrong)


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.objects = {o["kind"]: o for o in plain_yaml.documents(read("deploy/kubernetes/p2pml.yaml"))}
        self.kustomization, = plain_yaml.documents(read("deploy/kubernetes/kustomization.yaml"))
        self.config, = plain_yaml.documents(read("deploy/kubernetes/node.yaml"))
        self.pod = self.objects["StatefulSet"]["spec"]["template"]
        self.container, = self.pod["spec"]["containers"]

    def variables(self):
        return {e["name"]: e.get("value", e.get("valueFrom")) for e in self.container["env"]}

    def test_the_objects_refer_to_each_other(self):
        self.assertEqual(sorted(self.objects), ["PodDisruptionBudget", "Service", "StatefulSet"])
        service, stateful, budget = (self.objects[k] for k in ("Service", "StatefulSet", "PodDisruptionBudget"))
        labels = self.pod["metadata"]["labels"]
        self.assertEqual(service["spec"]["selector"], labels)
        self.assertEqual(stateful["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(budget["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(stateful["spec"]["serviceName"], service["metadata"]["name"])
        self.assertEqual((service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]), ("None", "true"))
        self.assertEqual([(p["name"], p["port"], p["protocol"]) for p in service["spec"]["ports"]],
                         [(p["name"], p["containerPort"], p["protocol"]) for p in self.container["ports"]])
        self.assertEqual(self.kustomization["resources"], ["p2pml.yaml"])
        volumes = {v["name"] for v in self.pod["spec"]["volumes"]}
        volumes |= {c["metadata"]["name"] for c in stateful["spec"]["volumeClaimTemplates"]}
        self.assertEqual({m["name"] for m in self.container["volumeMounts"]}, volumes)

    def test_config_and_secret_are_mounted_where_they_are_read(self):
        mounts = {m["name"]: m for m in self.container["volumeMounts"]}
        volumes = {v["name"]: v for v in self.pod["spec"]["volumes"]}
        generated = {kind: self.kustomization[kind][0] for kind in ("configMapGenerator", "secretGenerator")}
        self.assertEqual(volumes["config"]["configMap"]["name"], generated["configMapGenerator"]["name"])
        self.assertEqual(volumes["secret"]["secret"]["secretName"], generated["secretGenerator"]["name"])
        self.assertEqual(generated["configMapGenerator"]["files"], [mounts["config"]["subPath"]])
        self.assertIn(f"--config {mounts['config']['mountPath']} ", self.container["args"][0])
        secret, = generated["secretGenerator"]["files"]
        self.assertEqual(self.config["cluster"]["secret_file"], f"{mounts['secret']['mountPath']}/{secret}")
        self.assertTrue(self.variables()["P2PML_NODE_DIR"].startswith(mounts["data"]["mountPath"] + "/"))
        self.assertEqual(volumes["secret"]["secret"]["defaultMode"], "0440")  # the node refuses wider permissions

    def test_ports_and_probes_are_those_of_the_node(self):
        ports = {p["name"]: p["containerPort"] for p in self.container["ports"]}
        self.assertEqual(self.config["node"]["listen"], f"0.0.0.0:{ports['peers']}")
        self.assertEqual(ports["members"], ports["peers"])
        self.assertEqual(self.config["node"]["http"], f"0.0.0.0:{ports['http']}")
        self.assertEqual(self.config["peers"], [f"{self.objects['Service']['metadata']['name']}:{ports['peers']}"])
        for probe, path in (("startupProbe", "/livez"), ("readinessProbe", "/healthz"), ("livenessProbe", "/livez")):
            self.assertEqual(self.container[probe]["httpGet"], {"path": path, "port": "http"})
        self.assertEqual(self.pod["metadata"]["annotations"]["prometheus.io/port"], ports["http"])

    def test_every_variable_names_a_key(self):
        known = keys()
        variables = self.variables()
        self.assertLessEqual(set(variables), set(known))
        used = re.findall(r"\$\{?(P2PML_[A-Z_]*)", self.container["args"][0])
        self.assertLessEqual(set(used), set(variables))
        replicas = self.objects["StatefulSet"]["spec"]["replicas"]
        self.assertEqual((variables["P2PML_NODE_START_MEMBERS"], variables["P2PML_DATA_SHARDS"]), (replicas, replicas))

    def test_the_user_is_that_of_the_image(self):
        user = re.search(r"useradd --uid (\d+)", read("Dockerfile"))[1]
        context = self.pod["spec"]["securityContext"]
        self.assertEqual((context["runAsUser"], context["fsGroup"], context["runAsNonRoot"]), (user, user, "true"))
        self.assertEqual(self.container["securityContext"]["capabilities"], {"drop": ["ALL"]})

    def test_the_node_accepts_its_configuration(self):
        """The command of the pod, with --check and the paths of this host."""
        with tempfile.TemporaryDirectory(prefix="p2pml-deploy-") as directory:
            lab = os.path.join(os.path.dirname(NODE), "p2pml")
            subprocess.run([lab, "keygen", "--secret", f"{directory}/cluster.secret"], check=True, env=CLEAN)
            values = {k: v if isinstance(v, str) else "p2pml-3" for k, v in self.variables().items()}
            command = self.container["args"][0].replace("/etc/p2pml/node.yaml", f"{KUBERNETES}/node.yaml")
            command = command.replace("exec p2pml-node", f"exec '{NODE}' --check --set cluster.secret_file={directory}/cluster.secret")
            done = subprocess.run([*self.container["command"], command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**CLEAN, **values}, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("configuration is fine", done.stdout)

    def test_prometheus_finds_the_pods_under_the_name_that_the_alerts_expect(self):
        monitor, = plain_yaml.documents(read("deploy/kubernetes/podmonitor.yaml"))
        labels = self.pod["metadata"]["labels"]
        self.assertEqual(monitor["spec"]["selector"]["matchLabels"], labels)
        endpoint, = monitor["spec"]["podMetricsEndpoints"]
        self.assertIn(endpoint["port"], [p["name"] for p in self.container["ports"]])
        self.assertEqual(endpoint["path"], "/metrics")
        job = labels[monitor["spec"]["jobLabel"]]
        expected, = set(re.findall(r'job=~"([^"]*)"', read("deploy/prometheus/alerts.yml")))
        self.assertRegex(job, f"^(?:{expected})$")

    def test_the_objects_match_the_schema_of_kubernetes(self):
        python, file = python_with("kubernetes_validate"), os.path.join(KUBERNETES, "p2pml.yaml")
        if shutil.which("kubeconform"):
            subprocess.run(["kubeconform", "-strict", file], check=True, timeout=120)
        elif python:
            done = subprocess.run([python, "-m", "kubernetes_validate", "--strict", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=120, check=True)
            self.assertEqual(re.findall(r"passed for resource (\w+)/p2pml", done.stdout), ["service", "statefulset", "poddisruptionbudget"])
        else:
            self.skipTest("neither kubeconform nor a Python with kubernetes-validate (P2PML_TEST_PYTHON) here")


# Replaces srun: the tasks of all hosts are processes of this host, each with the variables that Slurm would set.
SRUN = r"""#!/bin/bash
while [[ $1 == --* ]]; do shift; done
for ((task = 0; task < SLURM_NTASKS; task++)); do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$@" >"$SRUN_LOGS/task-$task" 2>&1 &
done
status=0
for job in $(jobs -p); do wait "$job" || status=$?; done
exit $status
"""


class Slurm(unittest.TestCase):
    def test_the_allocation_trains_one_model(self):
        with tempfile.TemporaryDirectory(prefix="p2pml-slurm-") as directory:
            for name, text in (("srun", SRUN), ("scontrol", '#!/bin/sh\n[ "$1 $2 $3" = "show hostnames here" ] && echo 127.0.0.1\n')):
                with open(f"{directory}/{name}", "w", encoding="utf-8") as f:
                    f.write(text)
                os.chmod(f"{directory}/{name}", 0o755)
            port = free_block(0, 1, 2, 80, 81, 82)  # three nodes and their pages
            environment = {**CLEAN, "PATH": f"{directory}:{os.path.dirname(NODE)}:{os.environ['PATH']}", "SRUN_LOGS": directory,
                           "SLURM_NTASKS": "3", "SLURM_JOB_NODELIST": "here", "SLURM_JOB_NAME": "try", "SLURM_SUBMIT_DIR": directory,
                           "P2PML_PORT": str(port)}
            script = os.path.join(SOURCE, "deploy/slurm/p2pml.sbatch")
            done = subprocess.run(["bash", script, "--set", "train.steps=60", "--set", "average.local_steps=4", "--set", "node.linger=1s"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, timeout=120, check=False)
            logs = "".join(read(directory, f"task-{task}") for task in range(3))
            self.assertEqual(done.returncode, 0, done.stdout + logs)
            for task in range(3):
                self.assertTrue(os.path.exists(f"{directory}/p2pml-try/node-{task}/model.safetensors"), logs)
            self.assertEqual(os.stat(f"{directory}/p2pml-try/cluster.secret").st_mode & 0o777, 0o600)
            self.assertIn("shard 2 of 3", logs)
            self.assertIn("3 members in the graph", logs)


if __name__ == "__main__":
    unittest.main(verbosity=2)
