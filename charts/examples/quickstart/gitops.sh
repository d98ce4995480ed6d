#!/usr/bin/env bash
# Manifests for a GitOps tool that takes the charts from an OCI registry, on standard output:
# charts/examples/quickstart/gitops.sh flux|argocd REGISTRY [VERSION], such as gitops.sh flux registry.example.com/team 0.1.0.
# `.ci/release REGISTRY VERSION` publishes images and charts there. Commit the output where the tool looks.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=${1:-} registry=${2:-} version=${3:-0.1.0}
case $tool in
  flux | argocd) ;;
  *) echo "say for which tool: gitops.sh flux REGISTRY, or gitops.sh argocd REGISTRY" >&2; exit 2 ;;
esac
case $registry in
  '' | *://* | */) echo "say where the charts are as HOST/PATH, without a scheme: gitops.sh $tool registry.example.com/team" >&2; exit 2 ;;
esac
sed -e "s|registry\.example\.com/platform|$registry|g" -e "s|: 0\.1\.0\b|: $version|g" "$tool/oci.yaml"
echo "Next: commit this and the folder charts/examples/team, with your Repo and Secrets, where ${tool} looks.
Roles' commands run in $registry/codebutler-workspace:$version: .ci/release publishes it where WORKSPACE_BASE names a Debian image. Otherwise set images.workspace." >&2
if [ "$tool" = argocd ]; then
  echo "Argo CD leaves Leases and EndpointSlices out. Once, before it applies this: kubectl apply -f charts/examples/argocd/excluded.yaml" >&2
fi
