#!/usr/bin/env bash
# CodeButler on the cluster that kubectl points at, with images in a registry that its nodes pull from:
# charts/examples/quickstart/cluster.sh [--dry-run] REGISTRY, such as registry.example.com/team.
# IMAGES=there: they are in the registry already. VERSION is their tag. What follows REGISTRY goes to helm (--set …).
# SMALL_NODES=yes: an autoscaler adds nodes that are large enough.
. "$(dirname "$0")/lib.sh"
registry=${1:-}
case $registry in
  '' | *://* | */) echo "say where the nodes pull images from, as HOST/PATH: cluster.sh registry.example.com/team" >&2; exit 2 ;;
esac
shift
builder=${IMAGE_BUILDER:-}
if [ "${IMAGES:-}" != there ]; then
  need_builder buildah
  need_rust
  # The same that .ci/images takes: only that one has the images to push.
  for tool in docker podman buildah; do
    [ -n "$builder" ] || ! "$tool" info > /dev/null 2>&1 || builder=$tool
  done
fi
builder=${builder:-docker}
need kubectl "https://kubernetes.io/docs/tasks/tools/"
need helm "https://helm.sh/docs/intro/install/"
ready
if [ -z "$dry" ] && ! said=$(kubectl version --request-timeout=10s 2>&1); then
  echo "kubectl reaches no cluster: ${said##*$'\n'}. Choose one with kubectl config use-context, or try charts/examples/quickstart/kind.sh." >&2
  exit 1
fi
if [ -z "$dry" ]; then
  server=$(sed -n 's/^Server Version: v*\([0-9][0-9.]*\).*/\1/p' <<< "$said")
  wanted=$(sed -n 's/^kubeVersion: ">=\([0-9.]*\).*/\1/p' charts/codebutler/Chart.yaml)
  need_version "the cluster's Kubernetes" "$server" "$wanted" "upgrade it, or try charts/examples/quickstart/kind.sh"
  if [ "$(kubectl auth can-i create customresourcedefinitions.apiextensions.k8s.io 2> /dev/null)" = no ]; then
    missing+="you may not create definitions in this cluster: have an administrator run this, or try charts/examples/quickstart/kind.sh"$'\n'
  fi
  need_nodes
  need_storage "$@"
  ready
fi
if [ "${IMAGES:-}" != there ]; then
  run .ci/images "$registry/" "$version"
  for part in operator agent workspace; do run "$builder" push "$registry/codebutler-$part:$version"; done
fi
install_charts "$registry" "$@"
finish
