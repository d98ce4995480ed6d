"""The cluster on which helm_charts.py drives the charts: what is looked at there, and what is put there."""

import contextlib
import sys

from kubernetes import client, config
from kubernetes.client.rest import ApiException

NAMESPACE = sys.argv[2]
NAMES = ["agentroles", "repos", "threads"]
SECRETS = "codebutler-gateway-secrets"
OURS = {"codebutler-controller", "codebutler-gateway", SECRETS}


class World:
    def __init__(self):
        config.load_kube_config()
        self.apps = client.AppsV1Api()
        self.rbac = client.RbacAuthorizationV1Api()
        self.definitions = client.ApiextensionsV1Api()
        self.objects = client.CustomObjectsApi()
        self.core = client.CoreV1Api()
        self.leases = client.CoordinationV1Api()
        self.slices = client.DiscoveryV1Api()
        self.storage = client.StorageV1Api()

    def defined(self):
        listed = self.definitions.list_custom_resource_definition().items
        return {d.metadata.name for d in listed}

    def adopt(self):
        """On a cluster that was used before: definitions of no release become the chart's."""
        body = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {
            "meta.helm.sh/release-name": "codebutler-crds",
            "meta.helm.sh/release-namespace": NAMESPACE}}}
        for name in NAMES:
            try:
                self.definitions.patch_custom_resource_definition(f"{name}.codebutler.dev", body)
            except ApiException as error:
                if error.status != 404:
                    raise

    def forget_rights(self):
        """The same for the rights that a run of the whole stack leaves behind."""
        for name in self.cluster_roles():
            self.rbac.delete_cluster_role(name)
            if name != SECRETS:
                self.rbac.delete_cluster_role_binding(name)

    def has_default_class(self):
        default = "storageclass.kubernetes.io/is-default-class"
        classes = self.storage.list_storage_class().items
        return any((c.metadata.annotations or {}).get(default) == "true" for c in classes)

    def make_default_class(self):
        self.storage.create_storage_class({
            "metadata": {"name": "disks", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "disks.example.com"})

    def claims(self):
        """Names of the volumes that were asked for."""
        return {c.metadata.name for c in self.core.list_namespaced_persistent_volume_claim(NAMESPACE).items}

    def fill(self):
        """As the gateway fills what the chart brings."""
        self.core.patch_namespaced_secret("codebutler-gateway-tls", NAMESPACE, {"data": {"tls.key": "a2V5"}})
        self.core.patch_namespaced_config_map("codebutler-gateway-ca", NAMESPACE, {"data": {"ca.crt": "PEM"}})
        lease = {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
        self.leases.patch_namespaced_lease("codebutler-gateway", NAMESPACE, lease)
        slice = {"endpoints": [{"addresses": ["10.1.0.1"]}]}
        self.slices.patch_namespaced_endpoint_slice("codebutler-gateway", NAMESPACE, slice)

    def is_filled(self, uninstalled=False):
        """Whether all of that is as it was filled."""
        secret = self.core.read_namespaced_secret("codebutler-gateway-tls", NAMESPACE)
        assert secret.data == {"tls.key": "a2V5"}, secret
        assert self.core.read_namespaced_config_map("codebutler-gateway-ca", NAMESPACE).data == {"ca.crt": "PEM"}
        assert self.leases.read_namespaced_lease("codebutler-gateway", NAMESPACE).spec.holder_identity == "a"
        if not uninstalled:
            slice = self.slices.read_namespaced_endpoint_slice("codebutler-gateway", NAMESPACE)
            assert slice.endpoints[0].addresses == ["10.1.0.1"], slice

    def created_before(self):
        """The same as an earlier version's components created them: of no release, and of another type."""
        metadata = {"name": "codebutler-gateway-tls", "labels": {"app.kubernetes.io/managed-by": "codebutler-gateway"}}
        secret = {"metadata": metadata, "type": "kubernetes.io/tls", "data": {"tls.key": "a2V5", "tls.crt": "Y3J0"}}
        self.core.create_namespaced_secret(NAMESPACE, secret)

    def forget_filled(self):
        self.core.delete_namespaced_secret("codebutler-gateway-tls", NAMESPACE)
        self.core.delete_namespaced_config_map("codebutler-gateway-ca", NAMESPACE)
        for name in ("codebutler-gateway", "codebutler-controller"):
            self.leases.delete_namespaced_lease(name, NAMESPACE)

    def role(self, name):
        return self.objects.get_namespaced_custom_object(
            "codebutler.dev", "v1alpha1", NAMESPACE, "agentroles", name)

    def cluster_roles(self):
        return {r.metadata.name for r in self.rbac.list_cluster_role().items
                if r.metadata.name in OURS}

    def deployments(self):
        return {d.metadata.name: d for d in self.apps.list_namespaced_deployment(NAMESPACE).items}

    def waiting_images(self):
        return {d.metadata.name for d in self.apps.list_namespaced_daemon_set(NAMESPACE).items}

    def users(self):
        return {name: d.spec.template.spec.security_context.run_as_user
                for name, d in self.deployments().items()}

    @contextlib.contextmanager
    def openshift(self):
        """Has the API by which one knows it, for a while."""
        names = {"kind": "SecurityContextConstraints", "plural": "securitycontextconstraints"}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        name = "securitycontextconstraints.security.openshift.io"
        self.definitions.create_custom_resource_definition({
            "metadata": {"name": name},
            "spec": {"group": "security.openshift.io", "scope": "Cluster", "names": names,
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}})
        try:
            yield
        finally:
            self.definitions.delete_custom_resource_definition(name)
